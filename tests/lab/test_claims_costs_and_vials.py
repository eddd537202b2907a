"""Claims of tasks: who has one, what it costs, and when the cost comes back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.states_and_needs import CampaignState, JobState
from sciagent.errors import UsageError
from sciagent.lab import claims_costs_and_vials, record_answers
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.job_queue import leases, offers_claims_and_ended_jobs, reservations_and_bookings
from sciagent.store.lab import tasks
from sciagent.store.lab.tasks import LabTask
from sciagent.store.people import audit
from sciagent.store.views import campaign_counts_and_remarks
from tests.lab.conftest import Make, drive

NOT_OBTAINED = record_answers.LabEntry(
    {"values": {}, "uncertainties": {}, "limit": "", "not_obtained": "decomposed"}, "anna"
)


def listed(built: Built) -> list[LabTask]:
    with built.ledger.read() as connection:
        return tasks.listed(connection, campaign_id=built.row.id)


def slots(built: Built) -> tuple[float, float]:
    """Slots that are spent, and slots that are reserved."""
    with built.ledger.read() as connection:
        spent = campaign_counts_and_remarks.spent(connection, built.row.id).get("lab_slots", 0.0)
        held = sa.select(sa.func.sum(t.reservation.c.amount)).where(
            t.reservation.c.resource == "lab_slots", t.reservation.c.released_at.is_(None)
        )
        return spent, float(connection.execute(held).scalar() or 0.0)


def test_a_campaign_waits_for_as_many_tasks_as_it_may_list(make: Make) -> None:
    built = make()
    assert [task.text for task in listed(built)] == ["Oc1ccccc1", "Cc1ccccc1O", "CCO"], "3 of 4 molecules"
    with built.ledger.read() as connection:
        row = campaigns.get(connection, "gaps")
        assert (row.state, row.stop_reason) == (CampaignState.WAITING, "for people")
        assert tasks.open_by_rung(connection, built.row.id) == {built.asked[0].id: (3, 0)}
    assert slots(built) == (0, 3)


def test_a_claim_has_no_end_and_belongs_to_one_person(make: Make) -> None:
    built = make()
    task = listed(built)[0]
    first = claims_costs_and_vials.claim(built, task.id, "anna")
    with pytest.raises(UsageError, match=rf"task {task.id} is with anna since .* --take-over"):
        claims_costs_and_vials.claim(built, task.id, "ben")
    with pytest.raises(UsageError, match="is yours already"):
        claims_costs_and_vials.claim(built, task.id, "anna")
    with built.ledger.begin() as connection:
        assert leases.expired(connection, 10) == [], "no reaper takes it"
        assert (
            offers_claims_and_ended_jobs.withdraw(connection, built.row.id) == []
            and leases.held_by_workers(connection, built.row.id) == []
        )
    assert slots(built) == (1, 2), "its slot is booked"
    second = claims_costs_and_vials.claim(built, task.id, "ben", take_over=True)
    assert second.fence == first.fence + 1
    assert [each.claimed_by for each in listed(built)] == ["ben", None, None]
    assert slots(built) == (1, 2), "taken over within a day: the first slot came back"
    assert drive(built) is CampaignState.WAITING


def test_a_task_given_back_within_a_day_costs_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    built = make()
    soon, late = listed(built)[:2]
    claims_costs_and_vials.claim(built, soon.id, "anna")
    assert claims_costs_and_vials.release(built, soon.id, "anna", "the vial broke")
    assert slots(built) == (0, 3)
    claims_costs_and_vials.claim(built, late.id, "anna")
    monkeypatch.setattr(claims_costs_and_vials, "GIVE_BACK", timedelta(0))
    with pytest.raises(UsageError, match="is not claimed by ben"):
        claims_costs_and_vials.release(built, late.id, "ben", "mine now")
    assert not claims_costs_and_vials.release(built, late.id, "anna", "no time")
    assert slots(built) == (1, 3), "the slot is spent, and the next claim takes another one"
    with built.ledger.read() as connection:
        costs = connection.execute(sa.select(t.attempt.c.reason, t.attempt.c.cost).order_by(t.attempt.c.id)).all()
    assert [tuple(row) for row in costs][-2:] == [("returned", {}), ("returned", {"lab_slots": 1.0})]


def test_a_week_has_no_more_slots_than_its_limit(make: Make) -> None:
    built = make(lab="{ahead: 3}", budget="{lab_slots: {amount: 2, per: week}}")
    first, second, third = listed(built)
    assert slots(built) == (0, 0), "a task that nobody has claimed holds no slot of a week"
    claims_costs_and_vials.claim(built, first.id, "anna")
    record_answers.enter(built, first.id, NOT_OBTAINED)
    claims_costs_and_vials.claim(built, second.id, "anna")
    with pytest.raises(UsageError, match=r"no slot is left this week: lab_slots: 2 of 2 in seven days; more on"):
        claims_costs_and_vials.claim(built, third.id, "ben")
    claims_costs_and_vials.release(built, second.id, "anna", "wrong vial")
    claims_costs_and_vials.claim(built, third.id, "ben")


def test_a_finished_measurement_is_booked_beyond_the_slots_and_the_next_claim_waits(make: Make) -> None:
    built = make(lab="{ahead: 3}", budget="{lab_slots: {amount: 1, per: week}}")
    first, second, third = listed(built)
    claims_costs_and_vials.claim(built, first.id, "anna")
    done = record_answers.enter(built, second.id, replace(NOT_OBTAINED, who="ben", key="finished"))
    assert "counts on top, and the next claim waits: lab_slots: 2 of 1 in seven days; more on" in done.overdrawn
    assert slots(built) == (2, 0) and len(done.evidence_key) == 64
    with pytest.raises(UsageError, match=r"no slot is left this week: lab_slots: 2 of 1 in seven days; more on"):
        claims_costs_and_vials.claim(built, third.id, "ben")
    with built.ledger.read() as connection:
        [claimed] = [
            each for each in audit.entries(connection) if each.object_id == second.id and each.what == "claimed"
        ]
    assert "no slot is left this week: lab_slots: 1 of 1" in str(claimed.payload["overdrawn"])
    again = record_answers.enter(built, second.id, replace(NOT_OBTAINED, who="ben", key="finished"))
    assert again.was_known and slots(built) == (2, 0), "sent twice, it is booked once"
    claims_costs_and_vials.release(built, first.id, "anna", "the vial broke")
    assert slots(built) == (1, 0)
    with pytest.raises(UsageError, match="lab_slots: 1 of 1"):
        claims_costs_and_vials.claim(built, third.id, "ben")
    late = record_answers.enter(built, third.id, replace(NOT_OBTAINED, who="ben", key="third"))
    assert late.overdrawn, "all that is measured is recorded"


def test_a_finished_measurement_is_booked_beyond_a_stock(make: Make) -> None:
    built = make(budget="{lab_slots: 3}", lab="{ahead: 3}")
    first, *_ = listed(built)
    with built.ledger.begin() as connection:  # as an amendment leaves it
        reservations_and_bookings.book_many(
            connection, [reservations_and_bookings.Bill(built.row.id, built.asked[0].id, None, Cost(lab_slots=3))]
        )
    with pytest.raises(UsageError, match="the budget does not hold task"):
        claims_costs_and_vials.claim(built, first.id, "anna")
    done = record_answers.enter(built, first.id, NOT_OBTAINED)
    assert done.overdrawn.startswith("the budget was used; this measurement counts on top") and slots(built)[0] == 4


def test_a_stock_that_is_used_holds_no_further_claim(make: Make) -> None:
    built = make(budget="{lab_slots: 2}", lab="{ahead: 3}")
    assert len(listed(built)) == 2, "tasks on the list hold the stock"


def test_a_task_waits_for_a_chemist_where_the_campaign_asks_for_one(make: Make) -> None:
    built = make(lab="{ahead: 1, approve: true}")
    [task] = listed(built)
    with pytest.raises(
        UsageError, match=f"waits for the word of a chemist; approve it with: sciagent lab review {task.id} --approve"
    ):
        claims_costs_and_vials.claim(built, task.id, "anna")
    claims_costs_and_vials.approve(built, task.id, "carla")
    with pytest.raises(UsageError, match="is approved by carla already"):
        claims_costs_and_vials.approve(built, task.id, "dora")
    claims_costs_and_vials.claim(built, task.id, "anna")
    assert [(each.approved_by, each.version) for each in listed(built)] == [("carla", 2)]


def test_the_end_of_a_campaign_takes_unclaimed_tasks_off_the_list(make: Make) -> None:
    built = make()
    first, second, third = listed(built)
    claims_costs_and_vials.claim(built, third.id, "anna")
    for task in (first, second):
        with built.ledger.begin() as connection:  # hits, as if they had been measured
            connection.execute(
                sa.update(t.campaign_candidate)
                .where(t.campaign_candidate.c.candidate_id == task.candidate_id)
                .values(is_hit=True, standing="settled", verdict="pass")
            )
    assert drive(built) is CampaignState.FINISHED
    assert [(task.id, task.state) for task in listed(built)] == [(third.id, JobState.RUNNING)], "her work goes on"


def test_the_list_is_filled_beyond_the_first_batch_of_the_proposer(make: Make) -> None:
    smiles = [f"{'C' * n}O" for n in range(1, 28)]
    built = make(lab="{ahead: 25}", budget="{lab_slots: 99}", smiles=smiles, count=25)
    assert len(listed(built)) == 25
