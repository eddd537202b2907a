"""Leases: jobs are claimed, kept, ended and given back under a fence. All statements compare and set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent import settings
from sciagent.domain.states import AttemptState, JobState
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import CHUNK, among, insert_many
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import attempts, jobs, reservations
from sciagent.store.job_queue.attempts import AttemptEnd
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
    connection: Connection,
    job_ids: Sequence[int],
    owner: str,
    *,
    state: AttemptState = AttemptState.RUNNING,
    lease_seconds: float = LEASE_SECONDS,
) -> dict[int, Claim]:
    """{job id: claim} of those that could be taken. state: `running`, or `claimed` for what will wait in a pool."""
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
    return _attempt(connection, [tuple(one) for one in taken], owner, state, now)


def start_many(
    connection: Connection,
    new: Mapping[AttemptState, Sequence[NewJob]],
    owner: str,
    lease_seconds: float = LEASE_SECONDS,
) -> dict[AttemptState, list[Claim]]:
    """Jobs that are claimed as they are made, in order. new: by the state of their attempts, as for `claim_many`.
    Raises what `jobs.create_many` raises."""
    now = db_now(connection)
    alike = {
        "state": JobState.RUNNING,
        "attempts": 1,
        "fence": 1,
        "lease_owner": owner,
        "created_at": now,
        "lease_until": now + timedelta(seconds=lease_seconds),
    }
    found = {}
    for state, mine in new.items():
        there = jobs.present(connection, mine)
        old = [one for one in mine if one.place in there] if there else []
        fresh = [one for one in mine if one.place not in there] if there else mine
        again = jobs.create_many(connection, old) if old else []
        claims = claim_many(connection, again, owner, state=state, lease_seconds=lease_seconds) if old else {}
        ids = jobs.insert(connection, fresh, alike)
        taken = [(id_, 1, one.campaign_id, one.rung_id) for id_, one in zip(ids, fresh, strict=True)]
        claims |= _attempt(connection, taken, owner, state, now)
        by_place = dict(zip((one.place for one in (*old, *fresh)), (*again, *ids), strict=True)) if old else {}
        found[state] = [claims[id_] for id_ in ([by_place[one.place] for one in mine] if old else ids)]
    return found


def _attempt(
    connection: Connection, taken: Sequence[tuple[int, ...]], owner: str, state: AttemptState, now: datetime
) -> dict[int, Claim]:
    """A live attempt of each job. taken: (job id, fence, campaign id, rung id)."""
    alike = {"owner": owner, "state": state, "n_candidates": 1, "cost": {}, "started_at": now, "heartbeat_at": now}
    rows = [
        {"campaign_id": campaign_id, "rung_id": rung_id, "job_id": job_id, "fence": fence}
        for job_id, fence, campaign_id, rung_id in taken
    ]
    ids = insert_many(connection, t.attempt, rows, alike)
    return {job_id: Claim(job_id, id_, fence) for id_, (job_id, fence, *_) in zip(ids, taken, strict=True)}


def begun(connection: Connection, claims: Sequence[Claim]) -> None:
    """A worker has taken up jobs that were claimed ahead."""
    now = db_now(connection)
    connection.execute(
        sa.update(t.attempt)
        .where(t.attempt.c.id.in_([one.attempt_id for one in claims]), t.attempt.c.state == AttemptState.CLAIMED)
        .values(state=AttemptState.RUNNING, started_at=now, heartbeat_at=now)
    )


def heartbeat(connection: Connection, claims: Sequence[Claim], lease_seconds: float = LEASE_SECONDS) -> list[Claim]:
    """Extend the leases; returns the claims that were lost or whose job is to be cancelled."""
    now, j, a = db_now(connection), t.job.c, t.attempt.c
    live = _live(connection, claims)
    kept = [one for one in claims if live.get(one.job_id) == (one.fence, False)]
    if kept:
        until, tries = now + timedelta(seconds=lease_seconds), [one.attempt_id for one in kept]
        held = among(connection, j.id, [one.job_id for one in kept])
        connection.execute(sa.update(t.job).where(held).values(lease_until=until))
        connection.execute(sa.update(t.attempt).where(among(connection, a.id, tries)).values(heartbeat_at=now))
    return [one for one in claims if live.get(one.job_id) != (one.fence, False)]


class JobEnd(NamedTuple):
    """What became of a job under a claim. kills: how many workers this attempt has killed, 0 or 1."""

    claim: Claim
    state: JobState
    outcome: str
    kills: int = 0


def finish(connection: Connection, one: Claim, state: JobState, outcome: str, *, kills: int = 0) -> bool:
    """End the job under its fence; False if another attempt has taken over (the caller's result is stale)."""
    return one.job_id in finish_many(connection, [JobEnd(one, state, outcome, kills)])


def finish_many(connection: Connection, ends: Sequence[JobEnd]) -> set[int]:
    """End jobs under their fences; returns the ids of those that were still the caller's."""
    mine = hold(connection, [one.claim for one in ends])
    end_held(connection, [one for one in ends if one.claim.job_id in mine])
    return set(mine)


def hold(connection: Connection, claims: Sequence[Claim]) -> dict[int, bool]:
    """The jobs that are still under these claims, and stay so until the end of the transaction: {job id: whether it is
    to be cancelled}."""
    live = _live(connection, claims)
    return {one.job_id: live[one.job_id][1] for one in claims if live.get(one.job_id, (0,))[0] == one.fence}


def _live(connection: Connection, claims: Sequence[Claim]) -> dict[int, tuple[int, bool]]:
    """Of the jobs that somebody holds the fence, and whether they are to be cancelled; locked in the order of their
    ids, so that no two wait for each other."""
    j = t.job.c
    query = sa.select(j.id, j.fence, j.cancel_requested).where(
        among(connection, j.id, [one.job_id for one in claims]), j.state.in_(_LEASED)
    )
    rows = connection.execute(query.order_by(j.id).with_for_update()).all()
    return {int(id_): (int(fence), bool(cancel)) for id_, fence, cancel in rows}


def end_held(connection: Connection, ends: Sequence[JobEnd]) -> None:
    """End jobs that `hold` has found to be the caller's."""
    j, now = t.job.c, db_now(connection)
    alike: dict[tuple[JobState, str, int], list[int]] = {}
    for one in ends:
        alike.setdefault((one.state, one.outcome, one.kills), []).append(one.claim.job_id)
    for (state, outcome, kills), ids in alike.items():
        values = {"state": state, "outcome": outcome, "kills": j.kills + kills, "updated_at": now}
        nobody = {"lease_owner": None, "lease_until": None, "external": None, "cancel_requested": False}
        changed = sa.update(t.job).values(**values, **nobody)
        for start in range(0, len(ids), CHUNK):
            connection.execute(changed.where(among(connection, j.id, ids[start : start + CHUNK])))
    reservations.release_many(connection, [one.claim.job_id for one in ends if one.state is not JobState.QUEUED])


def give_back(connection: Connection, claims: Sequence[Claim]) -> set[int]:
    """Jobs that were claimed ahead and no worker has taken up are queued again, as if nothing had been; returns the ids
    of those that are cancelled instead, because a person asked for it."""
    attempts.end_many(connection, [AttemptEnd(one.attempt_id, AttemptState.CANCELLED, {}, 0.0) for one in claims])
    return {one.job_id for one in claims if take_back(connection, one.job_id, one.fence)}


def take_back(connection: Connection, job_id: int, fence: int) -> bool:
    """The job of an attempt whose driver died waits for a worker again; True if it is cancelled instead, because a
    person asked for it."""
    j = t.job.c
    state = sa.case((j.cancel_requested, JobState.CANCELLED), else_=JobState.QUEUED)
    changed = connection.execute(
        sa.update(t.job)
        .where(j.id == job_id, j.fence == fence, j.state == JobState.RUNNING)
        .values(state=state, cancel_requested=False, lease_owner=None, lease_until=None, updated_at=db_now(connection))
        .returning(j.state)
    ).scalar_one_or_none()
    if changed == JobState.CANCELLED:
        reservations.release(connection, job_id)
    return changed == JobState.CANCELLED


def orphans(connection: Connection, campaign_id: int, owner: str) -> list[Any]:
    """Live attempts of the campaign that belong to other drivers than `owner`; who asks holds the driver lease:
    (id, job id, fence, rung id, state, started at, last heartbeat)."""
    a = t.attempt.c
    query = (
        sa.select(a.id, a.job_id, a.fence, a.rung_id, a.state, a.started_at, a.heartbeat_at)
        .select_from(t.attempt.outerjoin(t.job, t.job.c.id == a.job_id))
        .where(
            a.campaign_id == campaign_id,
            a.state.in_([AttemptState.CLAIMED, AttemptState.RUNNING]),
            a.owner != owner,
            t.job.c.queue.is_(None),  # what workers hold is theirs for as long as their leases run
        )
    )
    return list(connection.execute(query))
