"""Every notation is read back to one key."""

from __future__ import annotations

import io
import json

import pytest
from ase.io import write
from pymatgen.core import Lattice, Structure

from sciagent.chemistry.crystal import crystal_from_structure
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal, write_notation
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand

TEXTS = ("rocksalt: Na Cl", "rutile: Ti O", "quartz: Si O", "spinel: Mg Al O", "orthorhombic-perovskite: Ca Ti O")
TRICLINIC = Structure(
    Lattice.from_parameters(5.1, 6.2, 7.3, 81, 77, 69),
    ["Na", "Cl", "O", "H"],
    [[0.1, 0.2, 0.3], [0.6, 0.7, 0.1], [0.3, 0.9, 0.8], [0.35, 0.95, 0.9]],
)


@pytest.mark.parametrize("text", TEXTS)
def test_every_notation_gives_the_key(text: str) -> None:
    crystal = crystal_from_shorthand(text)
    structure = crystal.structure
    frame = io.StringIO()
    write(frame, structure.to_ase_atoms(), format="extxyz")
    notations = {
        "CIF": structure.to(fmt="cif"),
        "CIF with symmetry": structure.to(fmt="cif", symprec=0.01),
        "POSCAR": structure.to(fmt="poscar"),
        "extended XYZ": frame.getvalue(),
        "pymatgen": json.dumps(structure.as_dict()),
        "ours": json.dumps(crystal.payload()),
        "shorthand": text,
        "written": write_notation(crystal),
    }
    assert {name for name, one in notations.items() if read_crystal(one).key != crystal.key} == set()


def test_one_line_is_written_without_loss() -> None:
    assert write_notation(crystal_from_shorthand("AB_cF8_225_a_b: Na Cl")) == "rocksalt: Na Cl"
    crystal = crystal_from_structure(TRICLINIC)
    text = write_notation(crystal)
    assert "\n" not in text and text.startswith("{")
    assert read_crystal(text).key == crystal.key


def test_poscar_in_cartesian_coordinates_with_a_volume_and_selective_dynamics() -> None:
    lines = ["salt", "-44.8", "0 .5 .5", ".5 0 .5", ".5 .5 0", "Na_pv Cl", "1 1", "Selective", "Cartesian"]
    text = "\n".join([*lines, "0 0 0 T T T", "0.5 0.5 0.5 F F F"])
    crystal = read_crystal(text)
    assert (crystal.formula, crystal.space_group) == ("NaCl", "Fm-3m")
    assert crystal.structure.volume == pytest.approx(44.8)
