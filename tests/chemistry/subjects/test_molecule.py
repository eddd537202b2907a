"""Molecules through the interface of subjects."""

from __future__ import annotations

import json

import pytest

from sciagent.chemistry.subjects.base import CandidateColumns
from tests.support.subjects import MOLECULES


def test_a_molecule_goes_to_a_process_and_to_the_ledger_and_back() -> None:
    made = MOLECULES.read("C[C@H](N)C(=O)[O-]")
    assert MOLECULES.from_record(json.loads(json.dumps(MOLECULES.record(made)))).key == made.key
    columns = CandidateColumns(*(getattr(made, name) for name in CandidateColumns._fields))
    own, other = MOLECULES.from_row(columns, None, True), MOLECULES.from_row(columns, made.payload(), False)
    assert own is not None and other is not None and own.key == other.key == made.key
    assert MOLECULES.from_row(columns, None, False) is None, "other libraries wrote it: the payload is needed"


def test_a_text_that_no_smiles_has_is_told_at_its_place() -> None:
    assert MOLECULES.fault_of("CCO") is None
    assert "position 2" in (MOLECULES.fault_of("C O") or "")


@pytest.mark.parametrize(("by", "families"), [("scaffold", ("c1ccc(-c2ccccc2)cc1",)), ("ring_system", ("c1ccccc1",))])
def test_families_are_scaffolds_or_ring_systems(by: str, families: tuple[str, ...]) -> None:
    assert MOLECULES.families("Cc1ccc(-c2ccccc2)cc1", by) == families
