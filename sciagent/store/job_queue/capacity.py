"""How many jobs with given needs the live workers could run at once, and what is missing where that is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.domain.jobs.needs import CORES, GPU, in_words, read
from sciagent.store.job_queue import licences, workers
from sciagent.store.job_queue.resource_matching import kinds
from sciagent.store.job_queue.worker_resources import Has, has_of
from sciagent.store.job_queue.workers import WorkerRow

CLUSTER = "slurm"  # it has partitions of its own, and refuses jobs that fit in none of them


@dataclass(frozen=True)
class Capacity:
    """How many jobs of one kind the workers of a queue can run."""

    most: int
    """Jobs at once, if nothing else ran."""
    missing: str = ""
    """Why no such job can ever run; empty where one can, or where no worker serves the queue."""


def capacity(
    alive: Sequence[WorkerRow],
    queue: str,
    needs: Mapping[str, int],
    shared: Mapping[str, int],
    memory_mb: int | None = None,
) -> Capacity:
    """How many jobs with these needs the live workers of the queue can run at once.

    memory_mb: the job's memory limit. shared: {licence: how many there are}.
    """
    serving = [worker for worker in alive if queue in worker.queues and worker.slots and not worker.draining]
    there = sum(worker.slots for worker in serving if worker.executor == CLUSTER)
    pulling = [has_of(worker) for worker in serving if worker.executor != CLUSTER]
    here = sum(_at_once(worker, needs) for worker in pulling if worker.could_hold(needs, shared, memory_mb))
    here = min([here, *(shared[name] // n for name, n in needs.items() if name in shared)])
    most = there + here
    return Capacity(most, _missing(pulling, needs, shared, memory_mb) if serving and not most else "")


def never(connection: Connection, queue: str) -> list[str]:
    """One message for each resource request in this queue that no registered worker can ever satisfy."""
    alive, shared = workers.alive(connection), licences.totals(connection)
    by_needs = [(needs, capacity(alive, queue, needs, shared)) for needs in map(read, kinds(connection, [queue]))]
    return [cannot(queue, needs, capacity_) for needs, capacity_ in by_needs if capacity_.missing]


def cannot(queue: str, needs: Mapping[str, int], capacity_: Capacity) -> str:
    return f"no worker of queue {queue} can ever hold a job that needs {in_words(needs)}: {capacity_.missing}"


def _at_once(has: Has, needs: Mapping[str, int]) -> int:
    own = {CORES: has.cores, **has.resources}
    return min([has.slots, *(own[name] // n for name, n in needs.items() if name in own)])


def _missing(pulling: Sequence[Has], needs: Mapping[str, int], shared: Mapping[str, int], memory_mb: int | None) -> str:
    shortages = []
    most_mb = max(has.memory_for(needs) for has in pulling)
    if most_mb < (memory_mb or 0):
        shortages.append(f"it may use {memory_mb} MB, and the most that a worker has for one is {most_mb:.0f} MB")
    for name, n in needs.items():
        most = max((has.cores if name == CORES else has.resources.get(name, 0)) for has in pulling)
        if name in shared and shared[name] < n:
            shortages.append(f"of the licence {name} there are {shared[name]}")
        elif name not in shared and most < n:
            shortages.append(_too_few(name, n, most))
    return "; ".join(shortages) or "each is there, but not all of it at one worker"


def _too_few(name: str, n: int, most: int) -> str:
    if name == CORES:
        return f"the most cores that a worker has are {most}"
    if most:
        return f"the most {name} that a worker has are {most}"
    way = f"sciagent worker --resource {name}={n}"
    return f"no worker has {name} ({way}{'' if name == GPU else f', or sciagent licences set {name} {n}'})"
