"""Shows that a worker lives: keeps its row in the ledger, renews the leases of its jobs, and takes back jobs of dead
workers.

`Presence` keeps the row and takes jobs back. `LeaseRenewer` is a thread that renews leases; it also ends jobs that were
cancelled or lost their lease.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from statistics import median
from typing import NamedTuple

from sciagent.domain.states_and_needs import Hear, ReportedProgress
from sciagent.errors import LedgerAwayError, LedgerReplacedError, SchemaVersionError
from sciagent.execution.worker.end_attempts import reap_expired
from sciagent.execution.worker.read_claimed_jobs import ClaimedJob
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import leases, workers_and_capacity
from sciagent.store.job_queue.leases import LEASE_SECONDS, Claim, LiveAttempt
from sciagent.store.job_queue.workers_and_capacity import SEEN_SECONDS, NewWorker

log = logging.getLogger(__name__)
LOOK_SECONDS = 2.0  # between steps
ALIVE_SECONDS = SEEN_SECONDS / 5  # between updates of the worker's row, of which several may fail
REAP_SECONDS = min(5.0, LEASE_SECONDS / 4)  # between checks for dead workers


class Presence:
    """Updates the worker's row, reads whether the worker is to drain, and takes back jobs of dead workers.

    on_drain: called when `draining` has changed. on_reap: called after each check for dead workers, with their jobs.
    """

    def __init__(
        self,
        new: NewWorker,
        on_drain: Callable[[bool], None] = lambda draining: None,
        on_reap: Callable[[Ledger, Sequence[LiveAttempt]], None] = lambda ledger, reaped: None,
    ) -> None:
        self.draining = False
        """Whether the worker must take no new jobs."""
        self.fault: SchemaVersionError | LedgerReplacedError | None = None
        """The error after which waiting does not help: the ledger has another schema, or its file was replaced."""
        self._new = new
        self._on_drain = on_drain
        self._on_reap = on_reap
        self._registered = False
        self._seen_at = -SEEN_SECONDS  # long ago, so that the first step does everything
        self._reaped_at = -SEEN_SECONDS

    def serve(self, ledger: Ledger, stop: threading.Event) -> None:
        """Call `step` until `stop` is set. A ledger that is away is tried again."""
        while not stop.is_set():
            try:
                self.step(ledger)
            except (SchemaVersionError, LedgerReplacedError) as error:
                self.fault = error
                stop.set()
                return
            except Exception as error:  # noqa: BLE001  a fault of the ledger may be temporary
                first_line = str(error).split("\n", 1)[0]
                log.warning("the ledger is away: %s", first_line[:200])
            stop.wait(LOOK_SECONDS)
        self.leave(ledger)

    def step(self, ledger: Ledger) -> None:
        """Update the worker's row and take back jobs of dead workers, each if it is due."""
        now = time.monotonic()
        if now - self._seen_at > ALIVE_SECONDS:
            with ledger.begin() as connection:
                if not self._registered:
                    workers_and_capacity.register(connection, self._new)
                draining = workers_and_capacity.report_alive(connection, self._new.name)
            self._registered = True
            self._seen_at = now
            if draining != self.draining:
                self.draining = draining
                self._on_drain(draining)
        # at random times, so that the workers of a ledger do not all check at once
        if now - self._reaped_at > REAP_SECONDS * random.uniform(0.8, 1.2):
            self._on_reap(ledger, reap(ledger))
            self._reaped_at = now

    def leave(self, ledger: Ledger) -> None:
        """Record that the worker has ended, if the ledger answers."""
        try:
            with ledger.begin() as connection:
                workers_and_capacity.report_stopped(connection, self._new.name)
        except (LedgerAwayError, LedgerReplacedError):
            log.warning("the ledger was not told that %s has ended", self._new.name)


def reap(ledger: Ledger) -> list[LiveAttempt]:
    """Take back jobs of dead workers, and log each of them."""
    with ledger.begin() as connection:
        reaped = reap_expired(connection)
    for live in reaped:
        id_ = live.claim.job_id
        about = {"event": "lost", "campaign_id": live.campaign_id, "job": id_, "state": str(live.state)}
        log.warning("job %d was lost with its worker; it is %s", id_, live.state, extra={"about": about})
    return reaped


CANCELLED_LOOK_SECONDS = 1.0  # between checks for cancelled jobs
BEAT_SECONDS = leases.LEASE_SECONDS / 4  # between renewals of the leases
PROGRESS_SECONDS = 2.0  # least time between two writes of progress
JOIN_SECONDS = 30.0  # longest wait for the renewer, which may be waiting for the database


