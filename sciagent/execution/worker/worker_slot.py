"""A slot of a worker: claims a job from the ledger, runs it in its own process, and writes the result.

The module also chooses the GPUs that a job may see, and tries again while the ledger or a disk does not answer.
"""

from __future__ import annotations

import logging
import math
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

from sqlalchemy.engine import Connection

from sciagent.domain.states_and_needs import GPU
from sciagent.errors import LedgerAwayError, UsageError
from sciagent.execution.worker.end_attempts import (
    JobEnding,
    JobResult,
    complete,
    drop_checkpoints,
    give_back,
    lost_with_host,
    store_files,
)
from sciagent.execution.worker.presence_and_leases import LeaseRenewer, RenewedLeases, hearing
from sciagent.execution.worker.read_claimed_jobs import (
    CannotError,
    ClaimedJob,
    ClaimedRow,
    Tasks,
    read_claimed,
    request_of,
    scratch_of,
)
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import cluster_reservations, offers_claims_and_ended_jobs
from sciagent.store.job_queue.leases import Claim
from sciagent.store.job_queue.workers_and_capacity import NewWorker
from sciagent.verification.sandbox.host import HostResult, Worker

log = logging.getLogger(__name__)
FIRST_PAUSE = 0.1  # seconds before the second try while the database is away; each further pause is twice as long
MAX_PAUSE = 5.0  # longest pause, in seconds

T = TypeVar("T")


def retry_while_away(
    work: Callable[[], T],
    stop: threading.Event | None = None,
    away: tuple[type[Exception], ...] = (LedgerAwayError,),
    what: str = "the ledger",
) -> T:
    """Returns work(), which is called again while it raises an error of `away`. Raises that error once `stop` is set.
    Always raises FileNotFoundError, since a missing file does not come back. what: name of the resource, in the log."""
    pause = FIRST_PAUSE
    while True:
        try:
            return work()
        except away as error:
            is_stopped = stop is not None and stop.is_set()
            if is_stopped or isinstance(error, FileNotFoundError):
                raise
            first_line = str(error).split("\n", 1)[0]
            log.warning("%s is away, trying again in %.1f s: %s", what, pause, first_line[:200])
            time.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(2 * pause, MAX_PAUSE)


