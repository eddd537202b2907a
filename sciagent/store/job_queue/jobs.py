"""Jobs: a rung to be run on a candidate. Made, found, and changed while no worker holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.jobs.states import JobState
from sciagent.errors import LedgerError
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import CHUNK, among, execute_many, insert_many
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import reservations

PREFERRED = 1e6  # priority of what a person promoted: before all that a rule chose
UNFINISHED = (JobState.QUEUED, JobState.RUNNING)


def create(
    connection: Connection,
    *,
    campaign_id: int,
    rung_id: int,
    candidate_id: int,
    replicate: int,
    evidence_key: str,
    priority: float,
) -> int:
    """One job, as `create_many` makes it."""
    one = NewJob(campaign_id, rung_id, candidate_id, replicate, evidence_key, priority)
    return create_many(connection, [one])[0]


@dataclass(frozen=True)
class Offer:
    """Where workers find a job. seconds: on the clock, as expected; None where nobody knows. memory_mb: its limit.
    needs: what it holds while it runs, as `domain.needs.text_of` writes it; None: one core."""

    queue: str
    seconds: float | None
    memory_mb: int | None
    needs: str | None = None


@dataclass(frozen=True)
class NewJob:
    """A rung to be run on a candidate. offer: None where its own driver runs it."""

    campaign_id: int
    rung_id: int
    candidate_id: int
    replicate: int
    evidence_key: str
    priority: float
    offer: Offer | None = None

    @property
    def place(self) -> tuple[int, ...]:
        """What there is one of."""
        return self.campaign_id, self.rung_id, self.candidate_id, self.replicate


def create_many(connection: Connection, new: Sequence[NewJob]) -> list[int]:
    """Queued jobs, ids in order; one that was cancelled before is queued again. Raises LedgerError if one of them
    stands already. Jobs of a campaign are made under the lock of its row."""
    there = present(connection, new)
    if standing := [one for one in new if one.place in there and there[one.place][1] != JobState.CANCELLED]:
        raise LedgerError(f"rung {standing[0].rung_id} has a job on candidate {standing[0].candidate_id} already")
    j, now = t.job.c, db_now(connection)
    again = [
        {
            "of": there[one.place][0],
            "state": JobState.QUEUED,
            "priority": one.priority,
            "outcome": None,
            "external": None,
            "cancel_requested": False,
            "updated_at": now,
            **offered(one.offer),
        }
        for one in new
        if one.place in there
    ]
    execute_many(connection, sa.update(t.job).where(j.id == sa.bindparam("of")), again)
    fresh = [one for one in new if one.place not in there]
    ids = insert(connection, fresh, {"state": JobState.QUEUED, "attempts": 0, "fence": 0, "created_at": now})
    made = dict(zip((one.place for one in fresh), ids, strict=True))
    return [made[one.place] if one.place in made else there[one.place][0] for one in new]


def insert(connection: Connection, new: Sequence[NewJob], alike: Mapping[str, Any]) -> list[int]:
    """Rows for jobs that are not in the ledger yet; returns their ids. alike: columns that all of them share."""
    same = {**alike, "updated_at": alike["created_at"], "kills": 0, "cancel_requested": False}
    some = any(one.offer for one in new)
    rows = [dict(zip(_NEW, _of(one), strict=True)) | (offered(one.offer) if some else {}) for one in new]
    return insert_many(connection, t.job, rows, same)


_NEW = ("campaign_id", "rung_id", "candidate_id", "replicate", "evidence_key", "priority")
_of = attrgetter(*_NEW)


def offered(offer: Offer | None) -> dict[str, Any]:
    """Columns that say where workers find a job."""
    return {"queue": None, "seconds": None, "memory_mb": None, "needs": None} if offer is None else vars(offer)


def present(connection: Connection, new: Sequence[NewJob]) -> dict[tuple[int, ...], tuple[int, JobState]]:
    """(id, state) of those that are in the ledger, by their place in it."""
    j, found = t.job.c, dict[tuple[int, ...], tuple[int, JobState]]()
    of = dict[tuple[int, int], list[int]]()
    for one in new:
        of.setdefault((one.campaign_id, one.rung_id), []).append(one.candidate_id)
    for (campaign_id, rung_id), ids in of.items():
        for start in range(0, len(ids), CHUNK):
            some = among(connection, j.candidate_id, ids[start : start + CHUNK])
            query = sa.select(j.id, j.state, j.candidate_id, j.replicate).where(
                j.campaign_id == campaign_id, j.rung_id == rung_id, some
            )
            for id_, state, candidate_id, replicate in connection.execute(query).all():
                found[campaign_id, rung_id, candidate_id, replicate] = int(id_), JobState(state)
    return found


def of_candidate(connection: Connection, campaign_id: int, candidate_id: int, rung_ids: Sequence[int]) -> list[Any]:
    """The candidate's jobs at these rungs: (id, rung id, state, outcome)."""
    j = t.job.c
    query = sa.select(j.id, j.rung_id, j.state, j.outcome).where(
        j.campaign_id == campaign_id, j.rung_id.in_(rung_ids), j.candidate_id == candidate_id
    )
    return list(connection.execute(query))


