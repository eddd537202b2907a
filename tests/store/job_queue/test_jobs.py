"""Jobs in the ledger: each is made once, the most urgent come first, and what they cost is summed."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sciagent.errors import LedgerError
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, jobs, reservations_and_bookings
from sciagent.store.views import campaign_counts_and_remarks
from tests.support import rows


def test_the_most_urgent_come_first(ledger: Ledger, row: CampaignRow) -> None:
    made = rows.queued_jobs(ledger, row, 5)
    with ledger.read() as connection:
        assert [j[0] for j in jobs.queued(connection, row.id)] == made[::-1]
        assert campaign_counts_and_remarks.jobs_by_rung(connection, row.id) == {
            campaigns.rungs(connection, row.id)[1].id: 5
        }


def test_one_job_a_candidate_rung_and_replicate(ledger: Ledger, row: CampaignRow) -> None:
    (job_id,) = rows.queued_jobs(ledger, row)
    with pytest.raises(LedgerError, match="already"), ledger.begin() as connection:
        old = connection.execute(sa.select(t.job).where(t.job.c.id == job_id)).mappings().one()
        jobs.create_many(connection, [jobs.NewJob(row.id, old["rung_id"], old["candidate_id"], 0, "f" * 64, 1.0)])


def test_spend_is_summed(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.begin() as connection:
        other = rows.campaign(connection, "other")
        rung = campaigns.rungs(connection, row.id)[0].id
        attempt = attempts.begin(connection, "a", campaign_id=row.id, rung_id=rung)
        reservations_and_bookings.book_many(
            connection, [reservations_and_bookings.Bill(row.id, rung, attempt, {"core_seconds": 1.5, "money": 0.0})]
        )
        reservations_and_bookings.book_many(
            connection, [reservations_and_bookings.Bill(row.id, None, None, {"core_seconds": 2.0, "llm_tokens": 100.0})]
        )
        reservations_and_bookings.book_many(
            connection, [reservations_and_bookings.Bill(other.id, None, None, {"core_seconds": 50.0})]
        )
        reservations_and_bookings.book_many(connection, [reservations_and_bookings.Bill(row.id, rung, attempt, {})])
        assert campaign_counts_and_remarks.spent(connection, row.id) == {"core_seconds": 3.5, "llm_tokens": 100.0}
        assert campaign_counts_and_remarks.spent(connection, 10**6) == {"core_seconds": 0.0}


def test_cost_ratios_are_of_the_same_settings(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.begin() as connection:
        candidate_id = rows.entered(connection, row, 1)[0]
        attempt = attempts.begin(connection, "a", campaign_id=row.id, rung_id=None)
        for settings, declared, actual in (("s", 2.0, 3.0), ("s", 2.0, 1.0), ("s", 0.0, 1.0), ("x", 1.0, 9.0)):
            costs = {"core_seconds": declared}, {"core_seconds": actual, "money": 7.0}
            reservations_and_bookings.observe_costs(
                connection, [reservations_and_bookings.CostSeen("v", "1", settings, candidate_id, attempt, *costs)]
            )
        assert reservations_and_bookings.cost_ratios(connection, "v", "1", "s") == [0.5, 1.5]
        assert reservations_and_bookings.cost_ratios(connection, "v", "1", "s", last=2) == [0.5]
        assert reservations_and_bookings.cost_ratios(connection, "v", "2", "s") == []
        connection.execute(sa.update(t.attempt).where(t.attempt.c.id == attempt).values(fence=2))
        resumed = reservations_and_bookings.cost_ratios(connection, "v", "1", "s")
        assert resumed == [], "a later attempt may have gone on from a checkpoint"


def test_several_jobs_are_made_at_once_and_none_twice(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.begin() as connection:
        ids = rows.entered(connection, row, 3)
        rung_id = campaigns.rungs(connection, row.id)[0].id
        new = [jobs.NewJob(row.id, rung_id, i, 0, f"{i:064d}", 1.0) for i in ids]
        made = jobs.create_many(connection, new)
        stored = dict(connection.execute(sa.select(t.job.c.id, t.job.c.candidate_id)).all())
        assert [stored[i] for i in made] == ids
        with pytest.raises(LedgerError, match="already"):
            jobs.create_many(connection, new[1:])
