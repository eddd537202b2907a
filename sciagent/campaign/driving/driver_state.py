"""The state of a driver: campaign, lease, budget, scheduler, the rules by which the campaign ends, and the slots for
jobs.

A crew is the part of a driver that has jobs run: by local processes, by remote workers, or by people. A call is one
run of a verifier, with one job or several jobs of its rung.

Local and remote jobs have the same interface. A long job is chosen only when a worker is free, so that the choice uses
the latest evidence. A short job is claimed ahead, one for each worker, since a worker would otherwise wait for the
ledger: jobs of 0.15 s on two cores would take 17 % longer, and jobs that do nothing 40 %. Jobs share a call only if
their verifier declares how many it takes together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.pricing.purchasing import Purchasing
from sciagent.campaign.pricing.scheduler_choice import purchasing_of
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import EvidenceKey
from sciagent.domain.rung_position import Position
from sciagent.domain.states import NOTHING_LEFT, CampaignState, JobState
from sciagent.errors import LedgerAwayError, LedgerReplacedError, StaleLeaseError
from sciagent.store.campaign_state import campaigns, standings
from sciagent.store.campaign_state.campaigns import DRIVER_LEASE_SECONDS, DriverLease
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs
from sciagent.store.job_queue.jobs import NewJob, Offer
from sciagent.store.views import campaign_counts

MANY_CANDIDATES = 10**9  # no limit on the number of candidates to count
RENEWALS_PER_LEASE = 4  # renewals of a lease within the time after which it would expire
Ending = tuple[CampaignState, str]
"""Final state of a campaign, and the reason."""
INTERRUPTED = (CampaignState.INTERRUPTED, "interrupted")
"""The ending of a campaign that a signal stopped, not a directive."""
TOKEN_RESOURCE = "llm_tokens"
"""Only the proposer spends tokens: without them, a campaign still verifies the candidates that it has."""


@dataclass(frozen=True)
class ProposalsEnd:
    """The end of a campaign's proposals."""

    why: str
    state: CampaignState = CampaignState.FINISHED
    """State of the campaign once nothing is left to do: finished, budget spent, or failed."""


