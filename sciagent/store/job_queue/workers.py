"""Registered workers: one row each, renewed while the worker lives. A worker runs the jobs on which it has leases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.jobs.resource_requests import CORES
from sciagent.domain.states import JobState
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue.jobs import NAMED
from sciagent.store.job_queue.leases import LEASE_SECONDS

# a worker without a report for this time counts as dead; it reports four times in it
SEEN_SECONDS = 0.75 * LEASE_SECONDS


@dataclass(frozen=True)
class NewWorker:
    """The facts that a worker states about itself when it registers."""

    name: str
    """Unique name; the owners of the worker's leases begin with it."""
    host: str
    pid: int
    executor: str
    queues: tuple[str, ...]
    slots: int
    """Number of jobs at a time."""
    memory_mb: int | None = None
    """Memory for all slots together, in MB; None if not stated."""
    cores: int | None = None
    """Cores for all slots together; None for as many as slots."""
    resources: dict[str, int] = field(default_factory=dict)
    """{name: amount}, including GPUs."""

    @property
    def amounts(self) -> dict[str, int]:
        """{name: amount}, including cores."""
        return {CORES: self.slots if self.cores is None else self.cores, **self.resources}

    def memory_for(self, needs: Mapping[str, int]) -> float:
        """Largest memory of a job, in MB: a slot's share per core of the job; one share if cores outnumber slots."""
        shares = needs[CORES] if self.amounts[CORES] <= self.slots else 1
        return math.inf if self.memory_mb is None else self.memory_mb // self.slots * shares

    def at_once(self, needs: Mapping[str, int], memory_mb: int | None) -> int:
        """Number of jobs with these needs that the worker can hold if it runs no other. memory_mb: limit of each."""
        if self.memory_for(needs) < (memory_mb or 0):
            return 0
        return min(self.slots, *(self.amounts.get(name, 0) // n for name, n in needs.items()))


@dataclass(frozen=True)
class WorkerRow(NewWorker):
    """A registered worker as read from the ledger."""

    started_at: datetime | None = None
    seen_at: datetime | None = None
    until: datetime | None = None
    """Time from which it counts as dead unless it reports again."""
    draining: bool = False
    """Whether it takes no new jobs."""
    stopped_at: datetime | None = None


@dataclass(frozen=True)
class Running:
    """A job that a worker holds."""

    owner: str
    """Owner of its lease."""
    job_id: int
    campaign: str
    rung: str
    candidate: str
    since: datetime
    holds: dict[str, Any] | None = None
    """{resource or licence: amount}, for GPUs their indices; None if the job holds a single core."""
    name: str | None = None
    """A name of the candidate from an input file; None if it has none."""

    @property
    def worker(self) -> str:
        """Name of the worker; for a campaign's own driver the whole owner."""
        return self.owner.rpartition("/")[0] or self.owner


def register(connection: Connection, new: NewWorker) -> None:
    """Register the worker. Registering again after a lost connection renews its row."""
    w, now = t.worker.c, db_now(connection)
    values = {**vars(new), "queues": list(new.queues), "seen_at": now, "until": now + timedelta(seconds=SEEN_SECONDS)}
    changed = connection.execute(sa.update(t.worker).where(w.name == new.name).values(**values, stopped_at=None))
    if not changed.rowcount:
        connection.execute(sa.insert(t.worker).values(**values, started_at=now, draining=False))


def seen(connection: Connection, name: str) -> bool:
    """Record that the worker lives. Returns whether it is draining."""
    w, now = t.worker.c, db_now(connection)
    changed = sa.update(t.worker).where(w.name == name).returning(w.draining)
    changed = changed.values(seen_at=now, until=now + timedelta(seconds=SEEN_SECONDS))
    return bool(connection.execute(changed).scalar_one_or_none())


def stopped(connection: Connection, name: str) -> None:
    """Record that the worker has stopped."""
    now = db_now(connection)
    connection.execute(sa.update(t.worker).where(t.worker.c.name == name).values(until=now, stopped_at=now))


def drain(connection: Connection, name: str, draining: bool = True) -> bool:
    """Make the worker take no new jobs, or take them again. Returns False if no such worker is registered."""
    changed = connection.execute(sa.update(t.worker).where(t.worker.c.name == name).values(draining=draining))
    return changed.rowcount == 1


def alive(connection: Connection) -> list[WorkerRow]:
    """Workers that do not count as dead, oldest first."""
    return reported_since(connection, db_now(connection))


def reported_since(connection: Connection, moment: datetime) -> list[WorkerRow]:
    """Workers that counted as alive at that moment or later, oldest first."""
    w = t.worker.c
    query = sa.select(*(w[name] for name in WorkerRow.__dataclass_fields__)).where(w.until > moment)
    rows = connection.execute(query.order_by(w.until)).mappings()
    found = [WorkerRow(**{**row, "queues": tuple(row["queues"]), "resources": row["resources"] or {}}) for row in rows]
    return sorted(found, key=attrgetter("started_at"))


def slots_of(workers: Sequence[WorkerRow]) -> dict[str, int]:
    """{queue: number of slots of these workers}; draining workers do not count."""
    by_queue = dict[str, int]()
    for worker in workers:
        for queue in () if worker.draining else worker.queues:
            by_queue[queue] = by_queue.get(queue, 0) + worker.slots
    return by_queue


def running(connection: Connection, limit: int = 1000, campaign_id: int | None = None) -> list[Running]:
    """The jobs that workers hold, longest running first. campaign_id: only jobs of this campaign."""
    j, r, c, a, n = t.job.c, t.rung.c, t.campaign.c, t.attempt.c, t.candidate_name.c
    of_campaign = sa.or_(n.campaign_id.is_(None), n.campaign_id == j.campaign_id)
    first_name = sa.select(n.text).where(n.candidate_id == j.candidate_id, of_campaign).order_by(n.id).limit(1)
    query = (
        sa.select(j.lease_owner, j.id, c.name, r.name, t.candidate.c.text, a.started_at, a.holds)
        .add_columns(first_name.correlate(t.job).scalar_subquery())
        .select_from(NAMED.join(t.attempt, sa.and_(a.job_id == j.id, a.fence == j.fence)))
        .where(j.state == JobState.RUNNING, j.lease_until.is_not(None))
        .order_by(a.started_at)
        .limit(limit)
    )
    if campaign_id is not None:
        query = query.where(j.campaign_id == campaign_id)
    return [Running(*row) for row in connection.execute(query).all()]


def depths(connection: Connection, queues: Sequence[str]) -> dict[str, int]:
    """{queue: number of queued jobs}."""
    j = t.job.c
    query = sa.select(j.queue, sa.func.count()).where(j.queue.in_(queues), j.state == JobState.QUEUED).group_by(j.queue)
    return {queue: n for queue, n in connection.execute(query)}
