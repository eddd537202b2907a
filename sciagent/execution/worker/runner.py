"""A slot of a worker: claims a job from the ledger, runs it in a process of its own, and writes what came of it."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from sciagent.domain.cost import Cost
from sciagent.domain.evidence import Finding
from sciagent.domain.jobs.needs import GPU
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.errors import LedgerAwayError
from sciagent.execution.worker.checkpoints import home_of, scratch_of
from sciagent.execution.worker.claimed_jobs import Asked, CannotError, ClaimedJob, Tasks, ask, request_of
from sciagent.execution.worker.completing import JobResult, Written, complete, give_back, store_files
from sciagent.execution.worker.devices import visible
from sciagent.execution.worker.lease_renewal import Held, Keeper
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import external_jobs, offers
from sciagent.store.job_queue.leases import Claim
from sciagent.store.job_queue.workers import NewWorker
from sciagent.verification.sandbox.host import HostResult, Worker
from sciagent.verification.sandbox.scratch import remove_folder

log = logging.getLogger(__name__)
NOTHING = Asked([], {})
MAX_PAUSE = 5.0  # seconds between tries while the database is away

T = TypeVar("T")


def patiently(
    work: Callable[[], T],
    stop: threading.Event | None = None,
    away: tuple[type[Exception], ...] = (LedgerAwayError,),
    what: str = "the ledger",
) -> T:
    """What `work` returns, tried again while the database, or whatever else it is, is away. Raises its last error once
    `stop` is set, and FileNotFoundError: what is gone does not come back."""
    pause = 0.1
    while True:
        try:
            return work()
        except away as error:
            if isinstance(error, FileNotFoundError) or (stop is not None and stop.is_set()):
                raise
            log.warning("%s is away, trying again in %.1f s: %s", what, pause, str(error).split("\n", 1)[0][:200])
            time.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(2 * pause, MAX_PAUSE)


class Runner:
    """Used by one thread; `stop` from any. owner: of its leases. scratch: where jobs work, on a disk of this machine.
    registered: the worker that the slot belongs to; None on a cluster, where a job has one core and `memory_mb`.
    keeper: shared by the slots of a process; else one of its own."""

    def __init__(
        self,
        ledger: Ledger,
        owner: str,
        queues: Sequence[str],
        scratch: Path,
        *,
        memory_mb: float = math.inf,
        registered: NewWorker | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.owner, self._ledger, self._queues = owner, ledger, tuple(queues)
        self._scratch, self._memory_mb, self._registered = scratch, memory_mb, registered
        self._own_keeper = keeper is None
        self._keeper = keeper or Keeper(ledger)
        self._tasks = Tasks()
        self._cannot: dict[int, str] = {}  # rungs that this worker cannot run, and why
        self._worker: Worker | None = None
        self._stop = threading.Event()
        self.campaigns: frozenset[int] = frozenset()  # whose jobs it ran last

    def run_next(self, seconds: float | None = None) -> int:
        """Claim and run the most urgent job of the queues, or a group of short ones; how many jobs that was. seconds:
        what a job may be expected to take at most."""
        return self._run(patiently(lambda: self._claim_next(seconds), self._stop))

    def run_reserved(self, job_id: int, name: str) -> bool:
        """Run this job, if it is reserved still for the element of that name in the queue of a cluster."""

        def claim() -> Asked:
            if self._stop.is_set():
                return NOTHING
            with self._ledger.begin() as connection:
                one = external_jobs.claim_reserved(connection, job_id, name, self.owner)
                return ask(connection, [] if one is None else [one])

        return bool(self._run(patiently(claim, self._stop)))

    def stop(self) -> None:
        """End what runs; it waits again for somebody else, who goes on from its checkpoint. Nothing more is taken."""
        self._stop.set()
        self._end()

    def close(self) -> None:
        """Leave no process and no folder."""
        if self._worker is not None:
            self._worker.close()
        if self._own_keeper:
            self._keeper.close()

    def _claim_next(self, seconds: float | None) -> Asked:
        if self._stop.is_set():
            return NOTHING
        skip = list(self._cannot)
        with self._ledger.begin() as connection:
            claims = offers.claim_next(
                connection,
                self._queues,
                self.owner,
                worker=self._registered,
                memory_mb=self._memory_mb,
                skip=skip,
                seconds=seconds,
                after=max(self.campaigns, default=0),
            )
            return ask(connection, claims)

    def _run(self, asked: Asked) -> int:
        claims = asked.claims
        if not claims:
            return 0
        with self._keeper.holding(claims, self._end) as held:
            try:
                jobs = self._tasks.jobs(asked)
            except CannotError as error:
                self._refuse(claims, str(error))
                return 0
            self._say_begun(jobs)
            if self._worker is None:
                self._worker = Worker(self._scratch, preload=[jobs[0].task.verifier.name])
            results = self._verify(jobs)
        self._write(jobs, results, held)
        self.campaigns = frozenset(one.task.campaign_id for one in jobs)
        return len(jobs)

    def _end(self) -> None:
        """What runs is not wanted any more."""
        if self._worker is not None:
            self._worker.cancel()

    def _say_begun(self, jobs: list[ClaimedJob]) -> None:
        if len(jobs) == 1:  # of short ones it is enough to hear how they ended
            one, about = jobs[0], self._about(jobs[0], "started")
            log.info("job %d: %s starts", one.claim.job_id, one.task.verifier.name, extra={"about": about})

    def _verify(self, jobs: list[ClaimedJob]) -> list[HostResult]:
        assert self._worker is not None
        request = request_of(jobs, scratch_of(self._ledger.artifacts), self._cuda(jobs))
        try:
            return self._worker.run(request)
        except Exception as error:
            log.exception("the host failed", extra={"about": self._about(jobs[0], "host_failed")})
            detail = f"{type(error).__name__}: {error}"
            findings = [Finding(o.candidate.key, Outcome.LOST, reason=Reason.WORKER_DIED, detail=detail) for o in jobs]
            return [HostResult(one, Cost(), 0.0) for one in findings]

    def _cuda(self, jobs: list[ClaimedJob]) -> str | None:
        """The GPUs that jobs of one process hold. In a cluster they are those that this process was given."""
        if self._registered is None:
            given = jobs[0].task.needs.get(GPU, 0)
            return visible(given, range(given))
        return visible(self._registered.resources.get(GPU, 0), [i for one in jobs for i in one.claim.gpus])

    def _write(self, jobs: list[ClaimedJob], results: list[HostResult], held: Held) -> None:
        # a disk that is full or away is waited for, as the ledger is: what was computed is not thrown away
        files = patiently(lambda: store_files(self._ledger, results), None, (OSError,), "the folder of artifacts")
        ended = bool(held.gone) or self._stop.is_set()
        done = [JobResult(*parts, ended) for parts in zip(jobs, results, files, strict=True)]

        def write() -> Written:
            with self._ledger.begin() as connection:
                return complete(connection, done)

        written = patiently(write)  # what was computed is not thrown away, however long the database is away
        for one in done:
            job_id = one.job.claim.job_id
            self._say_ended(one, job_id in written.stale)
            if job_id in written.endings and (job_id in written.over or one.outcome is Outcome.CRASHED):
                remove_folder(home_of(scratch_of(self._ledger.artifacts), one.job.key.hash))

    def _say_ended(self, one: JobResult, is_stale: bool) -> None:
        finding, event = one.result.finding, "refused" if is_stale else "ended"
        reason = f" ({finding.reason})" if finding.reason else ""
        late = "; refused, for somebody else had taken over" if is_stale else ""
        more = {"outcome": str(finding.outcome), "seconds": round(one.result.wall_seconds, 3)}
        log.info(
            "job %d: %s%s%s",
            one.job.claim.job_id,
            finding.outcome,
            reason,
            late,
            extra={"about": self._about(one.job, event) | more},
        )

    def _about(self, order: ClaimedJob, event: str) -> dict[str, object]:
        """For whoever reads the log by machine."""
        of = {"event": event, "campaign": order.task.verifier.scope, "job": order.claim.job_id}
        return of | {"fence": order.claim.fence, "worker": self.owner}

    def _refuse(self, claims: list[Claim], why: str) -> None:
        """Give back what this worker cannot run, say so once, and take no more of that rung."""
        about = {"event": "cannot", "worker": self.owner, "job": claims[0].job_id, "fence": claims[0].fence}
        log.error("%s", why, extra={"about": about})

        def write() -> None:
            with self._ledger.begin() as connection:
                give_back(connection, claims)
                for rung_id, campaign_id in offers.rungs_of(connection, [one.job_id for one in claims]).items():
                    self._cannot[rung_id] = why
                    payload = {"worker": self.owner, "rung_id": rung_id, "why": why[:2000]}
                    campaigns.log_event(connection, campaign_id, "worker_cannot", payload)

        patiently(write, self._stop)
