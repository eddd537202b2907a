"""Every format of files with crystals is read record by record, and a bad record never ends the reading."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand
from sciagent.chemistry.crystals.split_files_into_records import read_crystals
from sciagent.errors import InputFileError

CRYSTALS = [crystal_from_shorthand(text) for text in ("rocksalt: Na Cl", "rutile: Ti O", "perovskite: Cs Sn I")]
KEYS = [crystal.key for crystal in CRYSTALS]


def keys_in(path: Path, **how: object) -> list[str]:
    records = list(read_crystals(path, **how))  # type: ignore[arg-type]
    assert [record.number for record in records] == list(range(how.get("skip", 0), len(records) + how.get("skip", 0)))  # type: ignore[call-overload, operator]
    return [read_crystal(record.text).key for record in records]


def extended_xyz(crystal: object) -> str:
    import io

    from ase.io import write

    stream = io.StringIO()
    write(stream, crystal.structure.to_ase_atoms(), format="extxyz")  # type: ignore[attr-defined]
    return stream.getvalue()


def test_every_format_gives_its_structures(tmp_path: Path) -> None:
    cif = "".join(crystal.structure.to(fmt="cif") for crystal in CRYSTALS)
    (tmp_path / "three.cif").write_text(cif)
    (tmp_path / "three.cif.gz").write_bytes(gzip.compress(cif.encode()))
    (tmp_path / "three.extxyz").write_text("".join(map(extended_xyz, CRYSTALS)))
    (tmp_path / "three.json").write_text(json.dumps([crystal.structure.as_dict() for crystal in CRYSTALS]))
    (tmp_path / "named.json").write_text(json.dumps({crystal.formula: crystal.payload() for crystal in CRYSTALS}))
    (tmp_path / "three.jsonl").write_text("\n".join(json.dumps(crystal.payload()) for crystal in CRYSTALS))
    (tmp_path / "three.csv").write_text("id,structure\n1,rocksalt: Na Cl\n2,rutile: Ti O\n3,perovskite: Cs Sn I\n")
    for path in sorted(tmp_path.iterdir()):
        assert keys_in(path) == KEYS, path
        assert keys_in(path, skip=1) == KEYS[1:], path
    (tmp_path / "POSCAR").write_text(CRYSTALS[1].structure.to(fmt="poscar"))
    assert keys_in(tmp_path / "POSCAR") == KEYS[1:2]


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "a.cif").write_text(CRYSTALS[0].structure.to(fmt="cif"))
    (tmp_path / "deeper" / "b.vasp").write_text(CRYSTALS[1].structure.to(fmt="poscar"))
    (tmp_path / "notes.txt").write_text("no structure")
    assert keys_in(tmp_path) == KEYS[:2]
    assert [record.names["file"] for record in read_crystals(tmp_path)] == ["a.cif", "b.vasp"]


def test_a_bad_record_has_its_fault_or_an_unreadable_text(tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_text("structure\nrocksalt: Na Cl\n\nnonsense\n")
    assert [record.text for record in read_crystals(path)] == ["rocksalt: Na Cl", "nonsense"]
    (tmp_path / "empty.cif").write_text("data_global\n_journal_name 'X'\n")
    (record,) = read_crystals(tmp_path / "empty.cif")
    assert "no structure" in record.fault
    (tmp_path / "long.cif").write_text("data_x\n_atom_site_fract_x 0\n" + "_a 1234567890\n" * 100_000)
    (record,) = read_crystals(tmp_path / "long.cif")
    assert "over 1000000 characters" in record.fault


@pytest.mark.parametrize("name", ["a.pdb", "empty"])
def test_an_unknown_format_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.mkdir() if name == "empty" else path.write_text("x")
    with pytest.raises(InputFileError):
        list(read_crystals(path))
