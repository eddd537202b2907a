"""The resources of a worker, and which of them a job would lack."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sciagent.domain.jobs.needs import CORES
from sciagent.store.job_queue.workers import NewWorker


@dataclass(frozen=True)
class Has:
    """The resources of a worker, summed over its slots."""

    slots: int
    cores: int
    resources: Mapping[str, int] = field(default_factory=dict)
    """{name: how many} beside the cores, GPUs among them."""
    memory_mb: int | None = None
    """None where the worker did not state it."""

    def shares(self, needs: Mapping[str, int]) -> int:
        """How many slots' shares of the memory a job may use: as many as it has cores, unless cores outnumber slots."""
        return needs[CORES] if self.cores <= self.slots else 1

    def memory_for(self, needs: Mapping[str, int]) -> float:
        """The most memory a job may ask for, in MB."""
        return math.inf if self.memory_mb is None else self.memory_mb // self.slots * self.shares(needs)

    def could_hold(self, needs: Mapping[str, int], shared: Mapping[str, int], memory_mb: int | None) -> bool:
        """Whether the job fits if the worker runs nothing else and no licence is in use. memory_mb: the job's limit."""
        enough = self.memory_for(needs) >= (memory_mb or 0)
        return enough and not lacking(needs, {CORES: self.cores, **self.resources}, shared)


def has_of(worker: NewWorker) -> Has:
    return Has(worker.slots, worker.slots if worker.cores is None else worker.cores, worker.resources, worker.memory_mb)


def lacking(needs: Mapping[str, int], own: Mapping[str, int], shared: Mapping[str, int]) -> dict[str, int]:
    """{name: how many are missing}. own: the worker's; shared: licences. A name in both must be free in both."""
    missing = dict[str, int]()
    for name, n in needs.items():
        places = [have[name] for have in (own, shared) if name in have]
        if (short := n - min(places, default=0)) > 0:
            missing[name] = short
    return missing
