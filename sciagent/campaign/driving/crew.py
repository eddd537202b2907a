"""The interface through which a driver starts and settles jobs, local or remote, and how many it starts at a time.

A long job is chosen only when a worker is free, so that the choice uses the latest evidence. A short job is claimed
ahead, one for each worker, since a worker would otherwise wait for the ledger. Jobs share a call only if their verifier
declares how many it takes together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import BuiltRung
from sciagent.campaign.driving.session import DriverSession
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import EvidenceKey
from sciagent.domain.ladder import Position
from sciagent.store.job_queue.jobs import NewJob, Offer

LONG_SECONDS = 1.0  # a job this long is not claimed before a worker is free
MARGIN = 32  # a job is claimed ahead or shares a call only if the budget suffices for this many such jobs
_WEIGHT = 0.2  # weight of the latest observation in the running mean


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

    @property
    def position(self) -> Position:
        return self.rung.rules.position

    def row(self, campaign_id: int, offer: Offer | None = None) -> NewJob:
        """Returns the job's row for the ledger."""
        return NewJob(campaign_id, self.rung.id, self.candidate_id, 0, self.key.hash, self.priority, offer)


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
        """Updates the mean. A job of more than ten times the mean replaces it, so that fewer jobs are claimed ahead."""
        old = self._seconds.get(position, wall_seconds)
        weight = 1.0 if wall_seconds > 10 * old else _WEIGHT
        self._seconds[position] = old + weight * (wall_seconds - old)

    def group(self, position: Position) -> int:
        """Number of jobs that share one call."""
        return self._together.get(position, 1)

    def ahead(self, position: Position, below: float = LONG_SECONDS) -> bool:
        """Whether a job may be claimed before a worker is free. below: longest wall time of such a job, in seconds."""
        return self._seconds.get(position, below) < below


@dataclass
class _Call:
    """One call of a verifier with several jobs of one rung."""

    position: Position
    room: int
    """Number of further jobs that the call can take."""


class Places(Protocol):
    """The places of one dispatch."""

    @property
    def open(self) -> frozenset[Position]:
        """Positions of rungs that have a place."""

    @property
    def wanted(self) -> int:
        """Largest number of jobs that could be started now."""

    @property
    def has_free(self) -> bool:
        """Whether a worker is still free."""

    @property
    def is_full(self) -> bool:
        """Whether less urgent jobs have no place either, once `take` has returned None."""

    def take(self, position: Position, ample: bool) -> int | None:
        """Takes a place for a job of this rung; returns the number of its call, or None if there is no place. ample:
        whether the budget suffices for many such jobs."""


class LocalPlaces:
    """The places of one dispatch to the local pool: first the free workers, then one waiting job per worker.

    wide: number of workers that a job takes, by position, for all paid rungs. A job that takes several never waits.
    """

    is_full = True

    def __init__(self, pace: Pace, free: int, waiting: int, wide: Mapping[Position, int]) -> None:
        self._pace, self._free, self._waiting, self._wide = pace, free, waiting, wide
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
        ahead = self._waiting if any(map(self._pace.ahead, self._wide)) else 0
        return max(map(self._pace.group, self._wide), default=1) * (self._free + ahead)

    def take(self, position: Position, ample: bool) -> int | None:
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
            self._waiting = 0  # an idle worker would begin a waiting job at once
        self._calls.append(_Call(position, self._pace.group(position) - 1 if ample else 0))
        return len(self._calls) - 1


class Quota:
    """The places of one dispatch to remote workers: number of further jobs that may be offered, by rung."""

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


class Crew(Protocol):
    """The runner of a campaign's jobs: the driver's own pool, or remote workers."""

    session: DriverSession
    pace: Pace
    fault: str | None = None
    """Reason why no job can run until a person corrects something."""
    has_room: bool = True
    """Whether a job could be started now, as far as the driver knows without reading the ledger."""

    def __init__(self, session: DriverSession, pace: Pace) -> None:
        self.session, self.pace = session, pace

    @property
    def running(self) -> int:
        """Number of jobs that are not over."""

    def places(self, connection: Connection) -> Places:
        """Returns the places of one dispatch."""

    def start(self, connection: Connection, planned: Sequence[PlannedJob]) -> list[int]:
        """Writes new jobs to the ledger; returns their ids in order."""

    def resume(self, connection: Connection, planned: Mapping[int, PlannedJob]) -> None:
        """Claims or offers queued jobs again. planned: jobs by id."""

    def launch(self) -> int:
        """Runs the jobs that were started or resumed, after the commit; returns their number."""

    def settle(self) -> AbstractSet[Position]:
        """Writes results of finished jobs and places their candidates; returns the positions of their rungs."""

    def recall(self) -> None:
        """Takes back jobs that have not begun, since no more jobs may start."""

    def abort(self) -> None:
        """Stops waiting for running jobs."""

    def recount(self, connection: Connection) -> None:
        """Called after the budget was read from the ledger again, so that no cost is counted twice."""
        return None

    def amend(self, connection: Connection) -> None:
        """Adopts the session's amended campaign."""

    def close(self) -> None: ...
