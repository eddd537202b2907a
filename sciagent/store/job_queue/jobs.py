"""Jobs, each a rung to be run on a candidate: they are created, read, and changed while no worker holds them.

`leases` claims, renews and ends them for workers; `offers` lets workers find them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.states_and_needs import JobState
from sciagent.errors import LedgerError
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among, execute_many, insert_many
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue import reservations_and_bookings

PREFERRED = 1e6  # priority of jobs that a person promoted; above all priorities of a scheduler
UNFINISHED = (JobState.QUEUED, JobState.RUNNING)
JOBS_WITH_NAMES = (
    t.job.join(t.rung, t.rung.c.id == t.job.c.rung_id)
    .join(t.campaign, t.campaign.c.id == t.job.c.campaign_id)
    .join(t.candidate, t.candidate.c.id == t.job.c.candidate_id)
)
"""Jobs with their rung, campaign and candidate."""


@dataclass(frozen=True)
class Offer:
    """The queue in which workers find a job, and the resources that the job needs."""

    queue: str
    seconds: float | None
    """Expected wall time, in seconds; None if unknown."""
    memory_mb: int | None
    """Memory limit, in MB."""
    needs: str | None = None
    """Resources that the job holds while it runs, as text of `needs.text_of`; None for one core."""


@dataclass(frozen=True)
class NewJob:
    """A rung to be run on a candidate."""

    campaign_id: int
    rung_id: int
    candidate_id: int
    replicate: int
    evidence_key: str
    priority: float
    offer: Offer | None = None
    """None if the campaign's own driver runs the job."""

    @property
    def place(self) -> tuple[int, ...]:
        """The columns whose combination is unique in the ledger."""
        return self.campaign_id, self.rung_id, self.candidate_id, self.replicate


_NEW_JOB_COLUMNS = ("campaign_id", "rung_id", "candidate_id", "replicate", "evidence_key", "priority")
_UPDATE_BY_ID = sa.update(t.job).where(t.job.c.id == sa.bindparam("updated_id"))


def create_many(connection: Connection, new: Sequence[NewJob]) -> list[int]:
    """Create queued jobs; returns their ids in order. Raises the errors of `write_many`."""
    return [job_id for job_id, _ in write_many(connection, new, {"state": JobState.QUEUED}, attempts=0)]


def write_many(
    connection: Connection, new: Sequence[NewJob], shared: Mapping[str, Any], attempts: int
) -> list[tuple[int, int]]:
    """Write jobs; returns (id, fence) in order. The caller must hold the lock of their campaign's row.

    A job that was cancelled before is written again. shared: columns with the same value for all jobs. attempts: 1 if
    each job is claimed at its creation, else 0.
    Raises LedgerError if the ledger already has one of the jobs in another state.
    """
    cancelled = cancelled_places(connection, new)
    now = db_now(connection)
    unknown = [job for job in new if job.place not in cancelled]
    initial = {"attempts": attempts, "fence": attempts, "kills": 0, "cancel_requested": False}
    ids = insert_many(connection, t.job, _rows(unknown), {**shared, **initial, "created_at": now, "updated_at": now})
    if not cancelled:
        return [(job_id, attempts) for job_id in ids]
    written = {job.place: (job_id, attempts) for job, job_id in zip(unknown, ids, strict=True)}
    updates = []
    for job in new:
        if job.place not in cancelled:
            continue
        job_id, fence, earlier_attempts = cancelled[job.place]
        written[job.place] = job_id, fence + attempts
        counts = {"fence": fence + attempts, "attempts": earlier_attempts + attempts}
        updates.append({"updated_id": job_id, "priority": job.priority, **counts, **offer_columns(job.offer)})
    cleared = {"outcome": None, "external": None, "cancel_requested": False}
    execute_many(connection, _UPDATE_BY_ID, updates, {**shared, **cleared, "updated_at": now})
    return [written[job.place] for job in new]


