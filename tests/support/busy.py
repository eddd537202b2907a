"""A ledger in which much goes on: campaigns, workers, queues, failures. Nothing of it runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.states_and_needs import AttemptState, CampaignState, JobState
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import (
    attempts,
    jobs,
    leases,
    offers_claims_and_ended_jobs,
    reservations_and_bookings,
    workers_and_capacity,
)
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.jobs import NewJob, Offer
from sciagent.store.job_queue.leases import Claim, JobEnd
from sciagent.store.job_queue.reservations_and_bookings import Bill
from sciagent.store.job_queue.workers_and_capacity import NewWorker
from tests.support import rows

BUDGET = {"core_seconds": 100.0, "wall_minutes": 600}


def busy(ledger: Ledger, n: int = 24, names: Sequence[str] = ("redox-anolytes", "uv-absorbers")) -> None:
    """n jobs a campaign at r1 (queue simulation) and some at r2 (high_fidelity, that nobody serves)."""
    with ledger.begin() as connection:
        for name, slots in (("node07:41877:9f01ac", 4), ("node08:5120:77aa01", 2)):
            new = NewWorker(name, name.split(":")[0], 1, "ledger", ("simulation",), slots, 64000)
            workers_and_capacity.register(connection, new)
        workers_and_capacity.drain(connection, "node08:5120:77aa01")
        for name in names:
            _campaign(connection, name, n)
    last = 0  # the campaign whose job was taken last: campaigns take turns
    for i in range(n // 2):
        with ledger.begin() as connection:
            (claim,) = offers_claims_and_ended_jobs.claim_next(
                connection, ["simulation"], f"node07:41877:9f01ac/{i % 4}", after=last
            )
            _end(connection, claim, i)
            [last] = offers_claims_and_ended_jobs.campaigns_by_rung(connection, [claim.job_id]).values()
    for slot in range(3):
        with ledger.begin() as connection:
            offers_claims_and_ended_jobs.claim_next(connection, ["simulation"], f"node07:41877:9f01ac/{slot}")
    with ledger.begin() as connection:
        offers_claims_and_ended_jobs.claim_next(connection, ["simulation"], "node08:5120:77aa01/0")
        (last,) = connection.execute(sa.select(sa.func.max(t.job.c.id))).scalars()
        leases.claim_many(connection, [last], campaigns.new_owner())


def _campaign(connection: sa.Connection, name: str, n: int) -> None:
    row = rows.campaign(connection, name, spec={"budget": BUDGET}, identity_hash=name)
    ids = rows.entered(connection, row, n)
    _, simulation, dft = campaigns.rungs(connection, row.id)
    new = [NewJob(row.id, simulation.id, one, 0, f"{name}{one}", i / n) for i, one in enumerate(ids)]
    made = jobs.create_many(connection, new)
    offers_claims_and_ended_jobs.offer_many(connection, dict.fromkeys(made, Offer("simulation", 3.0, 2000)))
    dear = jobs.create_many(connection, [NewJob(row.id, dft.id, one, 0, f"{name}d{one}", 1.0) for one in ids[:3]])
    offers_claims_and_ended_jobs.offer_many(connection, dict.fromkeys(dear[:2], Offer("high_fidelity", 3600.0, 8000)))
    campaigns.set_state(connection, row.id, CampaignState.RUNNING)
    campaigns.take_driver(connection, row.id, campaigns.new_owner())


def _end(connection: sa.Connection, one: Claim, i: int) -> None:
    """Every fifth fails."""
    row = connection.execute(sa.select(t.job.c.campaign_id, t.job.c.rung_id).where(t.job.c.id == one.job_id)).one()
    bad = i % 5 == 4
    cost = {"core_seconds": 3.5}
    outcome, reason = (Outcome.TIMEOUT, Reason.WORKER_DIED) if bad else (Outcome.OK, None)
    state = AttemptState.FAILED if bad else AttemptState.DONE
    attempts.end_many(connection, [AttemptEnd(one.attempt_id, state, cost, 3.5, outcome, reason, "")])
    reservations_and_bookings.book_many(connection, [Bill(row.campaign_id, row.rung_id, one.attempt_id, cost)])
    rows.finish_many(connection, [JobEnd(one, JobState.FAILED if bad else JobState.DONE, outcome)])
    started = db_now(connection) - timedelta(seconds=40 - i)
    connection.execute(sa.update(t.attempt).where(t.attempt.c.id == one.attempt_id).values(started_at=started))
