"""Leases: jobs are claimed, renewed and ended under a fence, so that only the holder of a lease can write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain import lab_messages_and_codes
from sciagent.domain.states_and_needs import AttemptState, JobState, ReportedProgress
from sciagent.inputs import environment_variables
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among, execute_many, insert_many
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue import jobs, reservations_and_bookings
from sciagent.store.job_queue.jobs import NewJob

LEASE_SECONDS = environment_variables.lease_seconds()


@dataclass(frozen=True)
class Claim:
    """A job under lease."""

    job_id: int
    attempt_id: int
    fence: int
    """Number of the claim, which is compared when the result is written."""
    gpus: tuple[int, ...] = ()
    """Indices of the worker's GPUs that the job holds."""


def claim(connection: Connection, job_id: int, owner: str, lease_seconds: float = LEASE_SECONDS) -> Claim | None:
    """Claim a queued job, or one whose lease has expired; None if another owner holds the job or it has ended."""
    return claim_many(connection, [job_id], owner, lease_seconds).get(job_id)


def claim_many(
    connection: Connection,
    job_ids: Sequence[int],
    owner: str,
    lease_seconds: float | None = LEASE_SECONDS,
    *,
    together: bool = False,
) -> dict[int, Claim]:
    """Claim jobs; returns {job id: claim} of the jobs that could be claimed.

    lease_seconds: None for a claim without end, such as a person's. together: whether a single call runs all jobs.
    """
    now = db_now(connection)
    j = t.job.c
    is_free = sa.or_(j.state == JobState.QUEUED, sa.and_(j.state == JobState.RUNNING, j.lease_until < now))
    claimed = connection.execute(
        sa.update(t.job)
        .where(among(connection, j.id, job_ids), is_free, sa.not_(j.cancel_requested))
        .values(**_lease(owner, now, lease_seconds), fence=j.fence + 1, attempts=j.attempts + 1, updated_at=now)
        .returning(j.id, j.fence, j.campaign_id, j.rung_id)
    ).all()
    call_size = len(claimed) if together else 1
    sizes = [call_size] * len(claimed)
    return {claim.job_id: claim for claim in _attempts_of(connection, claimed, sizes, owner, now)}


def start_many(
    connection: Connection, new: Sequence[NewJob], owner: str, calls: Sequence[int] | None = None
) -> list[Claim]:
    """Create jobs that are claimed at once; returns their claims in order. Raises the errors of `jobs.write_many`.

    calls: number of the call that runs each job; None: each job has a call of its own.
    """
    now = db_now(connection)
    jobs_per_call = Counter(calls)
    written = jobs.write_many(connection, new, _lease(owner, now, LEASE_SECONDS), attempts=1)
    claimed = []
    for (job_id, fence), job in zip(written, new, strict=True):
        claimed.append((job_id, fence, job.campaign_id, job.rung_id))
    sizes = [1] * len(claimed) if calls is None else [jobs_per_call[call] for call in calls]
    return _attempts_of(connection, claimed, sizes, owner, now)


def _lease(owner: str, now: datetime, seconds: float | None) -> Mapping[str, Any]:
    """The columns of a job under lease. seconds: duration of the lease; None for a lease without end."""
    until = None if seconds is None else now + timedelta(seconds=seconds)
    return {"state": JobState.RUNNING, "lease_owner": owner, "lease_until": until}


def _attempts_of(
    connection: Connection, claimed: Sequence[Sequence[int]], sizes: Sequence[int], owner: str, now: datetime
) -> list[Claim]:
    """Write a running attempt of each job; returns the claims in order.

    claimed: (job id, fence, campaign id, rung id). sizes: for each job, the number of jobs in the call that runs it.
    """
    shared = {
        "owner": owner,
        "state": AttemptState.RUNNING,
        "n_candidates": 1,
        "cost": {},
        "started_at": now,
        "heartbeat_at": now,
    }
    rows = [
        {"campaign_id": campaign_id, "rung_id": rung_id, "job_id": job_id, "fence": fence, "together": size}
        for (job_id, fence, campaign_id, rung_id), size in zip(claimed, sizes, strict=True)
    ]
    ids = insert_many(connection, t.attempt, rows, shared)
    return [Claim(job_id, id_, fence) for id_, (job_id, fence, *_) in zip(ids, claimed, strict=True)]