class DriverSession:
    """The state of one driver of a campaign. `open` sets the parts that are read from the ledger."""

    built: Built
    lease: DriverLease
    budget: BudgetTracker
    purchasing: Purchasing
    hits: int
    """Number of hits; kept up to date if the goal counts hits."""
    crews: tuple[Crew, ...] = ()
    """The crews that run jobs; the first one takes new jobs."""

    def __init__(self, built: Built) -> None:
        self.built = built
        self.owner = campaigns.new_owner()
        self.stopping = threading.Event()
        self.aborting = threading.Event()
        self.stop_reason = INTERRUPTED[1]

    def open(self, connection: Connection) -> None:
        """Reads budget, scheduler state and hits from the ledger."""
        self.budget = BudgetTracker(self.built, connection)
        self.purchasing = purchasing_of(self.built, connection, self.budget)
        self.count_hits(connection)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Opens a transaction of the driver. Raises StaleLeaseError if another process drives the campaign now."""
        with self.built.ledger.begin() as connection:
            campaigns.check_driver(connection, self.lease)
            yield connection

    def amend(self, built: Built, connection: Connection) -> None:
        """Adopts the amended campaign."""
        self.built = built
        self.budget.refresh(built, connection)
        self.purchasing = purchasing_of(built, connection, self.budget)

    def recount(self, connection: Connection) -> None:
        """Reads budget and reservations again after another process has written to the ledger."""
        self.budget.refresh(self.built, connection)
        for crew in self.crews:
            crew.recount(connection)

    def count_hits(self, connection: Connection) -> None:
        self.hits = campaign_counts.hits(connection, self.built.row.id)

    def log(self, connection: Connection, event: str, **payload: object) -> None:
        """Records an event of the campaign."""
        campaigns.log_event(connection, self.built.row.id, event, payload)

    def verifications_left(self, connection: Connection) -> int | None:
        """Returns the number of candidates that the terminal rung may still be asked about; None without a limit."""
        limit = self.built.spec.budget.verifications
        if limit is None:
            return None
        done = campaign_counts.verifications(connection, self.built.row.id, self.built.terminal)
        return max(0, limit - done)

    def spent(self) -> str | None:
        """Returns a text on the limit that leaves no job any room; None if there is none."""
        return self.budget.exhausted(besides=(TOKEN_RESOURCE,))

    def reached(self) -> Ending | None:
        """Returns the ending if no more jobs may start, otherwise None."""
        built = self.built
        goal = self.built.spec.goal
        if self.is_goal_reached:
            return CampaignState.FINISHED, f"{self.hits} hits; {goal.count} were asked for"
        spent_limit = self.spent()
        if spent_limit is not None:
            return CampaignState.BUDGET_SPENT, spent_limit
        terminal = built.rungs[built.terminal]
        all_verified = self._all_verified(terminal)  # by `budget.verifications`
        if all_verified is not None:
            return all_verified
        # the terminal rung may have a limit of its own in `budget.rungs`
        if self.purchasing.ends_with_terminal() and not self._has_queued(terminal):
            limit = built.limit_by_rung[built.terminal]
            return CampaignState.BUDGET_SPENT, f"all {limit} verifications of {terminal.spec.rung} are used"
        if not built.paid or any(self._may_run(rung) for rung in built.paid):
            return None
        # otherwise a search would go on proposing candidates that can no longer be verified
        with built.ledger.read() as connection:
            n_waiting = self._n_waiting(connection)
        why = "the budget by rung is used"
        if n_waiting:
            why += f"; {n_waiting} candidates still wait"
        return CampaignState.BUDGET_SPENT, why

    def _may_run(self, rung: BuiltRung) -> bool:
        """Whether the rung may start more jobs or has queued ones."""
        return self.budget.remaining_jobs(rung.rules.position) != 0 or self._has_queued(rung)

    def _all_verified(self, terminal: BuiltRung) -> Ending | None:
        """Returns the ending if the terminal rung has been asked about as many candidates as it may be."""
        limit = self.built.spec.budget.verifications
        if limit is None:
            return None
        with self.built.ledger.read() as connection:
            left = self.verifications_left(connection)
        if left or self._has_queued(terminal):
            return None
        return CampaignState.BUDGET_SPENT, f"all {limit} verifications by {terminal.spec.rung} are used"

    def nothing_left(self, ended: ProposalsEnd | None, starved: bool, shortfall: str | None) -> Ending:
        """Returns the ending of a campaign in which no job runs or can start.

        The reason says what stopped the jobs and what stopped the proposals.

        ended: the end of the proposals; None if there could be more. starved: whether the proposer stopped for lack of
        budget. shortfall: message about a job that exceeds the budget.
        """
        with self.built.ledger.read() as connection:
            n_waiting = self._n_waiting(connection)
            if ended is not None and ended.state is CampaignState.FAILED:
                why = ended.why
                if n_waiting:
                    why += f"; {n_waiting} candidates still wait"
                return CampaignState.FAILED, why
            if starved or shortfall or jobs.queued(connection, self.built.row.id):
                when_renewed = self.budget.renewal_text(self.built, connection)
                if when_renewed:
                    return CampaignState.BUDGET_SPENT, when_renewed
                state = CampaignState.BUDGET_SPENT
                why = "what is left of the budget holds no further job"
                if shortfall:
                    why += f": {shortfall}"
            elif n_waiting:
                state, why = self.purchasing.left_over(n_waiting)
            else:
                state = CampaignState.FINISHED
                why = NOTHING_LEFT
        if ended is None:
            return state, why
        if state is CampaignState.FINISHED:
            state = ended.state
        return state, f"{why}; {ended.why}"

    @property
    def is_goal_reached(self) -> bool:
        """Whether the campaign has as many hits as were asked for."""
        goal = self.built.spec.goal
        return goal.kind == "hits" and goal.count is not None and self.hits >= goal.count

    def _n_waiting(self, connection: Connection) -> int:
        """Returns the number of candidates that wait for a paid rung."""
        positions = [rung.rules.position for rung in self.built.paid]
        return standings.count_at(connection, self.built.row.id, positions, MANY_CANDIDATES)

    def _has_queued(self, rung: BuiltRung) -> bool:
        """Whether jobs of the rung were counted but not run because of a kill or crash."""
        with self.built.ledger.read() as connection:
            return jobs.any_in_state(connection, JobState.QUEUED, rung_id=rung.id)

    def request_stop(self, reason: str = INTERRUPTED[1]) -> None:
        """Stops starting jobs; running jobs may finish. May be called from any thread."""
        self.stop_reason = reason
        self.stopping.set()

    def abort(self) -> None:
        """Ends running jobs at once; they run again when the campaign is resumed. May be called from any thread."""
        self.stopping.set()
        self.aborting.set()


class Heartbeat:
    """The thread that renews a lease several times before it would expire.

    `lost` is set if another process drives the campaign.
    """

    fault: LedgerReplacedError | None = None
    """The error of the last beat if the file of the ledger is gone."""

    def __init__(self, ledger: Ledger, lease: DriverLease) -> None:
        self.lost = threading.Event()
        self._ledger = ledger
        self._lease = lease
        self._stop = threading.Event()
        self._last = time.monotonic()  # time of the last renewal
        self._counts = True  # whether time is booked as wall time
        self._one_at_a_time = threading.Lock()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and books the last seconds of wall time."""
        self._stop.set()
        self._thread.join(timeout=30)
        self._once()

    def count_time(self, counts: bool) -> None:
        """Sets whether time from now on is booked as wall time; a pause is not."""
        self._once()
        self._counts = counts

    def _beat(self) -> None:
        while not self._stop.wait(DRIVER_LEASE_SECONDS / RENEWALS_PER_LEASE):
            self._once()

    def _once(self) -> None:
        with self._one_at_a_time:
            now = time.monotonic()
            try:
                with self._ledger.begin() as connection:
                    wall = now - self._last if self._counts else 0.0
                    campaigns.renew_driver(connection, self._lease, wall_seconds=wall)
                self._last = now
            except StaleLeaseError:
                self.lost.set()
                self._stop.set()
            except LedgerReplacedError as error:
                self.fault = error
                self._stop.set()
            except LedgerAwayError:
                return  # the next beat tries again, until the lease has expired


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

    @property
    def position(self) -> Position:
        return self.rung.rules.position

    def row(self, campaign_id: int, offer: Offer | None = None) -> NewJob:
        """Returns the job's row for the ledger."""
        replicate = 0  # the first; `lab_jobs` adds further replicates for people
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


class Crew(Protocol):
    """The runner of a campaign's jobs: the driver's own pool, or remote workers."""

    session: DriverSession
    pace: Pace
    fault: str | None = None
    """Reason why no job can run until a person corrects something."""
    has_room: bool = True
    """Whether a job could be started now, as far as the driver knows without reading the ledger."""

    def __init__(self, session: DriverSession, pace: Pace) -> None:
        self.session = session
        self.pace = pace

    @property
    def running(self) -> int:
        """Number of jobs that are not over."""

    def slots(self, connection: Connection) -> JobSlots:
        """Returns the slots of one dispatch."""

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