def gave_up(connection: Connection, campaign_id: int, rung_id: int, candidate_id: int) -> bool:
    """Whether the rung was tried on the candidate and will not be tried again by itself."""
    states = {state for _, _, state, _ in of_candidate(connection, campaign_id, candidate_id, [rung_id])}
    return bool(states & {JobState.FAILED, JobState.QUARANTINED})


def cancel_queued(connection: Connection, job_id: int) -> bool:
    """Cancel a job that no worker has taken yet, and give its reservation back; False if one has."""
    j = t.job.c
    changed = connection.execute(
        sa.update(t.job)
        .where(j.id == job_id, j.state == JobState.QUEUED)
        .values(state=JobState.CANCELLED, updated_at=db_now(connection))
    )
    if changed.rowcount == 1:
        reservations.release(connection, job_id)
    return changed.rowcount == 1


def retry(connection: Connection, job_id: int, priority: float | None = None) -> None:
    """A job that gave up is tried again, because a person asked for it; what it killed before counts no more.
    priority: None leaves it its own."""
    j = t.job.c
    connection.execute(
        sa.update(t.job)
        .where(j.id == job_id, j.state.in_([JobState.FAILED, JobState.QUARANTINED, JobState.CANCELLED]))
        .values(
            state=JobState.QUEUED,
            priority=j.priority if priority is None else priority,
            outcome=None,
            kills=0,
            losses=0,
            queue=None,
            cancel_requested=False,
            updated_at=db_now(connection),
        )
    )


def requeue(connection: Connection, campaign_id: int, rung_id: int, outcomes: Sequence[str]) -> list[int]:
    """Failed jobs of a rung that ended in one of these outcomes wait for a worker again; returns their candidates."""
    j = t.job.c
    changed = connection.execute(
        sa.update(t.job)
        .where(j.campaign_id == campaign_id, j.rung_id == rung_id, j.state == JobState.FAILED, j.outcome.in_(outcomes))
        .values(state=JobState.QUEUED, outcome=None, queue=None, updated_at=db_now(connection))
        .returning(j.candidate_id)
    )
    return [int(i) for i in changed.scalars()]


def prefer(connection: Connection, job_id: int, priority: float) -> None:
    """A queued job goes to the front."""
    j = t.job.c
    connection.execute(sa.update(t.job).where(j.id == job_id, j.state == JobState.QUEUED).values(priority=priority))


def queued(connection: Connection, campaign_id: int) -> list[Any]:
    """Jobs that were decided and wait for their driver, not for workers elsewhere: (job id, candidate id, rung id,
    replicate, priority), most urgent first."""
    j = t.job.c
    query = (
        sa.select(j.id, j.candidate_id, j.rung_id, j.replicate, j.priority)
        .where(j.campaign_id == campaign_id, j.state == JobState.QUEUED, j.queue.is_(None))
        .order_by(j.priority.desc(), j.id)
        .limit(1000)
    )
    return list(connection.execute(query))


def any_queued(connection: Connection, rung_id: int) -> bool:
    """Whether a job of this rung was decided and waits for a worker."""
    j = t.job.c
    query = sa.select(j.id).where(j.rung_id == rung_id, j.state == JobState.QUEUED).limit(1)
    return connection.execute(query).first() is not None


def any_offered(connection: Connection, queue: str) -> bool:
    """Whether a job waits in this queue for anybody who works on it."""
    j = t.job.c
    query = sa.select(j.id).where(j.queue == queue, j.state == JobState.QUEUED).limit(1)
    return connection.execute(query).first() is not None


def live_keys(connection: Connection, keys: Set[str]) -> set[str]:
    """Those of these evidence keys that a job which is not over will answer."""
    j = t.job.c
    query = sa.select(j.evidence_key).where(
        j.campaign_id.in_(sa.select(t.campaign.c.id)),
        j.state.in_(UNFINISHED),
        among(connection, j.evidence_key, sorted(keys)),
    )
    return set(connection.execute(query).scalars())
