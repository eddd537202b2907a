"""Six jobs that wait for workers, for the commands about jobs and workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.states_and_needs import Standing
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, offers_claims_and_ended_jobs, reservations_and_bookings, workers_and_capacity
from sciagent.store.job_queue.jobs import NewJob, Offer
from sciagent.store.job_queue.leases import Claim
from sciagent.store.job_queue.workers_and_capacity import NewWorker
from sciagent.store.results import candidates
from tests.support.commands import Typed, typed  # noqa: F401
from tests.support.elsewhere import molecules, written


@pytest.fixture
def six_jobs(ledger: Ledger, tmp_path: Path, misbehaving: Path) -> Built:
    """Six jobs that wait for workers, the later the more urgent."""
    found = written(ledger, tmp_path, molecules(6))
    made = [parse_molecule(one) for one in molecules(6)]
    rung = found.paid[0]
    with ledger.begin() as connection:
        ids = candidates.enter(connection, made)
        places = [{"candidate_id": ids[m.key], "in_seeds": False} for m in made]
        candidate_standings.add(connection, found.row.id, places)
        waits = {"standing": Standing.PENDING, "position": rung.rules.position}
        candidate_standings.update_alike(connection, found.row.id, list(ids.values()), **waits)
        new = [
            NewJob(found.row.id, rung.id, ids[m.key], 0, rung.verifier.evidence_key(m).hash, float(i))
            for i, m in enumerate(made)
        ]
        made_ids = jobs.create_many(connection, new)
        reservations_and_bookings.reserve_many(
            connection, found.row.id, {one: {"core_seconds": 2.0} for one in made_ids}
        )
        offers_claims_and_ended_jobs.offer_many(connection, dict.fromkeys(made_ids, Offer("simulation", None, None)))
        workers_and_capacity.register(
            connection, NewWorker("node7:1:ab", "node7", 1, "ledger", ("simulation",), 2, 8000)
        )
    return found


def claimed(ledger: Ledger, owner: str = "node7:1:ab/0") -> Claim:
    with ledger.begin() as connection:
        (one,) = offers_claims_and_ended_jobs.claim_next(connection, ["simulation"], owner)
    return one
