"""Pace: how many jobs of a rung go to a worker in one call, and how many wait beside it.

A job of minutes is chosen when a worker is free, with all that is known by then. A job of milliseconds would keep its
worker waiting for the ledger: one for each worker is claimed a little ahead. Jobs share a call only where their
verifier says how many it takes together.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sciagent.domain.campaigns.ladder import Position

LONG_SECONDS = 1.0  # a job this long is not claimed before a worker is free
MARGIN = 32  # once costs are known, a job is claimed ahead or shares a call while the budget holds so many like it
_WEIGHT = 0.2  # of the latest observation

T = TypeVar("T")
_EVERY = [Position(p) for p in range(100)]


class Pace:
    """Wall time of a job at each rung, by position: a running mean, unknown before the first."""

    def __init__(self, together: Mapping[Position, int] | None = None) -> None:
        """together: by position, how many jobs share a call, where that is more than one."""
        self._seconds: dict[int, float] = {}
        self._together = together or {}

    def observe(self, position: Position, wall_seconds: float) -> None:
        """A long one counts at once, a short one by and by: who has seen a job of minutes goes carefully."""
        old = self._seconds.get(position, wall_seconds)
        weight = 1.0 if wall_seconds > 10 * old else _WEIGHT
        self._seconds[position] = old + weight * (wall_seconds - old)

    @property
    def known(self) -> bool:
        """Whether any job has come back."""
        return bool(self._seconds)

    def group(self, position: Position) -> int:
        """Jobs for one call."""
        return self._together.get(position, 1)

    def ahead(self, position: Position, below: float = LONG_SECONDS) -> bool:
        """Whether a job may be claimed before a worker is free. below: seconds a job."""
        return self._seconds.get(position, below) < below

    def wanted(self, positions: Sequence[Position], free: int, waiting: int) -> int:
        """The most jobs that `free` workers and `waiting` places beside them could take."""
        ahead = waiting if any(map(self.ahead, positions)) else 0
        return max(map(self.group, positions), default=1) * (free + ahead)


@dataclass
class Group(Generic[T]):
    """Jobs of one rung for one call. waits: claimed before a worker is free."""

    position: Position
    room: int
    waits: bool
    jobs: list[T] = field(default_factory=list)

    def reserve(self, n: int) -> None:
        """n places are spoken for, their jobs follow."""
        self.room -= n


class Places(Generic[T]):
    """Hands out the places of one dispatch: first the free workers, then what may wait beside them. wide: how many
    workers a job takes, by position, where that is more than one; such a job never waits here."""

    def __init__(self, pace: Pace, free: int, waiting: int, wide: Mapping[Position, int] | None = None) -> None:
        self._pace, self._free, self._waiting, self._wide = pace, free, waiting, wide or {}
        self.groups: list[Group[T]] = []

    def alone(self, position: Position, job: T) -> None:
        """A job that takes its workers whatever else there is."""
        self._free -= self._wide.get(position, 1)
        self.groups.append(Group(position, 0, False, [job]))

    @property
    def open(self) -> Container[Position]:
        """Positions of the rungs whose jobs a worker here may take: all."""
        return _EVERY

    @property
    def has_free(self) -> bool:
        """Whether a worker still has nothing to do."""
        return self._free > 0

    @property
    def is_full(self) -> bool:
        """Asked after `find` found nothing: there is no place for what is less urgent either."""
        return True

    def find(self, position: Position, ample: bool) -> Group[T] | None:
        """The group that takes the next job of a rung; None without a place. ample: the budget holds many like it."""
        for group in self.groups:
            if ample and group.position == position and group.room > 0:
                return group
        takes = self._wide.get(position, 1)
        waits = self._free < takes
        if waits and not (self._waiting and takes == 1 and ample and self._pace.ahead(position)):
            return None
        if waits:
            self._waiting -= 1
        else:
            self._free -= takes
        if takes > 1:
            self._waiting = 0  # a worker that has nothing to do would begin with it at once
        self.groups.append(Group(position, self._pace.group(position) if ample else 1, waits))
        return self.groups[-1]