def _rows(new: Sequence[NewJob]) -> list[dict[str, Any]]:
    """The columns in which the new jobs differ. The columns of offers are left out if no job is offered."""
    rows = [{name: getattr(job, name) for name in _NEW_JOB_COLUMNS} for job in new]
    if any(job.offer for job in new):
        return [{**row, **offer_columns(job.offer)} for row, job in zip(rows, new, strict=True)]
    return rows


def offer_columns(offer: Offer | None) -> Mapping[str, Any]:
    """The columns of an offer; all are None for a job that its driver runs."""
    if offer is None:
        return {"queue": None, "seconds": None, "memory_mb": None, "needs": None}
    return vars(offer)


def cancelled_places(connection: Connection, new: Sequence[NewJob]) -> dict[tuple[int, ...], tuple[int, int, int]]:
    """{place: (id, fence, attempts)} of the new jobs that the ledger already has as cancelled jobs.

    new: jobs of one campaign. Raises LedgerError if the ledger has one of them in another state.
    """
    j = t.job.c
    places = {job.place for job in new}
    query = sa.select(j.campaign_id, j.rung_id, j.candidate_id, j.replicate, j.id, j.fence, j.attempts, j.state).where(
        j.campaign_id.in_({job.campaign_id for job in new}),
        among(connection, j.rung_id, sorted({job.rung_id for job in new})),
        among(connection, j.candidate_id, [job.candidate_id for job in new]),
    )
    cancelled: dict[tuple[int, ...], tuple[int, int, int]] = {}
    for row in connection.execute(query).all():
        place = row.campaign_id, row.rung_id, row.candidate_id, row.replicate
        if place not in places:
            continue
        if row.state != JobState.CANCELLED:
            raise LedgerError(f"rung {row.rung_id} has a job on candidate {row.candidate_id} already")
        cancelled[place] = row.id, row.fence, row.attempts
    return cancelled


def of_candidate(connection: Connection, campaign_id: int, candidate_id: int, rung_ids: Sequence[int]) -> list[Any]:
    """The candidate's jobs at these rungs: (id, rung id, state, outcome)."""
    j = t.job.c
    query = sa.select(j.id, j.rung_id, j.state, j.outcome).where(
        j.campaign_id == campaign_id, j.rung_id.in_(rung_ids), j.candidate_id == candidate_id
    )
    return list(connection.execute(query))


def cancel_queued(connection: Connection, job_ids: Sequence[int]) -> list[int]:
    """Cancel the jobs that no worker has claimed, and release their reservations; returns the ids of these jobs."""
    j = t.job.c
    update = sa.update(t.job).where(among(connection, j.id, job_ids), j.state == JobState.QUEUED)
    update = update.values(state=JobState.CANCELLED, updated_at=db_now(connection)).returning(j.id)
    cancelled = list(connection.execute(update).scalars())
    reservations_and_bookings.release_many(connection, cancelled)
    return cancelled


def request_cancel(connection: Connection, job_ids: Sequence[int]) -> tuple[list[int], list[int]]:
    """Cancel jobs; returns (queued jobs, which are over now; running jobs, whose workers are notified)."""
    j = t.job.c
    queued_ids = cancel_queued(connection, job_ids)
    update = sa.update(t.job).where(among(connection, j.id, job_ids), j.state == JobState.RUNNING)
    update = update.values(cancel_requested=True, updated_at=db_now(connection)).returning(j.id)
    running_ids = list(connection.execute(update).scalars())
    return queued_ids, running_ids


def retry(connection: Connection, job_id: int, priority: float | None = None) -> None:
    """Queue a failed, quarantined or cancelled job again, since a person asked for it. Resets its kills and losses.

    priority: the new priority; None keeps the present one.
    """
    j = t.job.c
    was_given_up = j.state.in_([JobState.FAILED, JobState.QUARANTINED, JobState.CANCELLED])
    update = sa.update(t.job).where(j.id == job_id, was_given_up)
    update = update.values(state=JobState.QUEUED, queue=None, updated_at=db_now(connection))
    update = update.values(outcome=None, kills=0, losses=0, cancel_requested=False)
    if priority is not None:
        update = update.values(priority=priority)
    connection.execute(update)


