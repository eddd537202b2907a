"""Force fields for molecular liquids: parameters of OpenFF and GAFF2, AM1-BCC charges, OpenMM systems and boxes."""