def heartbeat(connection: Connection, claims: Sequence[Claim], lease_seconds: float = LEASE_SECONDS) -> None:
    """Extend the leases of the jobs that are still under these claims, except jobs to be cancelled."""
    now = db_now(connection)
    j = t.job.c
    a = t.attempt.c
    renewed_ids = {job_id for job_id, job in lock_held_jobs(connection, claims).items() if not job.cancel}
    if renewed_ids:
        until = now + timedelta(seconds=lease_seconds)
        attempts = [claim.attempt_id for claim in claims if claim.job_id in renewed_ids]
        connection.execute(
            sa.update(t.job).where(among(connection, j.id, sorted(renewed_ids))).values(lease_until=until)
        )
        connection.execute(sa.update(t.attempt).where(among(connection, a.id, attempts)).values(heartbeat_at=now))


def report_progress(connection: Connection, progress: Mapping[int, ReportedProgress]) -> None:
    """Write the progress of running attempts, by attempt id. An attempt that has ended is left as it is."""
    a = t.attempt.c
    update = sa.update(t.attempt).where(a.id == sa.bindparam("attempt_id"), a.state == AttemptState.RUNNING)
    rows = [{"attempt_id": attempt_id, "progress": asdict(progress[attempt_id])} for attempt_id in sorted(progress)]
    execute_many(connection, update, rows, {"progress_at": db_now(connection)})


class HeldJob(NamedTuple):
    """A running job, locked until the end of the transaction."""

    fence: int
    cancel: bool
    """Whether a person has asked to cancel it."""
    kills: int


def lock_held_jobs(connection: Connection, claims: Sequence[Claim]) -> dict[int, HeldJob]:
    """Lock the jobs that are still under these claims; returns {job id: job}.

    The jobs are locked in the order of their ids, so that two callers cannot deadlock.
    """
    fences = {claim.job_id: claim.fence for claim in claims}
    rows = connection.execute(_running(connection, claims).order_by(t.job.c.id).with_for_update()).all()
    return {id_: HeldJob(fence, cancel, kills) for id_, fence, cancel, kills in rows if fence == fences[id_]}


def jobs_to_stop(connection: Connection, claims: Sequence[Claim]) -> dict[int, bool]:
    """{job id: whether a person cancels the job} of the claimed jobs that must not go on.

    They are the jobs whose lease is lost, and the jobs that are to be cancelled.
    """
    rows = connection.execute(_running(connection, claims))
    is_to_cancel = {(job_id, fence): bool(cancel) for job_id, fence, cancel, _ in rows}
    to_stop = {}
    for claim in claims:
        is_held = (claim.job_id, claim.fence) in is_to_cancel
        is_cancelled = is_to_cancel.get((claim.job_id, claim.fence), False)
        if is_cancelled or not is_held:
            to_stop[claim.job_id] = is_cancelled
    return to_stop


def _running(connection: Connection, claims: Sequence[Claim]) -> sa.Select[Any]:
    """A query for (id, fence, whether to cancel, kills) of these jobs that are running, also under a later claim."""
    j = t.job.c
    job_ids = [claim.job_id for claim in claims]
    query = sa.select(j.id, j.fence, j.cancel_requested, j.kills)
    return query.where(among(connection, j.id, job_ids), j.state == JobState.RUNNING)


class JobEnd(NamedTuple):
    """The end of a claim, with the new state of its job."""

    claim: Claim
    state: JobState
    outcome: str | None
    kills: int = 0
    """Kills that this attempt adds."""
    losses: int = 0
    """Losses that this attempt adds."""


