"""`sciagent.calc`: one verifier on molecules, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import sciagent
from sciagent.api.calc_and_answer_tables import record, rows, side_by_side
from sciagent.errors import UsageError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "molecules.csv"
    path.write_text("smiles,compound_id\nCCO,A1\nOCC,A2\nnothing,A3\n,A4\n")
    return path


def test_the_numbers_of_a_file_keep_its_names_and_are_a_data_frame(file: Path, tmp_path: Path) -> None:
    ledger = sciagent.Ledger(tmp_path / "a.db", create=True)
    found = ledger.calc("molecule.checks", file=file, settings={"elements": ["C", "O", "H"]})
    assert [answer.outcome for answer in found] == ["ok", "ok", "refused", "refused"]
    assert [answer.reused for answer in found[:2]] == [False, True], "the same molecule is calculated once"
    frame = found.to_pandas()
    assert frame["compound_id"].tolist() == ["A1", "A2", "A3", "A4"]
    assert frame["molecular_weight [g/mol]"][0] == pytest.approx(46.069, abs=1e-3)  # IUPAC's atomic weights
    assert "row 5: nothing in column smiles" in found[3].detail
    assert (
        record(found[0], as_text=True)["smiles"] == "CCO" and record(found[2], as_text=True)["reason"] == "unparsable"
    )
    assert "A1" in repr(found) and not side_by_side(found), "it has too many properties for that"
    assert {row["name"] for row in rows(found[0])} == {"A1"}


def test_a_mistake_is_told_before_anything_is_calculated(tmp_path: Path) -> None:
    ledger = tmp_path / "a.db"
    for message, verifier, more in (
        ('did you mean "molecule.checks"', "molecule.check", {}),
        ('no setting "elemnts"; did you mean "elements"', "molecule.checks", {"settings": {"elemnts": ["C"]}}),
        ('does not measure "log"; did you mean "logp"', "molecule.checks", {"units": {"log": "1"}}),
    ):
        with pytest.raises(UsageError, match=message):
            sciagent.calc(verifier, "CCO", ledger=ledger, **more)
