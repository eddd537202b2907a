"""Jobs that a cluster's own scheduler runs. Each job is reserved for an array element, alone or with other jobs that
its verifier runs together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.states_and_needs import MAX_LOSSES, JobState
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among, execute_many
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue import leases
from sciagent.store.job_queue.jobs import PREFERRED
from sciagent.store.job_queue.leases import Claim

_RESERVE = sa.update(t.job).where(t.job.c.id == sa.bindparam("reserved_id"))


class WaitingExternalJob(NamedTuple):
    """A queued job that no worker has claimed and that is not reserved for an array element."""

    job_id: int
    rung_id: int
    seconds: float | None
    """Expected wall time, in seconds; None if unknown."""
    limit: float
    """Wall-time limit of its rung, in seconds."""
    memory_mb: int | None
    tries: int
    """Attempts made so far."""
    needs: str | None = None
    """Resources that the job holds while it runs, as text of `domain.jobs.needs.text_of`."""
    together: int = 1
    """Number of jobs of the rung that one call may run. 1 for a job whose process or worker died before."""


def waiting_jobs(connection: Connection, queues: Sequence[str], limit: int) -> list[WaitingExternalJob]:
    """Unreserved queued jobs of these queues: the most urgent of each campaign, then the second of each, and so on.

    Jobs that a person promoted come first. On PostgreSQL the rows are locked.
    """
    j = t.job.c
    may_take = (j.state == JobState.QUEUED, j.external.is_(None), sa.not_(j.cancel_requested))
    rank_in_campaign = sa.func.row_number().over(partition_by=j.campaign_id, order_by=(j.priority.desc(), j.id))
    ranked = (
        sa.select(j.id, rank_in_campaign.label("rank"), j.priority).where(j.queue.in_(queues), *may_take).subquery()
    )
    order = (ranked.c.priority < PREFERRED, ranked.c.rank, ranked.c.id)
    ordered_ids = connection.scalars(sa.select(ranked.c.id).order_by(*order).limit(limit))
    ranks = {id_: rank for rank, id_ in enumerate(ordered_ids)}
    died = (j.kills + j.losses).label("died")
    query = (
        sa.select(j.id, j.rung_id, j.seconds, t.rung.c.request, j.memory_mb, j.attempts, j.needs, died)
        .join(t.rung, t.rung.c.id == j.rung_id)
        .where(among(connection, j.id, list(ranks)), *may_take)
        .with_for_update(skip_locked=True, of=t.job)
    )
    jobs = []
    for row in connection.execute(query).all():
        wall = float(row.request["limits"]["wall_seconds"])
        together = row.request.get("together", 1)
        job = WaitingExternalJob(
            job_id=row.id,
            rung_id=row.rung_id,
            seconds=row.seconds,
            limit=wall,
            memory_mb=row.memory_mb,
            tries=row.attempts,
            needs=row.needs,
            together=1 if row.died else together,
        )
        jobs.append(job)
    return sorted(jobs, key=lambda job: ranks[job.job_id])


def reserve_for(connection: Connection, names: Mapping[int, str]) -> None:
    """Reserve each job for an array element. names: {job id: element}, as "slurm 3f2a9c0d1b4e5f67_3"."""
    now = db_now(connection)
    rows = [{"reserved_id": job_id, "external": name, "updated_at": now} for job_id, name in names.items()]
    execute_many(connection, _RESERVE, rows)


def claim_reserved(connection: Connection, job_ids: Sequence[int], name: str, owner: str) -> list[Claim]:
    """Claim the jobs that are still reserved for this element, which runs them in one call."""
    j = t.job.c
    is_offered = sa.and_(j.state == JobState.QUEUED, j.queue.is_not(None))
    query = sa.select(j.id).where(among(connection, j.id, job_ids), j.external == name, is_offered)
    ids = list(connection.scalars(query.order_by(j.id).with_for_update()))
    claims = leases.claim_many(connection, ids, owner, together=True)
    return [claims[job_id] for job_id in job_ids if job_id in claims]


def reserved_jobs(connection: Connection, queues: Sequence[str]) -> dict[int, tuple[str, float]]:
    """{job id: (element, seconds since the reservation)} of the reserved jobs that are still queued."""
    j = t.job.c
    now = db_now(connection)
    query = sa.select(j.id, j.external, j.updated_at).where(
        j.queue.in_(queues), j.state == JobState.QUEUED, j.external.is_not(None)
    )
    return {id_: (name, (now - at).total_seconds()) for id_, name, at in connection.execute(query).all()}


def free_reservations(connection: Connection, job_ids: Sequence[int], lost: bool) -> list[int]:
    """Drop the reservations of these jobs, so that any worker may claim them.

    lost: whether to count a loss for each job. Returns the ids of the jobs that were lost too often.
    """
    j = t.job.c
    values: dict[str, Any] = {"external": None, "updated_at": db_now(connection)}
    if lost:
        values["losses"] = j.losses + 1
    is_queued = sa.and_(among(connection, j.id, job_ids), j.state == JobState.QUEUED)
    connection.execute(sa.update(t.job).where(is_queued).values(values))
    return list(connection.execute(sa.select(j.id).where(is_queued, j.losses >= MAX_LOSSES)).scalars())
