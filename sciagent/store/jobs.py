"""Jobs, attempts, reservations and spend: the statements behind leases. All compare and set, all fenced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.states import ATTEMPT_TRANSITIONS, AttemptState, JobState, check_transition
from sciagent.store import tables as t
from sciagent.store.clock import db_now

LEASE_SECONDS = 60.0
MAX_KILLS = 2  # a candidate that kills two workers is quarantined

_LIVE = (JobState.RUNNING,)


@dataclass(frozen=True)
class Claim:
    """A job under lease; `fence` must be shown by whoever writes its result."""

    job_id: int
    attempt_id: int
    fence: int


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
    now = db_now(connection)
    values = {
        "campaign_id": campaign_id,
        "rung_id": rung_id,
        "candidate_id": candidate_id,
        "replicate": replicate,
        "evidence_key": evidence_key,
        "state": JobState.QUEUED,
        "priority": priority,
        "created_at": now,
        "updated_at": now,
    }
    return int(connection.execute(sa.insert(t.job).values(values).returning(t.job.c.id)).scalar_one())


def claim(connection: Connection, job_id: int, owner: str, lease_seconds: float = LEASE_SECONDS) -> Claim | None:
    """Take a queued job, or one whose lease ran out; None if somebody else has it or it is over."""
    now = db_now(connection)
    j = t.job.c
    free = sa.or_(j.state == JobState.QUEUED, sa.and_(j.state.in_(_LIVE), j.lease_until < now))
    row = connection.execute(
        sa.update(t.job)
        .where(j.id == job_id, free, sa.not_(j.cancel_requested))
        .values(
            state=JobState.RUNNING, lease_owner=owner, lease_until=now + timedelta(seconds=lease_seconds),
            fence=j.fence + 1, attempts=j.attempts + 1, updated_at=now,
        )
        .returning(j.fence, j.campaign_id, j.rung_id)
    ).one_or_none()  # fmt: skip
    if row is None:
        return None
    attempt_id = begin_attempt(connection, owner, campaign_id=row[1], rung_id=row[2], job_id=job_id, fence=row[0])
    return Claim(job_id, attempt_id, row[0])


def begin_attempt(
    connection: Connection, owner: str, *, campaign_id: int | None, rung_id: int | None, job_id: int | None = None,
    fence: int = 0, n_candidates: int = 1,
) -> int:  # fmt: skip
    now = db_now(connection)
    values: dict[str, Any] = {
        "campaign_id": campaign_id, "rung_id": rung_id, "job_id": job_id, "fence": fence, "owner": owner,
        "state": AttemptState.RUNNING, "n_candidates": n_candidates, "cost": {}, "started_at": now, "heartbeat_at": now,
    }  # fmt: skip
    return int(connection.execute(sa.insert(t.attempt).values(values).returning(t.attempt.c.id)).scalar_one())


def end_attempt(
    connection: Connection,
    attempt_id: int,
    state: AttemptState,
    *,
    cost: Mapping[str, float],
    wall_seconds: float | None,
    outcome: str | None = None,
    reason: str | None = None,
    detail: str = "",
) -> None:
    a = t.attempt.c
    old = connection.execute(sa.select(a.state).where(a.id == attempt_id)).scalar_one()
    check_transition(ATTEMPT_TRANSITIONS, AttemptState(old), state)
    values = {
        "state": state, "cost": dict(cost), "wall_seconds": wall_seconds, "outcome": outcome, "reason": reason,
        "detail": detail[:4000], "ended_at": db_now(connection),
    }  # fmt: skip
    connection.execute(sa.update(t.attempt).where(a.id == attempt_id).values(values))


def heartbeat(connection: Connection, claims: Sequence[Claim], lease_seconds: float = LEASE_SECONDS) -> list[Claim]:
    """Extend the leases; returns the claims that were lost or whose job is to be cancelled."""
    now = db_now(connection)
    j = t.job.c
    lost = []
    for one in claims:
        changed = connection.execute(
            sa.update(t.job)
            .where(j.id == one.job_id, j.fence == one.fence, j.state.in_(_LIVE), sa.not_(j.cancel_requested))
            .values(lease_until=now + timedelta(seconds=lease_seconds))
        )
        if changed.rowcount == 1:
            connection.execute(sa.update(t.attempt).where(t.attempt.c.id == one.attempt_id).values(heartbeat_at=now))
        else:
            lost.append(one)
    return lost


def finish(connection: Connection, one: Claim, state: JobState, outcome: str, *, kills: int = 0) -> bool:
    """End the job under its fence; False if another attempt has taken over (the caller's result is stale)."""
    j = t.job.c
    changed = connection.execute(
        sa.update(t.job)
        .where(j.id == one.job_id, j.fence == one.fence, j.state.in_(_LIVE))
        .values(
            state=state,
            outcome=outcome,
            kills=j.kills + kills,
            lease_owner=None,
            lease_until=None,
            updated_at=db_now(connection),
        )
    )
    if changed.rowcount == 1 and state is not JobState.QUEUED:
        release_reservation(connection, one.job_id)
    return changed.rowcount == 1


def kills_of(connection: Connection, job_id: int) -> int:
    return int(connection.execute(sa.select(t.job.c.kills).where(t.job.c.id == job_id)).scalar_one())


def orphans(connection: Connection, campaign_id: int, owner: str) -> list[Any]:
    """Running attempts of the campaign that belong to others than `owner`; who asks holds the driver lease."""
    a = t.attempt.c
    query = sa.select(a.id, a.job_id, a.fence, a.rung_id, a.started_at, a.heartbeat_at).where(
        a.campaign_id == campaign_id, a.state == AttemptState.RUNNING, a.owner != owner
    )
    return list(connection.execute(query))


def take_back(connection: Connection, job_id: int, fence: int) -> None:
    """The job of an attempt whose driver died waits for a worker again."""
    j = t.job.c
    connection.execute(
        sa.update(t.job)
        .where(j.id == job_id, j.fence == fence, j.state == JobState.RUNNING)
        .values(state=JobState.QUEUED, lease_owner=None, lease_until=None, updated_at=db_now(connection))
    )


def queued(connection: Connection, campaign_id: int) -> list[Any]:
    """Jobs that were decided and wait for a worker: (job id, candidate id, rung id, replicate), most urgent first."""
    j = t.job.c
    query = (
        sa.select(j.id, j.candidate_id, j.rung_id, j.replicate)
        .where(j.campaign_id == campaign_id, j.state == JobState.QUEUED)
        .order_by(j.priority.desc(), j.id)
        .limit(1000)
    )
    return list(connection.execute(query))


def any_queued(connection: Connection, rung_id: int) -> bool:
    """Whether a job of this rung was decided and waits for a worker."""
    j = t.job.c
    query = sa.select(j.id).where(j.rung_id == rung_id, j.state == JobState.QUEUED).limit(1)
    return connection.execute(query).first() is not None


def requeue(connection: Connection, campaign_id: int, rung_id: int, outcomes: Sequence[str]) -> list[int]:
    """Failed jobs of a rung that ended in one of these outcomes wait for a worker again; returns their candidates."""
    j = t.job.c
    changed = connection.execute(
        sa.update(t.job)
        .where(
            j.campaign_id == campaign_id,
            j.rung_id == rung_id,
            j.state == JobState.FAILED,
            j.outcome.in_(outcomes),
        )
        .values(state=JobState.QUEUED, outcome=None, updated_at=db_now(connection))
        .returning(j.candidate_id)
    )
    return [int(i) for i in changed.scalars()]


def reserve(connection: Connection, campaign_id: int, job_id: int, amounts: Mapping[str, float]) -> None:
    now = db_now(connection)
    rows = [
        {"campaign_id": campaign_id, "job_id": job_id, "resource": r, "amount": a, "at": now}
        for r, a in amounts.items()
    ]
    if rows:
        connection.execute(sa.insert(t.reservation), rows)


def release_reservation(connection: Connection, job_id: int) -> None:
    r = t.reservation.c
    connection.execute(
        sa.update(t.reservation)
        .where(r.job_id == job_id, r.released_at.is_(None))
        .values(released_at=db_now(connection))
    )


def reserved(connection: Connection, campaign_id: int) -> dict[str, float]:
    r = t.reservation.c
    query = sa.select(r.resource, sa.func.sum(r.amount)).where(r.campaign_id == campaign_id, r.released_at.is_(None))
    return {k: float(v) for k, v in connection.execute(query.group_by(r.resource))}


def book(
    connection: Connection, campaign_id: int, rung_id: int | None, attempt_id: int | None, cost: Mapping[str, float]
) -> None:  # fmt: skip
    """Book what an attempt cost; lost attempts are booked like others."""
    now = db_now(connection)
    rows = [
        {
            "campaign_id": campaign_id,
            "rung_id": rung_id,
            "attempt_id": attempt_id,
            "resource": r,
            "amount": a,
            "at": now,
        }
        for r, a in cost.items()
        if a
    ]
    if rows:
        connection.execute(sa.insert(t.spend), rows)


def observe_cost(
    connection: Connection, *, verifier: str, version: str, settings_hash: str, candidate_id: int, attempt_id: int,
    declared: Mapping[str, float], actual: Mapping[str, float],
) -> None:  # fmt: skip
    now = db_now(connection)
    rows = [
        {
            "verifier": verifier,
            "verifier_version": version,
            "settings_hash": settings_hash,
            "candidate_id": candidate_id,
            "attempt_id": attempt_id,
            "resource": r,
            "declared": declared.get(r, 0.0),
            "amount": amount,
            "at": now,
        }
        for r, amount in actual.items()
    ]
    if rows:
        connection.execute(sa.insert(t.cost_observation), rows)


def cost_ratios(
    connection: Connection, verifier: str, version: str, settings_hash: str, last: int = 200
) -> list[float]:
    """Observed over declared core-seconds of the last verifications with these settings."""
    c = t.cost_observation.c
    query = (
        sa.select(c.amount, c.declared)
        .where(
            c.verifier == verifier, c.verifier_version == version, c.settings_hash == settings_hash,
            c.resource == "core_seconds",
        )
        .order_by(c.id.desc())
        .limit(last)
    )  # fmt: skip
    return [amount / declared for amount, declared in connection.execute(query) if declared > 0]
