"""Leases: jobs are claimed, kept, ended and given back under a fence. All statements compare and set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent import settings
from sciagent.domain.jobs.states import AttemptState, JobState
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import CHUNK, among, insert_many
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import jobs, reservations
from sciagent.store.job_queue.jobs import NewJob

LEASE_SECONDS = settings.lease_seconds()

_LEASED = (JobState.RUNNING,)


@dataclass(frozen=True)
class Claim:
    """A job under lease; `fence` must be shown by whoever writes its result. gpus: of its worker, that it holds."""

    job_id: int
    attempt_id: int
    fence: int
    gpus: tuple[int, ...] = ()


def claim(connection: Connection, job_id: int, owner: str, lease_seconds: float = LEASE_SECONDS) -> Claim | None:
    """Take a queued job, or one whose lease ran out; None if somebody else has it or it is over."""
    return claim_many(connection, [job_id], owner, lease_seconds=lease_seconds).get(job_id)


def claim_many(
    connection: Connection, job_ids: Sequence[int], owner: str, lease_seconds: float = LEASE_SECONDS
) -> dict[int, Claim]:
    """{job id: claim} of those that could be taken."""
    now = db_now(connection)
    j, taken = t.job.c, list[Any]()
    free = sa.or_(j.state == JobState.QUEUED, sa.and_(j.state.in_(_LEASED), j.lease_until < now))
    for start in range(0, len(job_ids), CHUNK):
        taken += connection.execute(
            sa.update(t.job)
            .where(among(connection, j.id, job_ids[start : start + CHUNK]), free, sa.not_(j.cancel_requested))
            .values(
                state=JobState.RUNNING,
                lease_owner=owner,
                lease_until=now + timedelta(seconds=lease_seconds),
                fence=j.fence + 1,
                attempts=j.attempts + 1,
                updated_at=now,
            )
            .returning(j.id, j.fence, j.campaign_id, j.rung_id)
        ).all()
    return _attempt(connection, [tuple(one) for one in taken], owner, now)


def start_many(
    connection: Connection, new: Sequence[NewJob], owner: str, lease_seconds: float = LEASE_SECONDS
) -> list[Claim]:
    """Jobs that are claimed as they are made, in order. Raises what `jobs.create_many` raises."""
    now = db_now(connection)
    alike = {
        "state": JobState.RUNNING,
        "attempts": 1,
        "fence": 1,
        "lease_owner": owner,
        "created_at": now,
        "lease_until": now + timedelta(seconds=lease_seconds),
    }
    there = jobs.present(connection, new)
    old, fresh = [job for job in new if job.place in there], [job for job in new if job.place not in there]
    again = jobs.create_many(connection, old) if old else []
    claims = claim_many(connection, again, owner, lease_seconds) if old else {}
    ids = jobs.insert(connection, fresh, alike)
    taken = [(id_, 1, job.campaign_id, job.rung_id) for id_, job in zip(ids, fresh, strict=True)]
    claims |= _attempt(connection, taken, owner, now)
    by_place = dict(zip((job.place for job in (*old, *fresh)), (*again, *ids), strict=True))
    return [claims[by_place[job.place]] for job in new]


def _attempt(connection: Connection, taken: Sequence[tuple[int, ...]], owner: str, now: datetime) -> dict[int, Claim]:
    """A live attempt of each job. taken: (job id, fence, campaign id, rung id)."""
    alike = {
        "owner": owner,
        "state": AttemptState.RUNNING,
        "n_candidates": 1,
        "cost": {},
        "started_at": now,
        "heartbeat_at": now,
    }
    rows = [
        {"campaign_id": campaign_id, "rung_id": rung_id, "job_id": job_id, "fence": fence}
        for job_id, fence, campaign_id, rung_id in taken
    ]
    ids = insert_many(connection, t.attempt, rows, alike)
    return {job_id: Claim(job_id, id_, fence) for id_, (job_id, fence, *_) in zip(ids, taken, strict=True)}


def heartbeat(connection: Connection, claims: Sequence[Claim], lease_seconds: float = LEASE_SECONDS) -> list[Claim]:
    """Extend the leases; returns the claims that were lost or whose job is to be cancelled."""
    now, j, a = db_now(connection), t.job.c, t.attempt.c
    live = _live(connection, claims)
    mine = {id_ for id_, job in live.items() if not job.cancel}
    kept = [one for one in claims if one.job_id in mine and live[one.job_id].fence == one.fence]
    if kept:
        until, tries = now + timedelta(seconds=lease_seconds), [one.attempt_id for one in kept]
        held = among(connection, j.id, [one.job_id for one in kept])
        connection.execute(sa.update(t.job).where(held).values(lease_until=until))
        connection.execute(sa.update(t.attempt).where(among(connection, a.id, tries)).values(heartbeat_at=now))
    return [one for one in claims if one not in kept]


class JobEnd(NamedTuple):
    """What became of a job under a claim. kills, losses: that this attempt adds to it."""

    claim: Claim
    state: JobState
    outcome: str | None
    kills: int = 0
    losses: int = 0


def finish(connection: Connection, one: Claim, state: JobState, outcome: str, *, kills: int = 0) -> bool:
    """End the job under its fence; False if another attempt has taken over (the caller's result is stale)."""
    return one.job_id in finish_many(connection, [JobEnd(one, state, outcome, kills)])


def finish_many(connection: Connection, ends: Sequence[JobEnd]) -> set[int]:
    """End jobs under their fences; returns the ids of those that were still the caller's."""
    mine = hold(connection, [one.claim for one in ends])
    end_held(connection, [one for one in ends if one.claim.job_id in mine])
    return set(mine)


class HeldJob(NamedTuple):
    """A running job, locked until the end of the transaction."""

    fence: int
    cancel: bool
    """Whether a person wants it to be ended."""
    kills: int


def hold(connection: Connection, claims: Sequence[Claim]) -> dict[int, HeldJob]:
    """The jobs that are still under these claims, and stay so until the end of the transaction, by id."""
    fences = {claim.job_id: claim.fence for claim in claims}
    return {id_: job for id_, job in _live(connection, claims).items() if job.fence == fences[id_]}


def _live(connection: Connection, claims: Sequence[Claim]) -> dict[int, HeldJob]:
    """The running jobs among these; locked in the order of their ids, so that no two wait for each other."""
    j = t.job.c
    query = sa.select(j.id, j.fence, j.cancel_requested, j.kills).where(
        among(connection, j.id, [one.job_id for one in claims]), j.state.in_(_LEASED)
    )
    rows = connection.execute(query.order_by(j.id).with_for_update()).all()
    return {int(id_): HeldJob(int(fence), bool(cancel), int(kills)) for id_, fence, cancel, kills in rows}


def end_held(connection: Connection, ends: Sequence[JobEnd]) -> None:
    """End jobs that the caller holds."""
    j, now = t.job.c, db_now(connection)
    alike: dict[tuple[Any, ...], list[int]] = {}
    for one in ends:
        alike.setdefault(one[1:], []).append(one.claim.job_id)
    for (state, outcome, kills, losses), ids in alike.items():
        values = {"state": state, "outcome": outcome, "updated_at": now, "kills": j.kills + kills}
        values |= {"losses": j.losses + losses} if losses else {}
        nobody = {"lease_owner": None, "lease_until": None, "external": None, "cancel_requested": False}
        changed = sa.update(t.job).values(**values, **nobody)
        for start in range(0, len(ids), CHUNK):
            connection.execute(changed.where(among(connection, j.id, ids[start : start + CHUNK])))
    reservations.release_many(connection, [one.claim.job_id for one in ends if one.state is not JobState.QUEUED])


@dataclass(frozen=True)
class LiveAttempt:
    """An attempt that has not ended, and the job that it holds."""

    claim: Claim
    campaign_id: int
    rung_id: int
    candidate_id: int
    queue: str | None
    kills: int
    losses: int
    cancel: bool
    """Whether a person wants the job to be ended."""
    started_at: datetime
    heartbeat_at: datetime
    lease_until: datetime
    cores: int
    """What the job holds of its worker."""


def orphans(connection: Connection, campaign_id: int, owner: str) -> list[LiveAttempt]:
    """What drivers of the campaign other than `owner` ran themselves; only who holds the driver lease may ask. What
    workers hold is theirs for as long as their leases run."""
    a, j = t.attempt.c, t.job.c
    return _attempts(connection, a.campaign_id == campaign_id, a.owner != owner, j.queue.is_(None))


def expired(connection: Connection, limit: int) -> list[LiveAttempt]:
    """Attempts of workers whose lease has run out; their jobs are locked, those that others lock are passed over."""
    j = t.job.c
    ended = (j.lease_until < db_now(connection), j.queue.is_not(None))
    return _attempts(connection, *ended, limit=limit)


def held_by_workers(connection: Connection, campaign_id: int) -> list[LiveAttempt]:
    """What workers run of the campaign; the jobs are locked."""
    j = t.job.c
    return _attempts(connection, j.campaign_id == campaign_id, j.queue.is_not(None))


def _attempts(
    connection: Connection, *conditions: sa.ColumnElement[bool], limit: int | None = None
) -> list[LiveAttempt]:
    a, j = t.attempt.c, t.job.c
    query = (
        sa.select(
            j.id, a.id.label("attempt_id"), j.fence, j.campaign_id, j.rung_id, j.candidate_id, j.queue,
            j.kills, j.losses, j.cancel_requested, a.started_at, a.heartbeat_at, j.lease_until, t.rung.c.request,
        )
        .select_from(
            t.job.join(t.attempt, sa.and_(a.job_id == j.id, a.fence == j.fence)).join(t.rung, t.rung.c.id == j.rung_id)
        )
        .where(
            j.state == JobState.RUNNING, a.state == AttemptState.RUNNING, *conditions
        )
        .order_by(j.lease_until if limit else j.id)
        .limit(limit)
        .with_for_update(of=t.job, skip_locked=limit is not None)
    )  # fmt: skip
    return [
        LiveAttempt(
            Claim(row.id, row.attempt_id, row.fence),
            *row[3:9],
            bool(row.cancel_requested),
            row.started_at,
            row.heartbeat_at,
            row.lease_until,
            int(((row.request or {}).get("limits") or {}).get("threads", 1)),
        )
        for row in connection.execute(query).all()
    ]
