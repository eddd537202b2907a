"""The list of tasks: pages, states, and what rests."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sciagent.domain.lab_messages_and_codes import QUEUE
from sciagent.domain.states_and_needs import CampaignState, JobState
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, leases
from sciagent.store.job_queue.jobs import NewJob, Offer
from sciagent.store.lab import tasks
from tests.support import rows


@pytest.fixture
def made(ledger: Ledger, row: CampaignRow) -> list[int]:
    """Five tasks of a campaign that waits, the most urgent first; the last one is overdue."""
    with ledger.begin() as connection:
        rung = campaigns.rungs(connection, row.id)[-1]
        new = [
            NewJob(row.id, rung.id, candidate_id, 0, f"{place}" * 64, float(place), Offer(QUEUE, None, None))
            for place, candidate_id in enumerate(rows.entered(connection, row, 5))
        ]
        ids = jobs.create_many(connection, new)
        tasks.enter(connection, ids, {id_: -1.0 if id_ == ids[0] else 7.0 for id_ in ids})
        campaigns.set_state(connection, row.id, CampaignState.RUNNING)
        campaigns.set_state(connection, row.id, CampaignState.WAITING)
    return ids[::-1]


def test_the_list_pages_in_the_order_of_urgency(ledger: Ledger, row: CampaignRow, made: list[int]) -> None:
    with ledger.read() as connection:
        first = tasks.listed(connection, limit=2)
        second = tasks.listed(connection, limit=2, skip=2)
        assert [task.id for task in (*first, *second)] == made[:4]
        assert tasks.listed(connection, campaign_id=row.id + 1) == []
        assert tasks.find(connection, 10**6) is None


def test_tasks_in_the_order_of_their_numbers_are_each_seen_once(
    ledger: Ledger, row: CampaignRow, made: list[int]
) -> None:
    with ledger.begin() as connection:
        first = tasks.listed(connection, after=0, limit=2)
        assert [task.id for task in first] == sorted(made)[:2]
        leases.claim_many(connection, [made[-1]], "anna", None)
        second = tasks.listed(connection, after=first[-1].id, limit=9)
        assert [task.id for task in second] == sorted(made)[2:]
        claimed = tasks.listed(connection, after=0, states=(JobState.RUNNING,))
        assert [task.id for task in claimed] == [made[-1]]
        of_candidate = tasks.listed(connection, after=0, candidate_id=first[1].candidate_id)
        assert [task.id for task in of_candidate] == [first[1].id]


def test_campaigns_take_turns_whatever_their_unit_of_urgency(ledger: Ledger, row: CampaignRow, made: list[int]) -> None:
    """A task that a person promoted comes first, then the most urgent task of each campaign, and so on."""
    with ledger.begin() as connection:
        other = rows.campaign(connection, "other")
        rung = campaigns.rungs(connection, other.id)[-1]
        new = [
            NewJob(other.id, rung.id, candidate_id, 0, f"{place + 5}" * 64, 1000.0 * place, Offer(QUEUE, None, None))
            for place, candidate_id in enumerate(rows.entered(connection, other, 3))
        ]
        theirs = jobs.create_many(connection, new)[::-1]
        tasks.enter(connection, theirs, dict.fromkeys(theirs))
        campaigns.set_state(connection, other.id, CampaignState.RUNNING)
        jobs.set_priority(connection, made[-1], jobs.PREFERRED)
    with ledger.read() as connection:
        listed = [task.id for task in tasks.listed(connection)]
    own = [id_ for id_ in made if id_ != made[-1]]
    assert listed[0] == made[-1]
    assert listed[1:] == [theirs[0], own[0], theirs[1], own[1], theirs[2], own[2], own[3]]


def test_tasks_for_which_another_campaign_goes_first_are_told_with_its_name(
    ledger: Ledger, row: CampaignRow, made: list[int]
) -> None:
    with ledger.begin() as connection:
        other = rows.campaign(connection, "other")
        rung = campaigns.rungs(connection, other.id)[-1]
        new = [
            NewJob(other.id, rung.id, candidate_id, 0, f"{place}" * 64, float(place), Offer(QUEUE, None, None))
            for place, candidate_id in enumerate(rows.entered(connection, other, 6))
        ]
        theirs = jobs.create_many(connection, new)
        tasks.enter(connection, theirs, dict.fromkeys(theirs))
        campaigns.set_state(connection, other.id, CampaignState.RUNNING)
        leases.claim_many(connection, [theirs[0]], "anna", None)

        def counted(campaign: CampaignRow) -> dict[str, object]:
            rung_id = campaigns.rungs(connection, campaign.id)[-1].id
            found = tasks.counts(connection, campaign.id, [rung_id], [])
            assert found is not None
            return found.model_dump(include={"queued", "claimed", "elsewhere"})

        firsts = tasks.asked_elsewhere(connection, other.id)
        assert {name for _, name in firsts.values()} == {row.name} and sorted(firsts) == theirs[1:5]
        assert counted(other) == {"queued": 1, "claimed": 1, "elsewhere": {row.name: 4}}
        assert counted(row) == {"queued": 4, "claimed": 0, "elsewhere": {"other": 1}}, "it was claimed there"
        campaigns.set_state(connection, row.id, CampaignState.RUNNING)
        campaigns.set_state(connection, row.id, CampaignState.PAUSED)
        assert tasks.asked_elsewhere(connection, other.id) == {}, "nobody measures for a campaign that rests"


def test_a_resting_campaign_shows_only_what_is_claimed(ledger: Ledger, row: CampaignRow, made: list[int]) -> None:
    with ledger.begin() as connection:
        leases.claim_many(connection, [made[2]], "anna", None)
        campaigns.set_state(connection, row.id, CampaignState.RUNNING)
        campaigns.set_state(connection, row.id, CampaignState.PAUSED)
    with ledger.read() as connection:
        assert [(task.id, task.claimed_by) for task in tasks.listed(connection)] == [(made[2], "anna")]
        assert tasks.listed(connection, claimed_by="ben") == []


def test_tasks_are_counted_by_state(ledger: Ledger, row: CampaignRow, made: list[int]) -> None:
    with ledger.begin() as connection:
        rung = campaigns.rungs(connection, row.id)[-1]
        leases.claim_many(connection, made[:1], "anna", None)
        tasks.write_change(connection, made[1], approved_by="carla")
        connection.execute(sa.update(t.job).where(t.job.c.id == made[2]).values(state="done"))
        found = tasks.counts(connection, row.id, [rung.id], [rung.name])
        assert found is not None
        expected = {"waiting": 2, "queued": 1, "claimed": 1, "in_review": 0, "answered": 1, "overdue": 1}
        assert found.model_dump() == expected
        assert tasks.counts(connection, row.id, [], []) is None
        assert tasks.open_by_rung(connection, row.id) == {rung.id: (3, 1)}