def end_held(connection: Connection, ends: Sequence[JobEnd]) -> None:
    """Write the ends of jobs that the caller has locked by `lock_held_jobs`."""
    j = t.job.c
    now = db_now(connection)
    ids_by_end: dict[tuple[JobState, str | None, int, int], list[int]] = {}
    for end in ends:
        ids_by_end.setdefault((end.state, end.outcome, end.kills, end.losses), []).append(end.claim.job_id)
    for (state, outcome, kills, losses), ids in ids_by_end.items():
        values = {"state": state, "outcome": outcome, "updated_at": now, "kills": j.kills + kills}
        if losses:
            values["losses"] = j.losses + losses
        no_lease = {"lease_owner": None, "lease_until": None, "external": None, "cancel_requested": False}
        connection.execute(sa.update(t.job).where(among(connection, j.id, ids)).values(**values, **no_lease))
    reservations_and_bookings.release_many(
        connection, [end.claim.job_id for end in ends if end.state is not JobState.QUEUED]
    )


class LiveAttempt(NamedTuple):
    """An attempt that has not ended, and the job that it holds."""

    claim: Claim
    campaign_id: int
    rung_id: int
    candidate_id: int
    queue: str | None
    kills: int
    losses: int
    cancel: bool
    """Whether a person has asked to cancel the job."""
    started_at: datetime
    heartbeat_at: datetime
    lease_until: datetime
    together: int
    """Number of jobs in the call that runs this job; the jobs share its time."""
    cores: int
    """Cores that the call holds."""
    state: JobState
    """State of the job: running, or the state that the end of the attempt gave it."""


def orphans(connection: Connection, campaign_id: int, owner: str) -> list[LiveAttempt]:
    """Running attempts of the campaign's earlier drivers. owner: the holder of the driver lease, the only caller.

    Attempts of workers are not included, since the workers hold them until their leases expire.
    """
    a = t.attempt.c
    j = t.job.c
    return _live(connection, a.campaign_id == campaign_id, a.owner != owner, j.queue.is_(None))


def expired(connection: Connection, limit: int) -> list[LiveAttempt]:
    """Attempts of workers whose lease has expired. Their jobs are locked; jobs that others have locked are skipped."""
    j = t.job.c
    return _live(connection, j.lease_until < db_now(connection), j.queue.is_not(None), limit=limit)


def held_by_workers(connection: Connection, campaign_id: int) -> list[LiveAttempt]:
    """Attempts of workers, not of people, on jobs of the campaign. The jobs are locked."""
    j = t.job.c
    return _live(connection, j.campaign_id == campaign_id, j.queue != lab_messages_and_codes.QUEUE)


def _live(connection: Connection, *conditions: sa.ColumnElement[bool], limit: int | None = None) -> list[LiveAttempt]:
    """Running attempts that meet the conditions. Their jobs are locked; with a limit, locked jobs are skipped."""
    a = t.attempt.c
    j = t.job.c
    of_job = (j.campaign_id, j.rung_id, j.candidate_id, j.queue, j.kills, j.losses, j.cancel_requested)
    of_attempt = (a.started_at, a.heartbeat_at, j.lease_until, sa.func.coalesce(a.together, 1))
    query = (
        sa.select(j.id, a.id, j.fence, *of_job, *of_attempt, t.rung.c.request)
        .select_from(t.job)
        .join(t.attempt, sa.and_(a.job_id == j.id, a.fence == j.fence))
        .join(t.rung, t.rung.c.id == j.rung_id)
        .where(j.state == JobState.RUNNING, a.state == AttemptState.RUNNING, *conditions)
        .order_by(j.lease_until if limit else j.id)
        .limit(limit)
        .with_for_update(of=t.job, skip_locked=limit is not None)
    )
    attempts = []
    for job_id, attempt_id, fence, *columns, request in connection.execute(query).all():
        claim_held = Claim(job_id, attempt_id, fence)
        attempts.append(LiveAttempt._make([claim_held, *columns, _threads(request), JobState.RUNNING]))
    return attempts


def _threads(request: Mapping[str, Any] | None) -> int:
    """Number of threads in a rung's request for remote workers; 1 if it states none."""
    if request is None:
        return 1
    limits = request.get("limits") or {}
    return int(limits.get("threads", 1))
