"""Costs: reserved for jobs that have not ended, booked for attempts, and observed as declared and actual costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among, by_resource, execute_many
from sciagent.store.database.engine import db_now


def reserve_many(connection: Connection, campaign_id: int, by_job: Mapping[int, Mapping[str, float]]) -> None:
    """Set aside the highest expected cost of each job until it ends. by_job: {job id: {resource: amount}}."""
    rows = []
    for job_id, amounts in by_job.items():
        rows += by_resource(amounts, job_id=job_id)
    execute_many(connection, t.reservation, rows, {"campaign_id": campaign_id, "at": db_now(connection)})


def release_many(connection: Connection, job_ids: Sequence[int]) -> None:
    """Release the reservations of these jobs."""
    r = t.reservation.c
    if job_ids:
        connection.execute(
            sa.update(t.reservation)
            .where(among(connection, r.job_id, job_ids), r.released_at.is_(None))
            .values(released_at=db_now(connection))
        )


def reserved(connection: Connection, campaign_id: int) -> dict[str, float]:
    """{resource: amount} reserved for all jobs of the campaign."""
    r = t.reservation.c
    query = sa.select(r.resource, sa.func.sum(r.amount)).where(r.campaign_id == campaign_id, r.released_at.is_(None))
    return {resource: float(amount) for resource, amount in connection.execute(query.group_by(r.resource))}


def reserved_by_job(connection: Connection, campaign_id: int) -> dict[int, dict[str, float]]:
    """{job id: {resource: amount}} reserved for the jobs of the campaign."""
    r = t.reservation.c
    query = sa.select(r.job_id, r.resource, r.amount).where(r.campaign_id == campaign_id, r.released_at.is_(None))
    by_job: dict[int, dict[str, float]] = {}
    for job_id, resource, amount in connection.execute(query):
        amounts = by_job.setdefault(job_id, {})
        amounts[resource] = amounts.get(resource, 0.0) + float(amount)
    return by_job


class Bill(NamedTuple):
    """The cost of an attempt."""

    campaign_id: int
    rung_id: int | None
    attempt_id: int | None
    cost: Mapping[str, float]


def book_many(connection: Connection, bills: Sequence[Bill]) -> None:
    """Book the costs of attempts; lost attempts are booked like others."""
    rows = []
    for bill in bills:
        keys = {"campaign_id": bill.campaign_id, "rung_id": bill.rung_id, "attempt_id": bill.attempt_id}
        amounts = {resource: amount for resource, amount in bill.cost.items() if amount}
        rows += by_resource(amounts, **keys)
    execute_many(connection, t.spend, rows, {"at": db_now(connection)})


class CostSeen(NamedTuple):
    """The declared and the actual cost of a verification."""

    verifier: str
    version: str
    settings_hash: str
    candidate_id: int
    attempt_id: int
    declared: Mapping[str, float]
    actual: Mapping[str, float]


def observe_costs(connection: Connection, seen: Sequence[CostSeen]) -> None:
    """Store the costs of verifications, from which the cost models learn."""
    rows = []
    for cost in seen:
        keys = {"candidate_id": cost.candidate_id, "attempt_id": cost.attempt_id, "settings_hash": cost.settings_hash}
        for row in by_resource(cost.actual, verifier=cost.verifier, verifier_version=cost.version, **keys):
            rows.append(row | {"declared": cost.declared.get(row["resource"], 0.0)})
    execute_many(connection, t.cost_observation, rows, {"at": db_now(connection)})


def cost_ratios(
    connection: Connection, verifier: str, version: str, settings_hash: str, last: int = 200
) -> list[float]:
    """Ratios of actual to declared core-seconds of the last verifications with these settings.

    Later attempts of a job are left out: one that goes on from a checkpoint pays only for the rest."""
    c = t.cost_observation.c
    is_same = sa.and_(c.verifier == verifier, c.verifier_version == version, c.settings_hash == settings_hash)
    query = sa.select(c.amount, c.declared).where(is_same, c.resource == "core_seconds")
    query = query.join(t.attempt, t.attempt.c.id == c.attempt_id).where(t.attempt.c.fence <= 1)
    query = query.order_by(c.id.desc()).limit(last)
    return [amount / declared for amount, declared in connection.execute(query) if declared > 0]


def book_opposite(connection: Connection, attempt_id: int) -> None:
    """Book the opposite of all that was booked for an attempt, at the times of these bookings, so that the spend of no
    period contains it."""
    s = t.spend.c
    names = ("campaign_id", "rung_id", "attempt_id", "resource", "amount", "at")
    opposite = sa.select(s.campaign_id, s.rung_id, s.attempt_id, s.resource, -s.amount, s.at)
    connection.execute(sa.insert(t.spend).from_select(names, opposite.where(s.attempt_id == attempt_id)))
