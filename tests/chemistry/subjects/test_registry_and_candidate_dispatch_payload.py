"""What the ledger keeps of a molecule, or a process is sent of it, is the molecule itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.chemistry.subjects.base import CandidateColumns
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import candidate_from_record, record_of
from tests.support.subjects import MOLECULES

PINNED = json.loads((Path(__file__).parents[1] / "pinned_keys.json").read_text())[::5]
ODD = ["[2H]C([2H])[2H]", "[H][H]", "[3H]O", "C[Hg]C", "[He]", "F[Hf](F)(F)F", "C[CH2]", "[OH3+]", "CC(=O)[O-]"]


def molecules() -> list[Molecule]:
    pinned = [parse_molecule(one["smiles"], multiplicity=one["multiplicity"]) for one in PINNED if "smiles" in one]
    return pinned + [parse_molecule(text) for text in ODD]


def test_a_record_goes_through_json_and_gives_the_same_molecule() -> None:
    for made in molecules():
        again = candidate_from_record("molecule", json.loads(json.dumps(record_of(made))))
        assert isinstance(again, Molecule)
        assert vars(again) | {"key": made.key} == vars(made) | {"key": again.key}
        assert again.mol.GetNumHeavyAtoms() == made.heavy_atoms


def test_the_columns_of_the_ledger_give_the_same_molecule() -> None:
    for m in molecules():
        again = MOLECULES.from_row(
            CandidateColumns(*(getattr(m, name) for name in CandidateColumns._fields)), None, True
        )
        assert record_of(again) == record_of(m)


def test_a_record_that_was_damaged_has_another_key() -> None:
    made = parse_molecule("CCO")
    for field, value in (("identity", "InChI=1/CH4/h1H4"), ("charge", 1), ("multiplicity", 3)):
        assert candidate_from_record("molecule", record_of(made) | {field: value}).key != made.key


def test_a_payload_alone_is_read_as_before() -> None:
    made = parse_molecule("CCO")
    assert candidate_from_record("molecule", made.payload()) == made
    with pytest.raises(TypeError):
        candidate_from_record("molecule", record_of(made) | {"colour": "red"})
