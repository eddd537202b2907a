"""The crew of people: how many tasks are on the list."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.planning.expected_hits_and_rung_worth import plan
from sciagent.domain.states_and_needs import CampaignState
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import reservations_and_bookings
from sciagent.store.lab import tasks
from tests.lab.conftest import CAMPAIGN, MOLECULES, drive


@pytest.mark.parametrize(
    ("lab", "budget", "expected"),
    [
        ("{}", "{lab_slots: 90}", 6),
        ("{}", "{lab_slots: {amount: 5, per: week}}", 10),
        ("{ahead: 4}", "{lab_slots: {amount: 5, per: week}}", 4),
    ],
)
def test_two_weeks_are_on_the_list_unless_the_file_says_so(
    tmp_path: Path, lab: str, budget: str, expected: int
) -> None:
    (tmp_path / "molecules.csv").write_text("smiles\nCO\n", encoding="utf-8")
    spec = parse_spec(CAMPAIGN.format(name="gaps", lab=lab, budget=budget, high=4.6), base=tmp_path)
    assert spec.ladder[-1].most_unclaimed_tasks(spec.budget.rates().get("lab_slots")) == expected


@pytest.mark.parametrize(
    ("lab", "expected"),
    [("{replicates: 3}", 1), ("{ahead: 2, replicates: 3}", 1), ("{ahead: 8, replicates: 3}", 2), ("{ahead: 2}", 2)],
)
def test_at_least_one_candidate_is_on_the_list(tmp_path: Path, lab: str, expected: int) -> None:
    (tmp_path / "molecules.csv").write_text("smiles\nCO\n", encoding="utf-8")
    spec = parse_spec(CAMPAIGN.format(name="gaps", lab=lab, budget="{lab_slots: 90}", high=4.6), base=tmp_path)
    assert spec.ladder[-1].most_listed_candidates(weekly=1) == expected


def entered(ledger: Ledger, folder: Path, lab: str, budget: str) -> Built:
    """A campaign that no driver has begun."""
    (folder / "molecules.csv").write_text("\n".join(("smiles", *MOLECULES, "")), encoding="utf-8")
    text = CAMPAIGN.format(name="gaps", lab=lab, budget=budget, high=4.6)
    return create_or_open(ledger, parse_spec(text, base=folder), text, "test").built


@pytest.mark.parametrize(
    ("lab", "budget", "reserved"),
    [
        ("{ahead: 2, replicates: 3}", "{lab_slots: 9}", 3),
        ("{replicates: 3}", "{lab_slots: {amount: 1, per: week}}", 0),
        ("{replicates: 3}", "{lab_slots: 4}", 3),
    ],
)
def test_all_measurements_of_one_candidate_are_on_the_list_whatever_is_ahead(
    ledger: Ledger, tmp_path: Path, lab: str, budget: str, reserved: int
) -> None:
    built = entered(ledger, tmp_path, lab, budget)
    assert drive(built) is CampaignState.WAITING
    with ledger.read() as connection:
        listed = tasks.listed(connection)
        held = reservations_and_bookings.reserved(connection, built.row.id)
    assert [task.replicate for task in listed] == [0, 1, 2] and len({task.candidate_id for task in listed}) == 1
    assert held.get("lab_slots", 0) == reserved, "the slots of a week are booked when a person claims a task"
    assert drive(built) is CampaignState.WAITING, "a further driver puts no more on the list"
    with ledger.read() as connection:
        assert len(tasks.listed(connection)) == 3


@pytest.mark.parametrize(
    ("budget", "end", "planned"),
    [
        ("{lab_slots: 2}", "would reserve 3 lab_slots, and 2 are left", "they take 3 lab_slots, and it has 2."),
        ("{lab_slots: 9, rungs: {lab: 2}}", "would be 3 runs, and 2 are left", "it has 2 runs."),
    ],
)
def test_a_budget_that_does_not_hold_one_candidate_says_so(
    ledger: Ledger, tmp_path: Path, budget: str, end: str, planned: str
) -> None:
    built = entered(ledger, tmp_path, "{replicates: 3}", budget)
    assert drive(built) is CampaignState.BUDGET_SPENT
    with ledger.read() as connection:
        assert tasks.listed(connection) == []
        reason = campaigns.get(connection, "gaps").stop_reason
    assert f"the 3 measurements of one candidate by lab {end}" in (reason or "")
    assert (
        f"The budget does not hold the 3 measurements of one candidate by lab: {planned}" in plan(built.spec).sentences
    )
