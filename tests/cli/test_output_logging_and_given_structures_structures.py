"""A structure on the command line is a text or the name of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.cli.output_logging_and_given_structures import candidate_text, structure, structure_records
from sciagent.errors import UsageError

HALITE = read_crystal("rocksalt: Na Cl")


@pytest.mark.parametrize(("name", "format"), [("halite.cif", "cif"), ("POSCAR_halite", "poscar"), ("a.vasp", "poscar")])
def test_a_file_stands_for_its_structure(tmp_path: Path, name: str, format: str) -> None:
    (tmp_path / name).write_text(HALITE.structure.to(fmt=format))
    assert read_crystal(structure(str(tmp_path / name))).key == HALITE.key


def test_a_structure_of_a_file_keeps_the_names_of_the_file(tmp_path: Path) -> None:
    (file := tmp_path / "halite.cif").write_text(HALITE.structure.to(fmt="cif"))
    from_file, from_text = structure_records([str(file), "rocksalt: Mg O"])
    assert from_file.names["file"] == "halite.cif" and read_crystal(from_file.text).key == HALITE.key
    assert (from_text.text, from_text.names) == ("rocksalt: Mg O", {})


def test_a_molecule_in_a_file_stands_for_its_smiles(tmp_path: Path) -> None:
    (file := tmp_path / "one.smi").write_text("OCC ethanol\n")
    assert structure(str(file)) == "OCC"


def test_a_missing_file_is_no_structure_but_may_be_a_name() -> None:
    assert structure("rocksalt: Na Cl") == "rocksalt: Na Cl"
    assert structure("data_a\n_cell_length_a 5.6\n# from a.cif") == "data_a\n_cell_length_a 5.6\n# from a.cif"
    with pytest.raises(UsageError, match=r'no such file: "halide\.cif"'):
        structure("halide.cif")
    assert candidate_text("halide.cif") == "halide.cif"


def test_a_file_with_several_structures_or_an_unreadable_one_names_none(tmp_path: Path) -> None:
    (several := tmp_path / "two.smi").write_text("C\nCC\n")
    with pytest.raises(UsageError, match=r"two\.smi holds more than one structure"):
        candidate_text(str(several))
    (broken := tmp_path / "empty.cif").write_text("\n")
    with pytest.raises(UsageError, match=r"empty\.cif: no structure in the file"):
        candidate_text(str(broken))
