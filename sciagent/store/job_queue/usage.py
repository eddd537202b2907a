"""What is in use of what the workers have, and of the licences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.domain.needs import CORES
from sciagent.store.job_queue import licences
from sciagent.store.job_queue.worker_resources import has_of
from sciagent.store.job_queue.workers import Running, WorkerRow


@dataclass(frozen=True)
class Used:
    """How much of one resource is in use."""

    name: str
    used: int
    total: int


def by_worker(alive: Sequence[WorkerRow], running: Sequence[Running]) -> dict[str, list[Used]]:
    """The cores and other resources in use, by worker. running: what all of them run."""
    found = {}
    for worker in alive:
        mine = [one for one in running if one.worker == worker.name]
        used = licences.in_use([(one.owner, one.holds or {}) for one in mine])
        wide = {one.owner for one in mine if one.holds}
        used[CORES] = used.get(CORES, 0) + len({one.owner for one in mine} - wide)
        has = has_of(worker)
        found[worker.name] = [
            Used(name, used.get(name, 0), n) for name, n in {CORES: has.cores, **has.resources}.items()
        ]
    return found


def together(connection: Connection, by_worker: Mapping[str, Sequence[Used]]) -> list[Used]:
    """What all workers have beside cores, and the licences."""
    whole: dict[str, Used] = {}
    for one in (one for several in by_worker.values() for one in several if one.name != CORES):
        old = whole.get(one.name, Used(one.name, 0, 0))
        whole[one.name] = Used(one.name, old.used + one.used, old.total + one.total)
    return [*whole.values(), *shared(connection)]


def shared(connection: Connection) -> list[Used]:
    """The licences."""
    return [Used(one.name, one.used, one.total) for one in licences.every(connection)]
