"""Jobs that wait in the queue of a cluster: each is reserved for one element there, and for nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.job_rules import MAX_LOSSES
from sciagent.domain.states import JobState
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among, execute_many
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import leases
from sciagent.store.job_queue.jobs import PREFERRED
from sciagent.store.job_queue.leases import Claim

_RESERVE = sa.update(t.job).where(t.job.c.id == sa.bindparam("of"))


@dataclass(frozen=True)
class WaitingExternalJob:
    """A job that nobody has taken. seconds: on the clock, as expected. limit: of its rung, in seconds. tries: of it.
    needs: what it holds while it runs, as `domain.needs.text_of` writes it."""

    job_id: int
    rung_id: int
    seconds: float | None
    limit: float
    memory_mb: int | None
    tries: int
    needs: str | None = None


def waiting(connection: Connection, queues: Sequence[str], limit: int) -> list[WaitingExternalJob]:
    """Jobs of these queues that wait for anybody: the most urgent of each campaign, then the second of each, and so
    on; what a person preferred comes first. On PostgreSQL they are locked."""
    j, open_ = (
        t.job.c,
        [t.job.c.state == JobState.QUEUED, t.job.c.external.is_(None), sa.not_(t.job.c.cancel_requested)],
    )
    rank = sa.func.row_number().over(partition_by=j.campaign_id, order_by=(j.priority.desc(), j.id)).label("rank")
    ranked = sa.select(j.id, rank, j.priority).where(j.queue.in_(queues), *open_).subquery()
    order = (ranked.c.priority < PREFERRED, ranked.c.rank, ranked.c.id)
    ranks = {id_: i for i, id_ in enumerate(connection.scalars(sa.select(ranked.c.id).order_by(*order).limit(limit)))}
    query = (
        sa.select(j.id, j.rung_id, j.seconds, t.rung.c.request, j.memory_mb, j.attempts, j.needs)
        .select_from(t.job.join(t.rung, t.rung.c.id == j.rung_id))
        .where(among(connection, j.id, list(ranks)), *open_)
        .with_for_update(skip_locked=True, of=t.job)
    )
    found = sorted(connection.execute(query).all(), key=lambda row: ranks[row.id])
    return [
        WaitingExternalJob(
            one.id,
            one.rung_id,
            one.seconds,
            float(one.request["limits"]["wall_seconds"]),
            one.memory_mb,
            one.attempts,
            one.needs,
        )
        for one in found
    ]


def reserve_for(connection: Connection, names: Mapping[int, str]) -> None:
    """{job id: the element that is to run it}, as "slurm 3f2a9c0d1b4e5f67_3"."""
    now = db_now(connection)
    rows = [{"of": job_id, "external": name, "updated_at": now} for job_id, name in names.items()]
    execute_many(connection, _RESERVE, rows)


def claim_reserved(connection: Connection, job_id: int, name: str, owner: str) -> Claim | None:
    """Take a job that was reserved for this element; None if it is not its any more."""
    j = t.job.c
    query = sa.select(j.id).where(j.id == job_id, j.external == name, j.state == JobState.QUEUED, j.queue.is_not(None))
    if connection.execute(query.with_for_update()).first() is None:
        return None
    return leases.claim(connection, job_id, owner)


def reserved(connection: Connection, queues: Sequence[str]) -> dict[int, tuple[str, float]]:
    """Jobs that wait for their element: {job id: (its name, for how many seconds)}."""
    j, now = t.job.c, db_now(connection)
    query = sa.select(j.id, j.external, j.updated_at).where(
        j.queue.in_(queues), j.state == JobState.QUEUED, j.external.is_not(None)
    )
    return {int(id_): (name, (now - at).total_seconds()) for id_, name, at in connection.execute(query).all()}


def at_work(connection: Connection, queues: Sequence[str]) -> bool:
    """Whether any job of these queues runs."""
    j = t.job.c
    query = sa.select(j.id).where(j.queue.in_(queues), j.state == JobState.RUNNING).limit(1)
    return connection.execute(query).first() is not None


def free(connection: Connection, job_ids: Sequence[int], lost: bool) -> list[int]:
    """Their elements will not run them: they wait for anybody again. lost: it was no fault of ours that they did not.
    Returns the ids of those that were lost too often."""
    j = t.job.c
    values = {"external": None, "updated_at": db_now(connection)} | ({"losses": j.losses + 1} if lost else {})
    mine = (among(connection, j.id, job_ids), j.state == JobState.QUEUED)
    connection.execute(sa.update(t.job).where(*mine).values(values))
    return list(connection.execute(sa.select(j.id).where(*mine, j.losses >= MAX_LOSSES)).scalars())
