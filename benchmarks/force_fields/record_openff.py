"""Records labels and energies of OpenFF's own programs. It runs without sciagent, in a Python of its own."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.force_fields.molecules import MOLECULES, ComparedMolecule, compared_molecule

FORCE_FIELD = "openff_unconstrained-2.2.1"
CONSTRAINED = "openff-2.2.1"
SECTIONS = ("vdW", "Bonds", "Angles", "ProperTorsions", "ImproperTorsions")
TERMS = {
    "HarmonicBondForce": "bonds",
    "HarmonicAngleForce": "angles",
    "PeriodicTorsionForce": "torsions",
    "NonbondedForce": "nonbonded",
}


def labels(force_field: Any, molecule: Any, section: str) -> list[list[int | str]]:
    """Returns the labels of a section, each as its atoms and the id of its row."""
    found = force_field.label_molecules(molecule.to_topology())[0][section]
    return [[*atoms, row.id] for atoms, row in sorted(found.items())]


def energies(force_field: Any, molecule: Any, compared: ComparedMolecule) -> Mapping[str, float]:
    """Returns the energy of each term in kJ/mol, without a cutoff."""
    import numpy as np
    import openmm

    interchange = force_field.create_interchange(molecule.to_topology(), charge_from_molecules=[molecule])
    system = interchange.to_openmm_system(combine_nonbonded_forces=True)
    for group, force in enumerate(system.getForces()):
        force.setForceGroup(group)
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPositions(np.array(compared.positions) / 10)
    result = dict.fromkeys(TERMS.values(), 0.0)
    for group, force in enumerate(system.getForces()):
        if type(force).__name__ in TERMS:
            state = context.getState(getEnergy=True, groups={group})
            result[TERMS[type(force).__name__]] = state.getPotentialEnergy()._value
    return result


def main() -> None:
    """Writes the recorded values to the named file."""
    from openff import interchange, toolkit
    from openff.units import unit

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    force_field = toolkit.ForceField(f"{FORCE_FIELD}.offxml")
    constrained = toolkit.ForceField(f"{CONSTRAINED}.offxml")
    rows = []
    for kind in MOLECULES:
        compared = compared_molecule(kind)
        molecule = toolkit.Molecule.from_mapped_smiles(compared.mapped_smiles, allow_undefined_stereo=True)
        molecule.partial_charges = unit.Quantity(compared.charges, unit.elementary_charge)
        row = asdict(compared)
        row["labels"] = {section: labels(force_field, molecule, section) for section in SECTIONS}
        row["labels"]["Constraints"] = labels(constrained, molecule, "Constraints")
        row["energies"] = energies(force_field, molecule, compared)
        rows.append(row)
    versions = {"openff-toolkit": toolkit.__version__, "openff-interchange": interchange.__version__}
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    text = f'{{"force_field": "{FORCE_FIELD}", "versions": {json.dumps(versions)}, "molecules": [\n{lines}\n]}}\n'
    arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
