"""How much of the workers' resources and of the licences is in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.domain.jobs.needs import CORES
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
    """{worker: use of its cores and other resources}. running: the running jobs of all workers."""
    used_by = {}
    for worker in alive:
        mine = [job for job in running if job.worker == worker.name]
        used = licences.in_use([(job.owner, job.holds or {}) for job in mine])
        wide = {job.owner for job in mine if job.holds}
        used[CORES] = used.get(CORES, 0) + len({job.owner for job in mine} - wide)
        has = has_of(worker)
        used_by[worker.name] = [
            Used(name, used.get(name, 0), n) for name, n in {CORES: has.cores, **has.resources}.items()
        ]
    return used_by


def together(connection: Connection, by_worker: Mapping[str, Sequence[Used]]) -> list[Used]:
    """Use of the resources other than cores, summed over the workers, and of the licences."""
    whole: dict[str, Used] = {}
    for resource in (resource for several in by_worker.values() for resource in several if resource.name != CORES):
        old = whole.get(resource.name, Used(resource.name, 0, 0))
        whole[resource.name] = Used(resource.name, old.used + resource.used, old.total + resource.total)
    return [*whole.values(), *shared(connection)]


def shared(connection: Connection) -> list[Used]:
    """Use of the licences."""
    return [Used(licence.name, licence.used, licence.total) for licence in licences.every(connection)]
