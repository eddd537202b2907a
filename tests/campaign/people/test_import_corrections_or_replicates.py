"""A correction of an imported value that comes as a file of another name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.errors import UsageError
from sciagent.report.explain_candidate import explain_named
from sciagent.report.explanation_text import paragraphs
from sciagent.store.database.ledger import Ledger
from tests.campaign.people.test_import_values import GAP, Column, run, values

DIPOLE = Column("dipole", "dipole")
OLD, NEW = "smiles,gap\nCCO,3.10\nC,12\n", "smiles,gap\nCCO,3.30\nC,12\n"


def test_another_value_in_another_file_is_an_error_that_names_both_and_both_ways_out(
    ledger: Ledger, tmp_path: Path
) -> None:
    run(ledger, tmp_path / "old.csv", OLD)
    with pytest.raises(UsageError) as refused:
        run(ledger, tmp_path / "new.csv", NEW)
    told = str(refused.value)
    assert told.startswith("CCO: homo_lumo_gap is 3.30 in new.csv, and 3.10 in old.csv, which was imported before.")
    assert "--revise" in told and "--replicate" in told
    assert values(ledger) == {"CCO": [3.1], "C": [12.0]}


def test_with_a_reason_it_supersedes_and_both_files_may_come_again(ledger: Ledger, tmp_path: Path) -> None:
    run(ledger, tmp_path / "old.csv", OLD)
    report = run(ledger, tmp_path / "new.csv", NEW, revise="a typing error")
    assert (report.recorded, report.revised, report.known) == (1, 1, 1)
    assert values(ledger) == {"CCO": [3.3], "C": [12.0]}
    assert run(ledger, tmp_path / "new.csv", NEW).known == 2
    [line] = [paragraph.text for paragraph in paragraphs(explain_named(ledger, "CCO")) if "3.3" in paragraph.text]
    assert ", from new.csv by " in line and line.endswith(", a correction: a typing error")


def test_a_replicate_is_kept_beside_it_when_asked_for(ledger: Ledger, tmp_path: Path) -> None:
    run(ledger, tmp_path / "old.csv", OLD)
    assert run(ledger, tmp_path / "new.csv", NEW, replicate=True).recorded == 1
    assert sorted(values(ledger)["CCO"]) == [3.1, 3.3]
    with pytest.raises(UsageError, match="2 earlier values"):
        run(ledger, tmp_path / "third.csv", NEW.replace("3.30", "3.5"), revise="which one?")


def test_the_other_values_of_a_corrected_row_stay(ledger: Ledger, tmp_path: Path) -> None:
    run(ledger, tmp_path / "old.csv", "smiles,gap,dipole\nCCO,3.10,1.7\n", GAP, DIPOLE)
    run(ledger, tmp_path / "new.csv", "smiles,gap\nCCO,3.30\n", revise="a typing error")
    assert sorted(values(ledger)["CCO"]) == [1.7, 3.3]


def test_revise_and_replicate_exclude_each_other(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--revise or --replicate"):
        run(ledger, tmp_path / "new.csv", NEW, revise="x", replicate=True)