def requeue(connection: Connection, campaign_id: int, rung_id: int, outcomes: Sequence[str]) -> list[int]:
    """Queue the rung's failed jobs with one of these outcomes again; returns the ids of their candidates."""
    j = t.job.c
    changed = connection.execute(
        sa.update(t.job)
        .where(j.campaign_id == campaign_id, j.rung_id == rung_id, j.state == JobState.FAILED, j.outcome.in_(outcomes))
        .values(state=JobState.QUEUED, outcome=None, queue=None, updated_at=db_now(connection))
        .returning(j.candidate_id)
    )
    return list(changed.scalars())


def set_priority(connection: Connection, job_id: int, priority: float) -> None:
    """Set the priority of a queued job."""
    j = t.job.c
    connection.execute(sa.update(t.job).where(j.id == job_id, j.state == JobState.QUEUED).values(priority=priority))


def queued(connection: Connection, campaign_id: int) -> list[Any]:
    """(job id, candidate id, rung id, replicate, priority) of queued jobs for the campaign's own driver.

    The most urgent job is the first; at most 1000 are returned.
    """
    j = t.job.c
    query = (
        sa.select(j.id, j.candidate_id, j.rung_id, j.replicate, j.priority)
        .where(j.campaign_id == campaign_id, j.state == JobState.QUEUED, j.queue.is_(None))
        .order_by(j.priority.desc(), j.id)
        .limit(1000)
    )
    return list(connection.execute(query))


def any_in_state(
    connection: Connection, state: JobState, *, rung_id: int | None = None, queues: Sequence[str] = ()
) -> bool:
    """Whether a job of the rung is in this state; without a rung, a job of one of the queues."""
    j = t.job.c
    is_asked_for = j.queue.in_(queues) if rung_id is None else j.rung_id == rung_id
    query = sa.select(j.id).where(is_asked_for, j.state == state).limit(1)
    return connection.execute(query).first() is not None


def answered_and_open(connection: Connection, rung_id: int, candidate_id: int) -> tuple[int, int]:
    """(number of the candidate's jobs at a rung that are done, number of its jobs at the rung that are not over)."""
    j = t.job.c
    query = sa.select(j.state, sa.func.count()).where(j.rung_id == rung_id, j.candidate_id == candidate_id)
    by_state = {state: int(n) for state, n in connection.execute(query.group_by(j.state))}
    n_open = sum(by_state.get(state, 0) for state in UNFINISHED)
    return by_state.get(JobState.DONE, 0), n_open


def open_replicates(connection: Connection, rung_id: int, candidate_id: int) -> set[int]:
    """Numbers of the candidate's measurements with a job at a rung that is not over."""
    j = t.job.c
    query = sa.select(j.replicate).where(j.rung_id == rung_id, j.candidate_id == candidate_id)
    return set(connection.execute(query.where(j.state.in_(UNFINISHED))).scalars())


def answered_candidates(connection: Connection, rung_id: int) -> list[int]:
    """Ids of the candidates with a job at a rung that is done."""
    j = t.job.c
    query = sa.select(j.candidate_id).distinct().where(j.rung_id == rung_id, j.state == JobState.DONE)
    return list(connection.execute(query).scalars())


def keys_of_unfinished_jobs(connection: Connection, keys: Set[str]) -> set[str]:
    """Returns the evidence keys that belong to an unfinished job."""
    j = t.job.c
    # the first condition is always met; it lets the database use an index that begins with the campaign
    query = sa.select(j.evidence_key).where(
        j.campaign_id.in_(sa.select(t.campaign.c.id)),
        j.state.in_(UNFINISHED),
        among(connection, j.evidence_key, sorted(keys)),
    )
    return set(connection.execute(query).scalars())
