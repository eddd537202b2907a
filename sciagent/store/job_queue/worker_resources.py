"""The resources of workers: which jobs they can hold, what is missing, what is in use and what is free."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.jobs.needs import CORES, GPU, in_words, read
from sciagent.domain.jobs.states import JobState
from sciagent.store.database import tables as t
from sciagent.store.job_queue import workers
from sciagent.store.job_queue.workers import NewWorker, Running, WorkerRow

CLUSTER = "slurm"  # it has partitions of its own, and refuses jobs that fit in none of them


@dataclass(frozen=True)
class Has:
    """The resources of a worker, summed over its slots."""

    slots: int
    cores: int
    resources: Mapping[str, int] = field(default_factory=dict)
    """{name: how many} beside the cores, GPUs among them."""
    memory_mb: int | None = None
    """None where the worker did not state it."""

    @property
    def amounts(self) -> dict[str, int]:
        """{name: how many} with the cores."""
        return {CORES: self.cores, **self.resources}

    def shares(self, needs: Mapping[str, int]) -> int:
        """How many slots' shares of the memory a job may use: as many as it has cores, unless cores outnumber slots."""
        return needs[CORES] if self.cores <= self.slots else 1

    def memory_for(self, needs: Mapping[str, int]) -> float:
        """The most memory a job may ask for, in MB."""
        return math.inf if self.memory_mb is None else self.memory_mb // self.slots * self.shares(needs)

    def at_once(self, needs: Mapping[str, int], memory_mb: int | None) -> int:
        """How many jobs with these needs the worker can hold if it runs nothing else. memory_mb: limit of each."""
        if self.memory_for(needs) < (memory_mb or 0):
            return 0
        return min(self.slots, *(self.amounts.get(name, 0) // n for name, n in needs.items()))


def has_of(worker: NewWorker) -> Has:
    return Has(worker.slots, worker.slots if worker.cores is None else worker.cores, worker.resources, worker.memory_mb)


@dataclass(frozen=True)
class Capacity:
    """How many jobs of one kind the workers of a queue can run."""

    most: int
    """Jobs at once, if nothing else ran."""
    missing: str = ""
    """Why no such job can ever run; empty where one can, or where no worker serves the queue."""


def capacity(
    alive: Sequence[WorkerRow], queue: str, needs: Mapping[str, int], memory_mb: int | None = None
) -> Capacity:
    """How many jobs with these needs the live workers of the queue can run at once. memory_mb: the job's limit."""
    serving = [worker for worker in alive if queue in worker.queues and worker.slots and not worker.draining]
    most = sum(worker.slots for worker in serving if worker.executor == CLUSTER)
    pulling = [has_of(worker) for worker in serving if worker.executor != CLUSTER]
    most += sum(has.at_once(needs, memory_mb) for has in pulling)
    return Capacity(most, _missing(pulling, needs, memory_mb) if serving and not most else "")


def _missing(pulling: Sequence[Has], needs: Mapping[str, int], memory_mb: int | None) -> str:
    shortages = []
    most_mb = max(has.memory_for(needs) for has in pulling)
    if most_mb < (memory_mb or 0):
        shortages.append(f"it may use {memory_mb} MB, and the most that a worker has for one is {most_mb:.0f} MB")
    for name, n in needs.items():
        most = max(has.amounts.get(name, 0) for has in pulling)
        if most == 0:
            shortages.append(f"no worker has {name} (sciagent worker --resource {name}={n})")
        elif most < n:
            shortages.append(f"the most {name} that a worker has are {most}")
    return "; ".join(shortages) or "each is there, but not all of it at one worker"


def kinds(connection: Connection, queues: Sequence[str], states: Sequence[JobState] = (JobState.QUEUED,)) -> list[str]:
    """The distinct needs of jobs in these queues, where they are more than a core."""
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
    """What the running jobs of a worker leave free."""

    amounts: Mapping[str, int]
    """{resource: how many}, cores among them."""
    gpus: Sequence[int]
    """Indices of the free GPUs."""

    def fits(self, needs: Mapping[str, int]) -> bool:
        return all(self.amounts.get(name, 0) >= n for name, n in needs.items())

    def holds(self, needs: Mapping[str, int]) -> Mapping[str, Any]:
        """What a job with these needs is given: amounts, and for GPUs their indices."""
        return {**needs, GPU: list(self.gpus[: needs[GPU]])} if GPU in needs else dict(needs)


def free_at(connection: Connection, worker: str, has: Has) -> Free:
    """What is free at the worker, whose row stays locked, so that no two of its slots claim at the same time."""
    connection.execute(sa.select(t.worker.c.id).where(t.worker.c.name == worker).with_for_update())
    j, a = t.job.c, t.attempt.c
    query = (
        sa.select(j.lease_owner, a.holds)
        .join(t.attempt, sa.and_(a.job_id == j.id, a.fence == j.fence))
        .where(j.state == JobState.RUNNING, j.lease_until.is_not(None))
        .where(j.lease_owner.startswith(f"{worker}/", autoescape=True))
    )
    held = [(owner, holds) for owner, holds in connection.execute(query).all() if owner.rpartition("/")[0] == worker]
    used, gpus = in_use(held), {i for _, holds in held for i in (holds or {}).get(GPU, ())}
    amounts = {name: n - used.get(name, 0) for name, n in has.amounts.items()}
    return Free(amounts, [i for i in range(has.resources.get(GPU, 0)) if i not in gpus])


@dataclass(frozen=True)
class Used:
    """How much of one resource is in use."""

    name: str
    used: int
    total: int


def in_use(held: Iterable[tuple[str, Mapping[str, Any] | None]]) -> dict[str, int]:
    """{resource: how many}. held: (lease owner, resources held) of each running job; a busy slot holds a core."""
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
    return {w.name: [Used(name, held[w.name].get(name, 0), n) for name, n in has_of(w).amounts.items()] for w in alive}


def together(by_worker: Mapping[str, Sequence[Used]]) -> list[Used]:
    """Use of the resources other than cores, summed over the workers."""
    whole: dict[str, Used] = {}
    for resource in (resource for several in by_worker.values() for resource in several if resource.name != CORES):
        old = whole.get(resource.name, Used(resource.name, 0, 0))
        whole[resource.name] = Used(resource.name, old.used + resource.used, old.total + resource.total)
    return list(whole.values())
