"""Reservations: the part of a budget that is set aside for jobs that have not ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among, by_resource, execute_many
from sciagent.store.database.clock import db_now


def reserve_many(connection: Connection, campaign_id: int, by_job: Mapping[int, Mapping[str, float]]) -> None:
    """Set aside the highest expected cost of each job until it ends. by_job: {job id: {resource: amount}}."""
    rows = [row for job_id, amounts in by_job.items() for row in by_resource(amounts, job_id=job_id)]
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
    return {k: float(v) for k, v in connection.execute(query.group_by(r.resource))}


def held(connection: Connection, campaign_id: int) -> dict[int, dict[str, float]]:
    """{job id: {resource: amount}} reserved for the jobs of the campaign."""
    r = t.reservation.c
    query = sa.select(r.job_id, r.resource, r.amount).where(r.campaign_id == campaign_id, r.released_at.is_(None))
    by_job: dict[int, dict[str, float]] = {}
    for job_id, resource, amount in connection.execute(query):
        by_job.setdefault(job_id, {})[resource] = by_job.get(job_id, {}).get(resource, 0.0) + float(amount)
    return by_job
