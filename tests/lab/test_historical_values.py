"""Old values of the same measurement: answers that cost nothing, from which a campaign learns."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.domain.display_units import Column
from sciagent.domain.states_and_needs import CampaignState
from sciagent.errors import InputFileError, UsageError
from sciagent.lab import claims_costs_and_vials
from sciagent.lab.historical_values import LoadReport, load, read_old
from sciagent.report.explain_candidate import explain_named
from sciagent.report.explanation_text import paragraphs
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.people import audit
from sciagent.store.results import candidates
from sciagent.store.views import campaign_counts_and_remarks
from tests.lab.conftest import Make, drive
from tests.lab.test_record_answers import place, task_ids

GAP = Column("gap", "homo_lumo_gap", "eV", "error")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "old.csv"


def loaded(built: Built, file: Path, rows: str, why: str = "", label: str = "lab") -> LoadReport:
    file.write_text(f"smiles,gap,error\n{rows}\n", encoding="utf-8")
    old = read_old(built, label, file, [GAP])
    return load(built, old, "anna", why)


def hits(built: Built) -> dict[str, bool]:
    """{structure: whether it is a hit} of the molecules that the rung has answered."""
    with built.ledger.read() as connection:
        ids = candidate_standings.settled_ids(connection, built.row.id)
        found = candidates.load(connection, ids)
        return {found[id_].text: bool(candidate_standings.get(connection, built.row.id, id_)["is_hit"]) for id_ in ids}


def test_old_values_are_answers_that_cost_nothing(make: Make, file: Path) -> None:
    """A task for one of the molecules goes off the list; a molecule that is new is added, and needs no task."""
    built = make(count=3)
    first = task_ids(built)[0]
    report = loaded(built, file, "Oc1ccccc1,4.31,0.02\nCOc1ccccc1,<3.9,\nCCCC,,\nCCCCO,4.1,")
    assert (report.rows, report.recorded, report.faults) == (3, 3, [])
    assert place(built, first) == ("settled", "pass", True) and first not in task_ids(built)
    assert drive(built) is CampaignState.WAITING
    assert hits(built) == {"Oc1ccccc1": True, "COc1ccccc1": False, "CCCCO": True}
    with built.ledger.read() as connection:
        assert campaign_counts_and_remarks.spent(connection, built.row.id).get("lab_slots", 0) == 0
        last = audit.last(connection, 1)[0]
    assert last.what == "loaded old values" and last.who == "anna"
    assert loaded(built, file, "Oc1ccccc1,4.31,0.02").known == 1


def test_a_value_that_differs_needs_a_reason_and_moves_the_verdict(make: Make, file: Path) -> None:
    built = make()
    first = task_ids(built)[0]
    loaded(built, file, "Oc1ccccc1,4.31,")
    with pytest.raises(UsageError, match=r"lab has .* in the ledger, and .* in the file; correct it with the reason"):
        loaded(built, file, "Oc1ccccc1,5.31,")
    assert loaded(built, file, "Oc1ccccc1,5.31,", why="a typing error").revised == 1
    assert place(built, first) == ("settled", "fail", False)
    answer = explain_named(built.ledger, "Oc1ccccc1", built.row)
    lines = [line.text for line in paragraphs(answer)]
    [origin] = [line for line in lines if line.startswith("from old.csv by anna ")]
    assert origin.endswith(", correction 1: a typing error") and "sciagent verify" not in " ".join(lines)


def test_nothing_is_loaded_if_a_row_is_wrong(make: Make, file: Path) -> None:
    built = make()
    first = task_ids(built)[0]
    with pytest.raises(InputFileError, match=r'old.csv:3: homo_lumo_gap: "4,31 eV" .* write a decimal point'):
        loaded(built, file, 'CCCC,4.4,\nOc1ccccc1,"4,31",')
    with pytest.raises(UsageError, match='"labs" is no rung of people; did you mean "lab"'):
        loaded(built, file, "Oc1ccccc1,4.31,", label="labs")
    with pytest.raises(UsageError, match="lab does not ask for dipole"):
        read_old(built, "lab", file, [Column("gap", "dipole", "D")])
    claims_costs_and_vials.claim(built, first, "ben")
    with pytest.raises(UsageError, match=f"is with ben as task {first}; enter it there"):
        loaded(built, file, "CCCCO,4.1,\nOc1ccccc1,4.31,")
    assert hits(built) == {}


def test_a_refused_value_adds_no_molecule(make: Make, file: Path) -> None:
    """A molecule of the file that was new is neither a candidate nor named in the audit after the refusal."""
    built = make(quantities="homo_lumo_gap, melting_point")
    with pytest.raises(UsageError, match=r"CCCCO: no value for melting_point; .* \(nothing was loaded\)"):
        loaded(built, file, "CCCCO,4.1,")
    with built.ledger.read() as connection:
        assert candidates.find(connection, "CCCCO") == []
        assert not [entry for entry in audit.last(connection, 10) if entry.who == "anna"]


def test_a_structure_that_the_campaign_does_not_take_is_left_out(make: Make, file: Path) -> None:
    built = make()
    report = loaded(built, file, "CCCCO,4.1,\nC[C,4.1,")
    assert (report.rows, report.recorded) == (2, 1)
    assert len(report.faults) == 1 and report.faults[0].startswith("C[C: unparsable: ")
