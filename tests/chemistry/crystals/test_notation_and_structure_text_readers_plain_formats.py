"""POSCAR, extended XYZ and JSON of strangers are bounded, and name no class that is made."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError

SALT = crystal_from_shorthand("rocksalt: Na Cl")
POSCAR = SALT.structure.to(fmt="poscar")
XYZ = '2\nLattice="0 2.8 2.8 2.8 0 2.8 2.8 2.8 0" Properties=species:S:1:pos:R:3\nNa 0 0 0\nCl 2.8 2.8 2.8\n'

REFUSED = {
    "a billion atoms in a POSCAR": (POSCAR.replace("1 1", "1000000000 1"), Reason.TOO_LARGE),
    "many small counts": (POSCAR.replace("Na Cl", "Na Cl " * 300).replace("1 1", "400 400 " * 300), Reason.TOO_LARGE),
    "a negative count": (POSCAR.replace("1 1", "-1 1"), Reason.UNPARSABLE),
    "a POSCAR without symbols": (POSCAR.replace("Na Cl\n1 1", "1 1") + "0 0 0\n", Reason.UNPARSABLE),
    "half a POSCAR": ("\n".join(POSCAR.splitlines()[:-1]), Reason.UNPARSABLE),
    "a scale of zero": (POSCAR.replace("\n1.0\n", "\n0.0\n"), Reason.OVERLAPPING_ATOMS),
    "a billion atoms in an XYZ": (XYZ.replace("2\n", "1000000000\n", 1), Reason.TOO_LARGE),
    "an XYZ with a flat cell": (XYZ.replace("0 2.8 2.8 2.8 0 2.8 2.8 2.8 0", "0 " * 9), Reason.OVERLAPPING_ATOMS),
    "an XYZ without a cell": ("1\nwater\nNa 0 0 0\n", Reason.UNPARSABLE),
    "an XYZ that is too short": (XYZ.replace("2\n", "3\n", 1), Reason.UNPARSABLE),
    "deep JSON": ("[" * 200_000, Reason.TOO_DEEP),
    "JSON that is no structure": ('{"a": 1}', Reason.UNPARSABLE),
    "a list": ("[1, 2]", Reason.UNPARSABLE),
    "infinite numbers": (json.dumps(SALT.payload()).replace("0.5", "1e999"), Reason.NOT_FINITE),
    "a cell of texts": ('{"lattice": "abc", "species": ["Na"], "coordinates": [[0,0,0]]}', Reason.UNPARSABLE),
    "species as numbers": (json.dumps(SALT.payload()).replace('"Na"', "11"), Reason.UNPARSABLE),
    "sites without a cell": ('{"lattice": 1, "sites": []}', Reason.UNPARSABLE),
    "no element": (json.dumps(SALT.payload()).replace("Na", "Xx"), Reason.UNKNOWN_ELEMENT),
    "null bytes": ("rocksalt\0: Na Cl", Reason.NOT_TEXT),
    "nothing": (" \n", Reason.EMPTY),
    "too much": ("x" * 1_000_001, Reason.TOO_LONG),
    "prose": ("a crystal of sodium chloride\n" * 20, Reason.UNPARSABLE),
    "SMILES": ("CCO", Reason.UNPARSABLE),
    "a skew cell": (
        '{"lattice": [[900,0,0],[900,0.01,0],[0,0,900]], "species": ["Na"], "coordinates": [[0,0,0]]}',
        Reason.OVERLAPPING_ATOMS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_garbage_is_refused_by_name_within_seconds(name: str) -> None:
    text, reason = REFUSED[name]
    started = time.process_time()
    with pytest.raises(InvalidCandidateError) as caught:
        read_crystal(text)
    assert time.process_time() - started < 5
    assert caught.value.reason is reason


def test_a_class_that_a_json_names_is_not_made(tmp_path: Path) -> None:
    data = SALT.structure.as_dict()
    touch = {
        "@module": "pathlib",
        "@class": "Path",
        "@callable": "touch",
        "@bound": None,
        "path": str(tmp_path / "ran"),
    }
    data["sites"][0]["properties"] = {"magmom": touch}
    data["properties"] = touch
    assert read_crystal(json.dumps(data)).key == SALT.key
    assert not (tmp_path / "ran").exists()


def test_an_xyz_may_have_other_columns() -> None:
    text = XYZ.replace("species:S:1:pos:R:3", "id:I:1:species:S:1:forces:R:3:pos:R:3")
    text = text.replace("Na 0", "1 Na 9 9 9 0").replace("Cl 2", "2 Cl 9 9 9 2")
    assert read_crystal(text).key == read_crystal(XYZ).key
    assert read_crystal(XYZ).formula == "NaCl"
    with pytest.raises(InvalidCandidateError):
        read_crystal(text.replace("forces:R:3", "forces:R:\u00b2"))


def test_partly_occupied_sites_are_refused() -> None:
    data = SALT.structure.as_dict()
    data["sites"][0]["species"] = [{"element": "Na", "occu": 0.5}, {"element": "K", "occu": 0.5}]
    with pytest.raises(InvalidCandidateError, match="partly occupied"):
        read_crystal(json.dumps(data))


def test_the_largest_structures_take_seconds() -> None:
    grid = [[i / 8, j / 8, k / 7] for i in range(8) for j in range(8) for k in range(7)]
    text = json.dumps({"lattice": [[24, 0, 0], [0, 24, 0], [0, 0, 21]], "species": ["Po"] * 448, "coordinates": grid})
    started = time.process_time()
    assert read_crystal(text).n_atoms == 1
    assert time.process_time() - started < 20
