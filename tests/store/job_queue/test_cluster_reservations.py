"""Jobs that are reserved for the elements of a cluster's arrays."""

from __future__ import annotations

import sqlalchemy as sa

from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import cluster_reservations
from tests.store.job_queue.test_offers_claims_and_ended_jobs import claim, offered

QUEUES = ("simulation", "high_fidelity")


def test_a_waiting_job_says_how_many_a_call_takes_unless_it_died_before(ledger: Ledger, row: CampaignRow) -> None:
    made = offered(ledger, row, 3)
    with ledger.begin() as connection:
        request = {"together": 8, "limits": {"wall_seconds": 60}}
        campaigns.write_requests(connection, {campaigns.rungs(connection, row.id)[1].id: request})
        connection.execute(sa.update(t.job).where(t.job.c.id == made[1]).values(losses=1))
        found = cluster_reservations.waiting_jobs(connection, QUEUES, 10)
    assert {job.job_id: job.together for job in found} == {made[0]: 8, made[1]: 1, made[2]: 8}


def test_an_element_claims_what_is_reserved_for_it_and_nothing_else(ledger: Ledger, row: CampaignRow) -> None:
    made = offered(ledger, row, 4)
    with ledger.begin() as connection:
        cluster_reservations.reserve_for(connection, {made[0]: "slurm a_0", made[1]: "slurm a_0", made[2]: "slurm a_1"})
    assert [one.job_id for one in claim(ledger)] == [made[3]]
    with ledger.begin() as connection:
        claims = cluster_reservations.claim_reserved(connection, made[:3], "slurm a_0", "element")
        assert [one.job_id for one in claims] == made[:2]
        assert cluster_reservations.claim_reserved(connection, made[:3], "slurm a_0", "another") == []
        assert set(cluster_reservations.reserved_jobs(connection, QUEUES)) == {made[2]}
        assert cluster_reservations.free_reservations(connection, [made[2]], lost=True) == []
    assert [one.job_id for one in claim(ledger)] == [made[2]]
