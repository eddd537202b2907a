"""Who works: a row for each worker, kept fresh while it lives. What it runs stands in the jobs it holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.states import JobState
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue.leases import LEASE_SECONDS

SEEN_SECONDS = 0.75 * LEASE_SECONDS  # without a word for so long it is taken for dead; it speaks four times in it


@dataclass(frozen=True)
class NewWorker:
    """name: unique; the owners of its leases begin with it. slots: jobs at once. memory_mb: of all of them; None where
    nobody said. cores: None for as many as slots. resources: {name: how many}, GPUs among them."""

    name: str
    host: str
    pid: int
    executor: str
    queues: tuple[str, ...]
    slots: int
    memory_mb: int | None = None
    cores: int | None = None
    resources: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkerRow(NewWorker):
    started_at: datetime | None = None
    seen_at: datetime | None = None
    until: datetime | None = None
    draining: bool = False
    stopped_at: datetime | None = None


@dataclass(frozen=True)
class Running:
    """A job that a worker holds. owner: of its lease. holds: what of its worker and of the licences is in use by it,
    where that is more than a core: {name: how many}, of GPUs which."""

    owner: str
    job_id: int
    campaign: str
    rung: str
    candidate: str
    since: datetime
    holds: dict[str, Any] | None = None

    @property
    def worker(self) -> str:
        """Its name; of a campaign's own driver the whole owner."""
        return self.owner.rpartition("/")[0] or self.owner


def register(connection: Connection, new: NewWorker) -> None:
    """Say that it works; again after a connection was lost changes nothing but the time."""
    w, now = t.worker.c, db_now(connection)
    values = {**vars(new), "queues": list(new.queues), "seen_at": now, "until": now + timedelta(seconds=SEEN_SECONDS)}
    changed = connection.execute(sa.update(t.worker).where(w.name == new.name).values(**values, stopped_at=None))
    if not changed.rowcount:
        connection.execute(sa.insert(t.worker).values(**values, started_at=now, draining=False))


def seen(connection: Connection, name: str, slots: int | None = None) -> bool:
    """It lives still, with so many slots; whether it shall take nothing new."""
    w, now = t.worker.c, db_now(connection)
    values = {"seen_at": now, "until": now + timedelta(seconds=SEEN_SECONDS)} | (
        {} if slots is None else {"slots": slots}
    )
    changed = sa.update(t.worker).where(w.name == name).values(values).returning(w.draining)
    return bool(connection.execute(changed).scalar_one_or_none())


def stopped(connection: Connection, name: str) -> None:
    """It has ended by itself."""
    now = db_now(connection)
    connection.execute(sa.update(t.worker).where(t.worker.c.name == name).values(until=now, stopped_at=now))


def drain(connection: Connection, name: str, draining: bool = True) -> bool:
    """It shall take nothing new, or may again; False where no such worker is known."""
    changed = connection.execute(sa.update(t.worker).where(t.worker.c.name == name).values(draining=draining))
    return changed.rowcount == 1


def alive(connection: Connection) -> list[WorkerRow]:
    """Those that were heard of lately, oldest first."""
    w = t.worker.c
    columns = [w[name] for name in WorkerRow.__dataclass_fields__]
    query = sa.select(*columns, w.id).where(w.until > db_now(connection))  # unsorted, else SQLite reads the whole table
    return in_order(connection.execute(query).mappings())


def in_order(found: Iterable[Any]) -> list[WorkerRow]:
    """Workers of rows that have an `id` too, oldest first."""
    rows = sorted((dict(row) for row in found), key=lambda row: row.pop("id"))
    as_typed = ({"queues": tuple(row["queues"]), "resources": dict(row["resources"] or {})} for row in rows)
    return [WorkerRow(**row | typed) for row, typed in zip(rows, as_typed, strict=True)]


def slots_by_queue(connection: Connection) -> dict[str, int]:
    """How many jobs of each queue could run at once now."""
    return slots_of(alive(connection))


def slots_of(several: Sequence[WorkerRow]) -> dict[str, int]:
    """The same of workers that were read before."""
    found = dict[str, int]()
    for one in several:
        for queue in () if one.draining else one.queues:
            found[queue] = found.get(queue, 0) + one.slots
    return found


def running(connection: Connection, limit: int = 1000) -> list[Running]:
    """The jobs that workers hold, longest first."""
    j, r, c, a = t.job.c, t.rung.c, t.campaign.c, t.attempt.c
    query = (
        sa.select(j.lease_owner, j.id, c.name, r.name, t.candidate.c.text, a.started_at, a.holds)
        .select_from(
            t.job.join(t.rung, r.id == j.rung_id)
            .join(t.campaign, c.id == j.campaign_id)
            .join(t.candidate, t.candidate.c.id == j.candidate_id)
            .join(t.attempt, sa.and_(a.job_id == j.id, a.fence == j.fence))
        )
        .where(j.state == JobState.RUNNING, j.lease_until.is_not(None))
        .order_by(a.started_at)
        .limit(limit)
    )
    return [Running(*row) for row in connection.execute(query).all()]


def depths(connection: Connection, queues: Sequence[str]) -> dict[str, int]:
    """How many jobs wait in each queue."""
    j = t.job.c
    query = sa.select(j.queue, sa.func.count()).where(j.queue.in_(queues), j.state == JobState.QUEUED).group_by(j.queue)
    return {str(queue): int(n) for queue, n in connection.execute(query).all()}
