"""Ground-state structures of the elements, from which formation energies are counted.

Simple metals and the diamond lattice have their measured lattice constants; other structures come from the AFLOW
prototypes that pymatgen ships, with bonds as long as the sums of radii, or the measured volume of molecular crystals.
All are starting points of a relaxation.

Sources: ase.data.reference_states; Mehl et al., Comput. Mater. Sci. 136, S1 (2017).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

PROTOTYPES = {
    "A_cP8_205_c None": "H N",
    "A_mC4_12_i None": "O",
    "A_oC8_64_f A14": "F Cl Br I",
    "A_oC8_64_f A17": "P",
    "A_oC8_64_f A11": "Ga",
    "A_oF128_70_4h A16": "S",
    "A_hP3_152_a A8": "Se Te",
    "A_hR2_166_c A7": "As Sb Bi",
    "A_hR12_166_2h None": "B",
    "A_hP4_194_bc A9": "C",
    "A_tI2_139_a A6": "In",
    "A_hR1_166_a A10": "Hg",
    "A_cI58_217_ac2g A12": "Mn",
    "A_hP4_194_ac A3'": "La Pr Nd Pm",
    "A_hR3_166_ac C19": "Sm",
    "A_tI2_139_a A_a": "Pa",
    "A_oC4_63_c A20": "U",
    "A_oP8_62_2c A_c": "Np",
    "A_mP16_11_8e None": "Pu",
}
"""AFLOW label and Strukturbericht symbol, and the elements that have the structure."""
PROTOTYPE_OF = {symbol: name for name, symbols in PROTOTYPES.items() for symbol in symbols.split()}
VOLUMES = {"H": 19.0, "N": 22.7, "O": 17.4, "F": 16.1, "Cl": 27.5, "Br": 32.6, "I": 42.6}
"""Measured volumes of molecular crystals, in angstrom**3 per atom: their bonds say nothing of the distances between."""
LATTICES = {"Sn": ("diamond", 6.49), "He": ("fcc", 4.24)}
"""Elements whose structure at 0 K ASE's table lacks, with the lattice constant in angstrom."""


def element(symbol: str) -> Any:
    """Returns the pymatgen Structure of an element, not yet relaxed. Raises KeyError for one without a structure."""
    from pymatgen.io.ase import AseAtomsAdaptor

    if symbol in PROTOTYPE_OF:
        return _prototype(PROTOTYPE_OF[symbol], symbol)
    from ase.build import bulk

    lattice, a = LATTICES.get(symbol, (None, None))
    try:
        return AseAtomsAdaptor.get_structure(bulk(symbol, lattice, a=a))
    except ValueError as error:
        raise KeyError(symbol) from error


def _prototype(name: str, symbol: str) -> Any:
    from pymatgen.core import Structure

    from sciagent.chemistry.crystals.scaling import rescaled

    given = _structures()[name]
    structure = Structure(given.lattice, [symbol] * len(given), given.frac_coords)
    if symbol not in VOLUMES:
        return rescaled(structure)
    structure.scale_lattice(VOLUMES[symbol] * len(structure))
    return structure


@cache
def _structures() -> Mapping[str, Any]:
    """Returns the structures of all prototypes of elements by AFLOW label and Strukturbericht symbol."""
    from pymatgen.core import Structure

    from sciagent.chemistry.crystals.cells import analysis_folder

    found: dict[str, Any] = {}
    with gzip.open(analysis_folder() / "prototypes/aflow_prototypes.json.gz", "rt") as file:
        for entry in json.load(file):
            name = f"{entry['tags']['aflow']} {entry['tags']['strukturbericht']}"
            if name in PROTOTYPES:
                found.setdefault(name, Structure.from_dict(entry["snl"]))
    return found
