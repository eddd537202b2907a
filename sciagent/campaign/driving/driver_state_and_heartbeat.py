"""The state of a driver: campaign, lease, budget, scheduler, the rules by which the campaign ends, the heartbeat that
keeps the lease, and the crews.

A crew is the part of a driver that has jobs run: by local processes, by remote workers, or by people.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.driving.job_slots import JobSlots, Pace, PlannedJob
from sciagent.campaign.pricing.purchasing_interface import Purchasing
from sciagent.campaign.pricing.rung_by_rung_purchasing_and_choice import purchasing_of
from sciagent.domain.answers.status_and_comparison import HitCounts
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import NOTHING_LEFT, CampaignState, JobState
from sciagent.errors import LedgerAwayError, LedgerReplacedError, StaleLeaseError
from sciagent.store.campaign_state import campaigns, candidate_standings
from sciagent.store.campaign_state.campaigns import DRIVER_LEASE_SECONDS, DriverLease
from sciagent.store.database.engine import sqlite_path
from sciagent.store.job_queue import jobs
from sciagent.store.views import campaign_counts_and_remarks

NEEDED_BYTES = 16_000_000  # free space below which a driver ends, so that what runs can still be recorded
DISK_LOOK_SECONDS = 2.0  # time between two looks at the free space
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
    hits: HitCounts
    """Number of hits and of compounds among them; kept up to date if the goal counts hits."""
    crews: tuple[Crew, ...] = ()
    """The crews that run jobs; the first one takes new jobs."""
    own_core_seconds: float
    """Computing time of the driver's own thread so far, in core-seconds, without what is booked for the proposer."""

    def __init__(self, built: Built) -> None:
        self.built = built
        self.owner = campaigns.new_owner()
        self.stopping = threading.Event()
        self.aborting = threading.Event()
        self.stop_reason = INTERRUPTED[1]
        self.own_core_seconds = 0.0

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Adds the computing time of this thread within the block to `own_core_seconds`."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.own_core_seconds += time.thread_time() - began

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
        self.hits = campaign_counts_and_remarks.hits(connection, self.built.row.id)

    def log(self, connection: Connection, event: str, **payload: object) -> None:
        """Records an event of the campaign."""
        campaigns.log_event(connection, self.built.row.id, event, payload)

    def verifications_left(self, connection: Connection) -> int | None:
        """Returns the number of candidates that the terminal rung may still be asked about; None without a limit."""
        limit = self.built.spec.budget.verifications
        if limit is None:
            return None
        done = campaign_counts_and_remarks.verifications(connection, self.built.row.id, self.built.terminal)
        return max(0, limit - done)

    def spent(self) -> str | None:
        """Returns a text on the limit that leaves no job any room; None if there is none."""
        return self.budget.exhausted(besides=(TOKEN_RESOURCE,))

    def reached(self) -> Ending | None:
        """Returns the ending if no more jobs may start, otherwise None."""
        built = self.built
        goal = self.built.spec.goal
        if self.is_goal_reached:
            was = "was" if goal.count == 1 else "were"
            return CampaignState.FINISHED, f"{self.hits}; {goal.count} {was} asked for"
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
        """Whether the campaign has hits of as many compounds as were asked for."""
        goal = self.built.spec.goal
        return goal.kind == "hits" and goal.count is not None and self.hits.distinct >= goal.count

    def _n_waiting(self, connection: Connection) -> int:
        """Returns the number of candidates that wait for a paid rung."""
        positions = [rung.rules.position for rung in self.built.paid]
        return candidate_standings.count_at(connection, self.built.row.id, positions, MANY_CANDIDATES)

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


class DiskWatch:
    """Looks at the free space of the disks to which a driver writes."""

    def __init__(self, built: Built) -> None:
        ledger = built.ledger
        path = sqlite_path(ledger.engine)
        gc_hint = "sciagent gc removes files that are not needed"
        self._folders = [(ledger.artifacts.root, "artifacts", gc_hint), (built.scratch(), "running jobs", gc_hint)]
        """Folders with what they hold and what may be freed there."""
        if path is not None:
            self._folders.append((path.parent, "the ledger", "files of others may be moved away"))
        self._next_look_at = 0.0

    def fault(self) -> str | None:
        """Returns a message on a folder with less than `NEEDED_BYTES` of free space; None if there is none, or if the
        last look was less than `DISK_LOOK_SECONDS` ago."""
        now = time.monotonic()
        if now < self._next_look_at:
            return None
        self._next_look_at = now + DISK_LOOK_SECONDS
        for folder, content, hint in self._folders:
            existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
            with suppress(OSError):  # the folder was removed just now
                free = shutil.disk_usage(existing).free
                if free < NEEDED_BYTES:
                    return (
                        f"the disk that holds {folder} ({content}) has {free / 1e6:.1f} MB left, and a campaign needs "
                        f"{NEEDED_BYTES / 1e6:.0f} MB there; free some space: {hint}"
                    )
        return None


class Heartbeat:
    """The thread that renews a lease several times before it would expire.

    `lost` is set if another process drives the campaign.
    """

    fault: LedgerReplacedError | None = None
    """The error of the last beat if the file of the ledger is gone."""

    def __init__(self, session: DriverSession) -> None:
        self.lost = threading.Event()
        self._session = session
        self._ledger = session.built.ledger
        self._lease = session.lease
        self._booked_core_seconds = 0.0  # computing time of the driver that the ledger holds already
        self._stop = threading.Event()
        self._last = time.monotonic()  # time of the last renewal
        self._counts = True  # whether time is booked as wall time
        self._one_at_a_time = threading.Lock()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and books the last seconds of wall time and of the driver's computing time."""
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
                    own_core_seconds = self._session.own_core_seconds
                    unbooked = own_core_seconds - self._booked_core_seconds
                    campaigns.renew_driver(connection, self._lease, wall_seconds=wall, core_seconds=max(unbooked, 0.0))
                self._last = now
                self._booked_core_seconds = max(own_core_seconds, self._booked_core_seconds)
            except StaleLeaseError:
                self.lost.set()
                self._stop.set()
            except LedgerReplacedError as error:
                self.fault = error
                self._stop.set()
            except LedgerAwayError:
                return  # the next beat tries again, until the lease has expired


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