class ReportedStep(NamedTuple):
    """A report that more was done."""

    at: float
    """When it came, by `time.monotonic`, s."""
    done: float
    """The amount that was done."""
    of: float
    """The whole amount, in the same units."""


SPEEDS = 30  # number of latest speeds of a job, of which the median is taken


@dataclass(eq=False)
class RenewedLeases:
    """Jobs whose leases are renewed together."""

    claims: list[Claim]
    end: Callable[[], None]
    """Kills the jobs' process, from another thread. It is called at each check while one of the jobs is gone, since the
    process may not have started yet."""
    gone: dict[int, bool] = field(default_factory=dict)
    """Ids of jobs that were cancelled or whose lease was lost; the value is true if a person cancelled the job."""
    unwritten: dict[int, ReportedProgress] = field(default_factory=dict)
    """Progress by attempt id that is not in the ledger yet."""
    _steps: dict[int, deque[ReportedStep]] = field(default_factory=dict)
    """The last reports that more was done, by attempt id."""

    def hear(self, claim: Claim, progress: ReportedProgress) -> None:
        """Take a report of progress, from any thread. The ledger gets it with the expected time to the end.

        The speed is the median of those between the last reports, since what an earlier attempt has done is reported
        at once."""
        now = ReportedStep(time.monotonic(), progress.done, progress.of)
        steps = self._steps.setdefault(claim.attempt_id, deque(maxlen=SPEEDS + 1))
        if steps and steps[-1].of != now.of:  # counted anew, in other units
            steps.clear()
        if not steps or now.done > steps[-1].done:
            steps.append(now)
        remaining = None
        if len(steps) > 1:
            seconds_each = [(b.at - a.at) / (b.done - a.done) for a, b in pairwise(steps)]
            remaining = (progress.of - progress.done) * median(seconds_each)
        self.unwritten[claim.attempt_id] = replace(progress, remaining_seconds=remaining)


def hearing(jobs: Sequence[ClaimedJob], held: RenewedLeases) -> Hear:
    """Returns the receiver of the progress of jobs, by the key of their candidate. held: the leases of the jobs."""
    claims = {job.candidate.key: job.claim for job in jobs}

    def hear(key: str, progress: ReportedProgress) -> None:
        held.hear(claims[key], progress)

    return hear


class LeaseRenewer:
    """Renews the leases of all jobs of one process. The database may be away for as long as a lease lasts."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held: set[RenewedLeases] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease renewer", daemon=True)
        self._thread.start()

    def hold(self, claims: Sequence[Claim], end: Callable[[], None]) -> RenewedLeases:
        """Renew the leases of these jobs until `release`. end: see `RenewedLeases`."""
        held = RenewedLeases(list(claims), end)
        with self._lock:
            self._held.add(held)
        return held

    def release(self, held: RenewedLeases) -> None:
        with self._lock:
            self._held.remove(held)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=JOIN_SECONDS)

    def _keep(self) -> None:
        """Renew leases and end jobs that were cancelled or lost their lease, until `close`."""
        renewed_at = time.monotonic()
        progress_at = renewed_at - PROGRESS_SECONDS
        while not self._stop.wait(min(CANCELLED_LOOK_SECONDS, BEAT_SECONDS)):
            with self._lock:
                held_jobs = set(self._held)
            claims = list(chain.from_iterable(held.claims for held in held_jobs))
            if not claims:
                continue
            try:
                if time.monotonic() - renewed_at >= BEAT_SECONDS:
                    with self._ledger.begin() as connection:
                        leases.heartbeat(connection, claims)
                    renewed_at = time.monotonic()
                if time.monotonic() - progress_at >= PROGRESS_SECONDS and self._write_progress(held_jobs):
                    progress_at = time.monotonic()
                with self._ledger.read() as connection:
                    gone = leases.jobs_to_stop(connection, claims)
            except LedgerAwayError:
                continue  # the next round tries again
            except LedgerReplacedError:  # no result can be written any more
                for held in held_jobs:
                    held.end()
                continue
            for held in held_jobs:
                lost = {claim.job_id: gone[claim.job_id] for claim in held.claims if claim.job_id in gone}
                if lost:
                    held.gone.update(lost)
                    held.end()

    def _write_progress(self, held_jobs: Collection[RenewedLeases]) -> bool:
        """Write the progress that was reported since the last call; returns whether there was any."""
        progress = dict[int, ReportedProgress]()
        for held in held_jobs:
            for attempt_id in list(held.unwritten):
                progress[attempt_id] = held.unwritten.pop(attempt_id)
        if progress:
            with self._ledger.begin() as connection:
                leases.report_progress(connection, progress)
        return bool(progress)
