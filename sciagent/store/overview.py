"""The whole ledger at a glance: queues, workers, campaigns that run, what ended lately. Every question is bounded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.states import JobState
from sciagent.store import tables as t
from sciagent.store import workers
from sciagent.store.clock import db_now
from sciagent.store.workers import WorkerRow

QUEUES = ("simulation", "high_fidelity")  # those of the tiers, shown even where nothing has to do with them
LATELY = timedelta(days=1)
WINDOW = 20_000  # of the newest attempts are looked at
_J = t.job.c
_A = t.attempt.c


@dataclass(frozen=True)
class Queue:
    """depth: jobs that wait; oldest: since when the one that waits longest is in its state; slots: that serve it."""

    queue: str
    depth: int
    oldest: datetime | None
    slots: int


def queues(connection: Connection) -> list[Queue]:
    """Every queue that has a job waiting, or a worker, or the name of a tier."""
    slots = workers.slots_by_queue(connection)
    names = dict.fromkeys([*QUEUES, *sorted(slots), *_names(connection)])
    depths = workers.depths(connection, list(names))
    found = []
    for name in names:
        oldest = None
        if depths.get(name):
            query = sa.select(sa.func.min(_J.updated_at)).where(_J.queue == name, _J.state == JobState.QUEUED)
            oldest = connection.execute(query).scalar_one()
        found.append(Queue(name, depths.get(name, 0), oldest, slots.get(name, 0)))
    return found


def _names(connection: Connection, limit: int = 100) -> list[str]:
    """Names that any job has: one step in the index for each, however many jobs there are."""
    found: list[str] = []
    query = sa.select(sa.func.min(_J.queue)).where(_J.queue > "")
    while (name := connection.execute(query).scalar_one()) is not None and len(found) < limit:
        found.append(str(name))
        query = sa.select(sa.func.min(_J.queue)).where(_J.queue > name)
    return found


def workers_of_late(connection: Connection, limit: int = 200) -> list[WorkerRow]:
    """Those that were heard of in the last day, alive or not, oldest first."""
    w = t.worker.c
    columns = [w[name] for name in WorkerRow.__dataclass_fields__]
    query = sa.select(*columns, w.id).where(w.until > db_now(connection) - LATELY).order_by(w.until.desc()).limit(limit)
    rows = sorted((dict(row) for row in connection.execute(query).mappings()), key=lambda row: row.pop("id"))
    return [WorkerRow(**row | {"queues": tuple(row["queues"])}) for row in rows]
