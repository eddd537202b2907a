"""The slots for jobs of a driver: what may be started now, and what is under way.

A call is one run of a verifier, with one job or several jobs of its rung.

Local and remote jobs have the same interface. A long job is chosen only when a worker is free, so that the choice uses
the latest evidence. A short job is claimed ahead, one for each worker, since a worker would otherwise wait for the
ledger: jobs of 0.15 s on two cores would take 17 % longer, and jobs that do nothing 40 %. Jobs share a call only if
their verifier declares how many it takes together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sciagent.campaign.core.built_campaign_and_derived_values import BuiltRung
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import EvidenceKey
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.store.job_queue.jobs import NewJob, Offer

LONG_SECONDS = 1.0  # a job this long is not claimed before a worker is free
AMPLE_JOBS = 32  # a job is claimed ahead or shares a call only if the budget suffices for this many such jobs
_LATEST_WEIGHT = 0.2  # weight of the latest observation in the running mean
_OUTLIER_RATIO = 10  # ratio to the running mean above which a job's wall time replaces the mean


@dataclass(frozen=True)
class PlannedJob:
    """A job that is to be started."""

    rung: BuiltRung
    candidate_id: int
    candidate: Candidate
    key: EvidenceKey
    declared: Cost | None
    """Cost that the verifier declares; None if it declares none."""
    reservation: Cost
    """Cost reserved in the budget."""
    call: int = 0
    """Number of the call that runs this job, possibly with other jobs."""
    priority: float = 0.0
    replicates: tuple[int, ...] = (0,)
    """Numbers of the candidate's measurements that are to be made. The key is that of the first; people get a task of
    their own for each of the others."""

    @property
    def position(self) -> Position:
        return self.rung.rules.position

    def row(self, campaign_id: int, offer: Offer | None = None) -> NewJob:
        """Returns the job's row for the ledger."""
        replicate = self.replicates[0]
        return NewJob(campaign_id, self.rung.id, self.candidate_id, replicate, self.key.hash, self.priority, offer)


class Pace:
    """The running mean of the wall time of a job, for each rung that has finished one."""

    def __init__(self, together: Mapping[Position, int] | None = None) -> None:
        """together: number of jobs that share a call, by position, for rungs with more than one."""
        self._seconds: dict[Position, float] = {}
        self._together = together or {}

    @property
    def known(self) -> bool:
        """Whether any job has finished."""
        return bool(self._seconds)

    def observe(self, position: Position, wall_seconds: float) -> None:
        """Updates the mean. A wall time of more than ten times the mean replaces it, so that no more jobs are claimed
        ahead than the new wall time allows."""
        old = self._seconds.get(position, wall_seconds)
        weight = 1.0 if wall_seconds > _OUTLIER_RATIO * old else _LATEST_WEIGHT
        self._seconds[position] = old + weight * (wall_seconds - old)

    def group(self, position: Position) -> int:
        """Number of jobs that share one call."""
        return self._together.get(position, 1)

    def is_short(self, position: Position, below: float = LONG_SECONDS) -> bool:
        """Whether a job of the rung is expected to take less than `below` seconds; False before one has finished.

        The default is the wall time below which a job may be claimed before a worker is free.
        """
        mean_seconds = self._seconds.get(position)
        return mean_seconds is not None and mean_seconds < below


@dataclass
class _Call:
    """One call of a verifier with several jobs of one rung."""

    position: Position
    free_slots: int
    """Number of further jobs that the call can take."""


class JobSlots(Protocol):
    """The slots of one dispatch."""

    @property
    def open(self) -> frozenset[Position]:
        """Positions of rungs that have a slot."""

    @property
    def wanted(self) -> int:
        """Largest number of jobs that could be started now."""

    @property
    def has_free(self) -> bool:
        """Whether a worker is still free."""

    @property
    def is_full(self) -> bool:
        """Whether a dispatch stops at the first job for which `take` returns None: no later job would get a slot, or
        may overtake the job that got none."""

    def take(self, position: Position, ample: bool) -> int | None:
        """Takes a slot for a job of this rung; returns the number of its call, or None if there is no slot. ample:
        whether the budget suffices for many such jobs."""


class LocalSlots:
    """The slots of one dispatch to the local pool: first the free workers, then one waiting job per worker.

    wide: number of workers that a job takes, by position, for all paid rungs. A job that takes several never waits.
    """

    is_full = True  # no less urgent job overtakes one without a slot

    def __init__(self, pace: Pace, free: int, waiting: int, wide: Mapping[Position, int]) -> None:
        self._pace = pace
        self._free = free  # number of free workers
        self._waiting = waiting  # number of jobs that may wait
        self._workers_by_position = wide
        self._calls: list[_Call] = []
        self._open = frozenset(wide)

    @property
    def open(self) -> frozenset[Position]:
        return self._open

    @property
    def has_free(self) -> bool:
        return self._free > 0

    @property
    def wanted(self) -> int:
        n_calls = self._free
        if any(self._pace.is_short(position) for position in self._workers_by_position):
            n_calls += self._waiting
        largest_group = max((self._pace.group(position) for position in self._workers_by_position), default=1)
        return largest_group * n_calls

    def take(self, position: Position, ample: bool) -> int | None:
        for number, call in enumerate(self._calls):
            if ample and call.position == position and call.free_slots > 0:
                call.free_slots -= 1
                return number
        n_workers = self._workers_by_position[position]
        if n_workers <= self._free:
            self._free -= n_workers
        else:
            may_wait = self._waiting and n_workers == 1 and ample and self._pace.is_short(position)
            if not may_wait:
                return None
            self._waiting -= 1
        if n_workers > 1:
            self._waiting = 0  # an idle worker would begin a waiting job at once, and the wide job would lack it
        free_slots = self._pace.group(position) - 1 if ample else 0
        self._calls.append(_Call(position, free_slots))
        return len(self._calls) - 1


class Quota:
    """The slots of one dispatch to remote workers: number of further jobs that may be offered, by rung."""

    def __init__(self, left: Mapping[Position, int]) -> None:
        self._left = dict(left)

    @property
    def open(self) -> frozenset[Position]:
        return frozenset(position for position, n in self._left.items() if n > 0)

    @property
    def wanted(self) -> int:
        return max(self._left.values(), default=0)  # a queue of one rung may take all jobs of a dispatch

    @property
    def has_free(self) -> bool:
        return self.wanted > 0

    @property
    def is_full(self) -> bool:
        return not self.has_free

    def take(self, position: Position, ample: bool) -> int | None:
        if self._left.get(position, 0) <= 0:
            return None
        self._left[position] -= 1
        return 0  # workers make their own groups of jobs, so calls are not numbered
