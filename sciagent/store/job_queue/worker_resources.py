"""What a worker has for its jobs, and what of it they would lack."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sciagent.domain.needs import CORES
from sciagent.store.job_queue.workers import NewWorker


@dataclass(frozen=True)
class Has:
    """What a worker has, all its slots together. resources: {name: how many} beside the cores, GPUs among them.
    memory_mb: None where nobody said."""

    slots: int
    cores: int
    resources: Mapping[str, int] = field(default_factory=dict)
    memory_mb: int | None = None

    def shares(self, needs: Mapping[str, int]) -> int:
        """How many slots' parts of the memory a job may use: one for each core, where there are enough."""
        return needs[CORES] if self.cores <= self.slots else 1

    def memory_for(self, needs: Mapping[str, int]) -> float:
        """MB that a job may ask for at most."""
        return math.inf if self.memory_mb is None else self.memory_mb // self.slots * self.shares(needs)

    def could_hold(self, needs: Mapping[str, int], shared: Mapping[str, int], memory_mb: int | None) -> bool:
        """Whether the worker, if it ran nothing else, and the licences, if nobody had one, were enough. memory_mb: the
        limit of the job."""
        enough = self.memory_for(needs) >= (memory_mb or 0)
        return enough and not lacking(needs, {CORES: self.cores, **self.resources}, shared)


def has_of(one: NewWorker) -> Has:
    return Has(one.slots, one.slots if one.cores is None else one.cores, one.resources, one.memory_mb)


def lacking(needs: Mapping[str, int], own: Mapping[str, int], shared: Mapping[str, int]) -> dict[str, int]:
    """{name: how many are missing}. own: of the worker; shared: licences. What both have must be free in both."""
    missing = dict[str, int]()
    for name, n in needs.items():
        places = [have[name] for have in (own, shared) if name in have]
        if (short := n - min(places, default=0)) > 0:
            missing[name] = short
    return missing
