"""The resources of workers: their capacity for jobs, what they lack, and the amounts in use and free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.jobs.resource_requests import CORES, GPU, in_words, read
from sciagent.domain.states import JobState
from sciagent.store.database import tables as t
from sciagent.store.job_queue import workers
from sciagent.store.job_queue.workers import NewWorker, Running, WorkerRow

CLUSTER = "slurm"  # an executor whose own partitions decide which jobs fit


@dataclass(frozen=True)
class Capacity:
    """The number of jobs of one kind that the workers of a queue can run."""

    most: int
    """Number of jobs at a time if no other job runs."""
    missing: str = ""
    """Why no such job can ever run; empty if one can, or if no worker serves the queue."""


def capacity(
    alive: Sequence[WorkerRow], queue: str, needs: Mapping[str, int], memory_mb: int | None = None
) -> Capacity:
    """The queue's capacity for jobs with these needs, from its live workers. memory_mb: the job's limit."""
    serving = [worker for worker in alive if queue in worker.queues and worker.slots and not worker.draining]
    most = sum(worker.slots for worker in serving if worker.executor == CLUSTER)
    pulling = [worker for worker in serving if worker.executor != CLUSTER]
    most += sum(worker.at_once(needs, memory_mb) for worker in pulling)
    return Capacity(most, _missing(pulling, needs, memory_mb) if serving and not most else "")


def _missing(pulling: Sequence[NewWorker], needs: Mapping[str, int], memory_mb: int | None) -> str:
    shortages = []
    most_mb = max(worker.memory_for(needs) for worker in pulling)
    if most_mb < (memory_mb or 0):
        shortages.append(f"it may use {memory_mb} MB, and the most that a worker has for one is {most_mb:.0f} MB")
    for name, n in needs.items():
        most = max(worker.amounts.get(name, 0) for worker in pulling)
        if most == 0:
            shortages.append(f"no worker has {name} (sciagent worker --resource {name}={n})")
        elif most < n:
            shortages.append(f"the most {name} that a worker has are {most}")
    return "; ".join(shortages) or "each is there, but not all of it at one worker"


def kinds(connection: Connection, queues: Sequence[str], states: Sequence[JobState] = (JobState.QUEUED,)) -> list[str]:
    """The distinct needs of jobs in these queues, except needs of one core only."""
    j = t.job.c
    query = sa.select(j.needs).where(j.needs.is_not(None), j.state.in_(states), j.queue.in_(queues)).distinct()
    return list(connection.execute(query).scalars())


def never(connection: Connection, queue: str) -> list[str]:
    """One message for each resource request in this queue that no registered worker can ever satisfy."""
    alive = workers.alive(connection)
    by_needs = [(needs, capacity(alive, queue, needs)) for needs in map(read, kinds(connection, [queue]))]
    return [cannot(queue, needs, capacity_) for needs, capacity_ in by_needs if capacity_.missing]


def cannot(queue: str, needs: Mapping[str, int], capacity_: Capacity) -> str:
    return f"no worker of queue {queue} can ever hold a job that needs {in_words(needs)}: {capacity_.missing}"


@dataclass(frozen=True)
class Free:
    """The resources of a worker that its running jobs do not use."""

    amounts: Mapping[str, int]
    """{resource: free amount}, including cores."""
    gpus: Sequence[int]
    """Indices of the free GPUs."""

    def fits(self, needs: Mapping[str, int]) -> bool:
        return all(self.amounts.get(name, 0) >= n for name, n in needs.items())

    def holds(self, needs: Mapping[str, int]) -> Mapping[str, Any]:
        """The resources given to a job with these needs: amounts, and for GPUs their indices."""
        return {**needs, GPU: list(self.gpus[: needs[GPU]])} if GPU in needs else dict(needs)


def free_at(connection: Connection, worker: NewWorker) -> Free:
    """The worker's free resources. Its row stays locked, so that two of its slots cannot claim at the same time."""
    connection.execute(sa.select(t.worker.c.id).where(t.worker.c.name == worker.name).with_for_update())
    j, a = t.job.c, t.attempt.c
    query = (
        sa.select(j.lease_owner, a.holds)
        .join(t.attempt, sa.and_(a.job_id == j.id, a.fence == j.fence))
        .where(j.state == JobState.RUNNING, j.lease_until.is_not(None))
        .where(j.lease_owner.startswith(f"{worker.name}/", autoescape=True))
    )
    held = [
        (owner, holds) for owner, holds in connection.execute(query).all() if owner.rpartition("/")[0] == worker.name
    ]
    used, gpus = in_use(held), {i for _, holds in held for i in (holds or {}).get(GPU, ())}
    amounts = {name: n - used.get(name, 0) for name, n in worker.amounts.items()}
    return Free(amounts, [i for i in range(worker.resources.get(GPU, 0)) if i not in gpus])


@dataclass(frozen=True)
class Used:
    """The amount of one resource that is in use."""

    name: str
    used: int
    total: int


def in_use(held: Iterable[tuple[str, Mapping[str, Any] | None]]) -> dict[str, int]:
    """{resource: amount in use}. held: (lease owner, resources held) of each running job; a busy slot holds a core."""
    by_owner = dict[str, dict[str, Any]]()
    for owner, holds in held:
        by_owner.setdefault(owner, {CORES: 1}).update(holds or {})
    used = dict[str, int]()
    for name, n in (item for holds in by_owner.values() for item in holds.items()):
        used[name] = used.get(name, 0) + (len(n) if isinstance(n, list) else int(n))
    return used


def by_worker(alive: Sequence[WorkerRow], running: Sequence[Running]) -> dict[str, list[Used]]:
    """{worker: use of its cores and other resources}. running: the running jobs of all workers."""
    held = {
        worker.name: in_use((job.owner, job.holds) for job in running if job.worker == worker.name) for worker in alive
    }
    return {w.name: [Used(name, held[w.name].get(name, 0), n) for name, n in w.amounts.items()] for w in alive}


def together(by_worker: Mapping[str, Sequence[Used]]) -> list[Used]:
    """Use of the resources other than cores, summed over the workers."""
    whole: dict[str, Used] = {}
    for resource in (resource for several in by_worker.values() for resource in several if resource.name != CORES):
        old = whole.get(resource.name, Used(resource.name, 0, 0))
        whole[resource.name] = Used(resource.name, old.used + resource.used, old.total + resource.total)
    return list(whole.values())
