"""How many jobs of a kind those who work now could run at once, and what is missing where that is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.domain.needs import CORES, GPU, in_words, read
from sciagent.store.job_queue import licences, workers
from sciagent.store.job_queue.resource_matching import kinds
from sciagent.store.job_queue.worker_resources import Has, has_of
from sciagent.store.job_queue.workers import WorkerRow

CLUSTER = "slurm"  # has its own partitions, and refuses what none of them holds


@dataclass(frozen=True)
class Capacity:
    """most: jobs at once, if nothing else ran. missing: in words, why none ever can; empty where one can, or where
    nobody serves the queue."""

    most: int
    missing: str = ""


def capacity(
    alive: Sequence[WorkerRow],
    queue: str,
    needs: Mapping[str, int],
    shared: Mapping[str, int],
    memory_mb: int | None = None,
) -> Capacity:
    """alive: who works. needs, memory_mb: of a job, the latter its limit. shared: licences."""
    serving = [one for one in alive if queue in one.queues and one.slots and not one.draining]
    there = sum(one.slots for one in serving if one.executor == CLUSTER)
    pulling = [has_of(one) for one in serving if one.executor != CLUSTER]
    here = sum(_at_once(one, needs) for one in pulling if one.could_hold(needs, shared, memory_mb))
    here = min([here, *(shared[name] // n for name, n in needs.items() if name in shared)])
    most = there + here
    return Capacity(most, _missing(pulling, needs, shared, memory_mb) if serving and not most else "")


def never(connection: Connection, queue: str) -> list[str]:
    """One message for each resource request in this queue that no registered worker can ever satisfy."""
    alive, shared = workers.alive(connection), licences.totals(connection)
    found = [(needs, capacity(alive, queue, needs, shared)) for needs in map(read, kinds(connection, [queue]))]
    return [cannot(queue, needs, one) for needs, one in found if one.missing]


def cannot(queue: str, needs: Mapping[str, int], found: Capacity) -> str:
    return f"no worker of queue {queue} can ever hold a job that needs {in_words(needs)}: {found.missing}"


def _at_once(has: Has, needs: Mapping[str, int]) -> int:
    own = {CORES: has.cores, **has.resources}
    return min([has.slots, *(own[name] // n for name, n in needs.items() if name in own)])


def _missing(pulling: Sequence[Has], needs: Mapping[str, int], shared: Mapping[str, int], memory_mb: int | None) -> str:
    found = []
    most_mb = max(has.memory_for(needs) for has in pulling)
    if most_mb < (memory_mb or 0):
        found.append(f"it may use {memory_mb} MB, and the most that a worker has for one is {most_mb:.0f} MB")
    for name, n in needs.items():
        most = max((has.cores if name == CORES else has.resources.get(name, 0)) for has in pulling)
        if name in shared and shared[name] < n:
            found.append(f"of the licence {name} there are {shared[name]}")
        elif name not in shared and most < n:
            found.append(_too_few(name, n, most))
    return "; ".join(found) or "each is there, but not all of it at one worker"


def _too_few(name: str, n: int, most: int) -> str:
    if name == CORES:
        return f"the most cores that a worker has are {most}"
    if most:
        return f"the most {name} that a worker has are {most}"
    way = f"sciagent worker --resource {name}={n}"
    return f"no worker has {name} ({way}{'' if name == GPU else f', or sciagent licences set {name} {n}'})"
