"""Wall time of jobs by rung, and how many jobs are started in one dispatch.

A job of minutes is chosen when a worker is free, with all that is known by then. A job of milliseconds would keep its
worker waiting for the ledger, so one for each worker is claimed a little ahead. Jobs share a call only where their
verifier says how many it takes together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sciagent.domain.campaigns.ladder import Position

LONG_SECONDS = 1.0  # a job this long is not claimed before a worker is free
MARGIN = 32  # once costs are known, a job is claimed ahead or shares a call while the budget holds so many like it
_WEIGHT = 0.2  # of the latest observation


class Pace:
    """Wall time of a job at each rung: a running mean, unknown before the first."""

    def __init__(self, together: Mapping[Position, int] | None = None) -> None:
        """together: by position, how many jobs share a call, where that is more than one."""
        self._seconds: dict[Position, float] = {}
        self._together = together or {}

    def observe(self, position: Position, wall_seconds: float) -> None:
        """A job that took much longer than the mean replaces it, so that few jobs are claimed ahead from then on."""
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


@dataclass
class _Call:
    """Jobs of one rung that share a call."""

    position: Position
    room: int
    """How many more it takes."""


class LocalPlaces:
    """The places of one dispatch to the local pool: first the free workers, then one job waiting beside each.

    wide: how many workers a job takes, by position, of all paid rungs; a job that takes several never waits here.
    """

    has_room = True
    is_full = True
    """Whether there is no place for a less urgent job either, asked after `take` found none."""

    def __init__(self, pace: Pace, free: int, waiting: int, wide: Mapping[Position, int]) -> None:
        self._pace, self._free, self._waiting, self._wide = pace, free, waiting, wide
        self._calls: list[_Call] = []
        self.open = frozenset(wide)
        """Positions of the rungs that have a place."""

    @property
    def has_free(self) -> bool:
        """Whether a worker still has nothing to do."""
        return self._free > 0

    @property
    def wanted(self) -> int:
        """The most jobs that could be started now."""
        ahead = self._waiting if any(map(self._pace.ahead, self._wide)) else 0
        return max(map(self._pace.group, self._wide), default=1) * (self._free + ahead)

    def take(self, position: Position, ample: bool) -> int | None:
        """Take a place for a job of this rung; the number of its call, or None without a place. ample: whether the
        budget holds many jobs like it."""
        for number, call in enumerate(self._calls):
            if ample and call.position == position and call.room > 0:
                call.room -= 1
                return number
        takes = self._wide[position]
        waits = self._free < takes
        if waits and not (self._waiting and takes == 1 and ample and self._pace.ahead(position)):
            return None
        if waits:
            self._waiting -= 1
        else:
            self._free -= takes
        if takes > 1:
            self._waiting = 0  # an idle worker would begin with the waiting job at once
        self._calls.append(_Call(position, self._pace.group(position) - 1 if ample else 0))
        return len(self._calls) - 1


class Quota:
    """The places of one dispatch to remote workers: how many more jobs of each rung may be offered."""

    def __init__(self, left: Mapping[Position, int]) -> None:
        self._left = dict(left)

    @property
    def open(self) -> frozenset[Position]:
        return frozenset(position for position, n in self._left.items() if n > 0)

    @property
    def wanted(self) -> int:
        return max(self._left.values(), default=0)

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
        return 0


Places = LocalPlaces | Quota