class Runner:
    """One slot of a worker. Only one thread uses it, but any thread may call `stop`.

    owner: owner of its leases. scratch: folder for jobs, on a disk of this machine. registered: the slot's worker; None
    on a cluster, which has given this slot one core and `memory_mb`. renewer: renews leases; the slots of a process
    share it. Raises LedgerError if this process cannot read the secret that seals evidence.
    """

    def __init__(
        self,
        ledger: Ledger,
        owner: str,
        queues: Sequence[str],
        scratch: Path,
        *,
        memory_mb: float = math.inf,
        registered: NewWorker | None = None,
        renewer: LeaseRenewer | None = None,
    ) -> None:
        ledger.secret.keys()  # a worker that cannot seal evidence takes no job
        self.owner = owner
        self._ledger = ledger
        self._queues = tuple(queues)
        self._scratch = scratch
        self._memory_mb = memory_mb
        self._registered = registered
        self._own_renewer = renewer is None
        self._renewer = renewer or LeaseRenewer(ledger)
        self._tasks = Tasks()
        self._refused: dict[int, str] = {}  # rungs that this worker cannot run, and why
        self._element = ""  # the array element for which the claimed jobs are reserved
        self._worker: Worker | None = None
        self._stop = threading.Event()
        self.campaigns: frozenset[int] = frozenset()
        """Ids of the campaigns whose jobs ran last."""

    def run_next(self, seconds: float | None = None) -> int:
        """Claim and run the most urgent job of the queues, with jobs that its verifier takes together. Returns the
        number of jobs. seconds: longest expected duration of a job that may be claimed."""
        claim = partial(
            offers_claims_and_ended_jobs.claim_next,
            queues=self._queues,
            owner=self.owner,
            worker=self._registered,
            memory_mb=self._memory_mb,
            skip=list(self._refused),
            seconds=seconds,
            after=max(self.campaigns, default=0),  # the campaigns take turns
        )
        return self._claim_and_run(claim)

    def run_reserved(self, job_ids: Sequence[int], name: str) -> int:
        """Run the given jobs in one call, and return the number of jobs run. Jobs that are no longer reserved for the
        array element `name` are left out. Jobs that cannot run here stay reserved, so that the controller counts a
        failed element. job_ids: jobs of one rung."""
        reserved = partial(cluster_reservations.claim_reserved, job_ids=job_ids, name=name, owner=self.owner)
        self._element = name
        try:
            return self._claim_and_run(reserved)
        finally:
            self._element = ""

    @property
    def refusal(self) -> str:
        """Why this worker cannot run the jobs of the first rung that it refused; empty if it refused none."""
        reasons = list(self._refused.values())
        return reasons[0] if reasons else ""

    def stop(self) -> None:
        """End the running jobs and take no more. Another worker resumes them from their checkpoints."""
        self._stop.set()
        self._end()

    def close(self) -> None:
        """End the worker's process, and the renewer if no other slot shares it."""
        if self._worker is not None:
            self._worker.close()
        if self._own_renewer:
            self._renewer.close()

    def _claim_and_run(self, claim: Callable[[Connection], list[Claim]]) -> int:
        def claim_and_read() -> list[ClaimedRow]:
            if self._stop.is_set():
                return []
            with self._ledger.begin() as connection:
                return read_claimed(connection, claim(connection))

        claimed = retry_while_away(claim_and_read, self._stop)
        if not claimed:
            return 0
        claims = [job.claim for job in claimed]
        held = self._renewer.hold(claims, self._end)
        try:
            jobs = self._tasks.jobs(claimed)
            if len(jobs) == 1:
                about = self._about(jobs[0], "started")
                log.info("job %d: %s starts", claims[0].job_id, jobs[0].task.verifier.name, extra={"about": about})
            results = self._verify(jobs, held)
        except CannotError as error:
            self._refuse(claims, str(error))
            return 0
        finally:
            self._renewer.release(held)
        self._write(jobs, results, held)
        self.campaigns = frozenset(job.task.campaign_id for job in jobs)
        return len(jobs)

    def _end(self) -> None:
        """End the running verification."""
        if self._worker is not None:
            self._worker.cancel()

    def _verify(self, jobs: list[ClaimedJob], held: RenewedLeases) -> list[HostResult]:
        request = request_of(jobs, scratch_of(self._ledger.artifacts), cuda=self._cuda(jobs))
        try:
            if self._worker is None:
                self._worker = Worker(self._scratch, preload=[request.verifier])
            return self._worker.run(request, hearing(jobs, held))
        except Exception as error:
            log.exception("the host failed", extra={"about": self._about(jobs[0], "host_failed")})
            return [lost_with_host(job, f"{type(error).__name__}: {error}") for job in jobs]

    def _cuda(self, jobs: list[ClaimedJob]) -> str | None:
        """GPUs of jobs in one process, for CUDA_VISIBLE_DEVICES. On a cluster: the first GPUs given to this process."""
        if self._registered is None:
            n_gpus = jobs[0].task.needs.get(GPU, 0)
            return visible_gpus(n_gpus, held=range(n_gpus))
        held_gpus = list(chain.from_iterable(job.claim.gpus for job in jobs))
        return visible_gpus(self._registered.resources.get(GPU, 0), held=held_gpus)

    def _write(self, jobs: list[ClaimedJob], results: list[HostResult], held: RenewedLeases) -> None:
        """Write results. While the disk is full or the ledger is away, the write is tried again without end, so that no
        computed result is lost."""
        stored = retry_while_away(
            lambda: store_files(self._ledger, results), away=(OSError,), what="the folder of artifacts"
        )
        interrupted = bool(held.gone) or self._stop.is_set()
        job_results = [
            JobResult(job, result, artifacts, interrupted)
            for job, result, artifacts in zip(jobs, results, stored, strict=True)
        ]

        def write() -> dict[int, JobEnding]:
            with self._ledger.begin() as connection:
                return complete(connection, job_results)

        endings = retry_while_away(write)
        for job_result in job_results:
            self._log_ending(job_result, written=job_result.job.claim.job_id in endings)
        drop_checkpoints(scratch_of(self._ledger.artifacts), endings.values())

    def _log_ending(self, job_result: JobResult, written: bool) -> None:
        """Log the outcome of a job. written: whether the ledger took the result, as it does under a valid lease."""
        finding = job_result.result.finding
        about = self._about(job_result.job, "ended" if written else "refused")
        about["outcome"] = str(finding.outcome)
        about["seconds"] = round(job_result.result.wall_seconds, 3)
        reason = f" ({finding.reason})" if finding.reason else ""
        late = "" if written else "; refused, for somebody else had taken over"
        job_id = job_result.job.claim.job_id
        log.info("job %d: %s%s%s", job_id, finding.outcome, reason, late, extra={"about": about})

    def _about(self, job: ClaimedJob, event: str) -> dict[str, object]:
        """Fields of a log record, for programs that read logs."""
        fields = {"event": event, "campaign": job.task.verifier.scope, "job": job.claim.job_id}
        return fields | {"fence": job.claim.fence, "worker": self.owner}

    def _refuse(self, claims: list[Claim], why: str) -> None:
        """Give back jobs that this worker cannot run, record it once, and take no more jobs of that rung."""
        about = {"event": "cannot", "worker": self.owner, "job": claims[0].job_id, "fence": claims[0].fence}
        log.error("%s", why, extra={"about": about})

        def write() -> None:
            with self._ledger.begin() as connection:
                ended = give_back(connection, claims)
                if self._element:  # the jobs stay reserved for the array element
                    queued_ids = [claim.job_id for claim in claims if claim.job_id not in ended]
                    cluster_reservations.reserve_for(connection, dict.fromkeys(queued_ids, self._element))
                campaigns_by_rung = offers_claims_and_ended_jobs.campaigns_by_rung(
                    connection, [claim.job_id for claim in claims]
                )
                for rung_id, campaign_id in campaigns_by_rung.items():
                    self._refused[rung_id] = why
                    payload = {"worker": self.owner, "rung_id": rung_id, "why": why[:2000]}
                    campaigns.log_event(connection, campaign_id, "worker_cannot", payload)

        retry_while_away(write, self._stop)


def check_gpus(gpus: int) -> None:
    """Raises UsageError if CUDA_VISIBLE_DEVICES is set and names fewer GPUs than `gpus`."""
    own_gpus = _own_gpus()
    if gpus and own_gpus is not None and gpus > len(own_gpus):
        raise UsageError(f"{gpus} GPUs, and CUDA_VISIBLE_DEVICES names {len(own_gpus)}")


def visible_gpus(gpus: int, held: Sequence[int]) -> str | None:
    """CUDA_VISIBLE_DEVICES for the process of a job; None leaves the variable as it is, if the worker has no GPU.

    gpus: number of GPUs of the worker. held: GPUs of the job, numbered from 0 among those visible to this process.
    """
    if not gpus:
        return None
    own_gpus = _own_gpus()
    names = [str(i) for i in held] if own_gpus is None else [own_gpus[i] for i in held]
    return ",".join(names)


def _own_gpus() -> list[str] | None:
    """The GPUs that this process may see; None if CUDA_VISIBLE_DEVICES is not set."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]
