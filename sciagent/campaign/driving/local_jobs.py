"""Jobs that the driver's own pool runs: claimed, submitted, completed, and taken back from drivers that died."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.campaign.core.record import Settling, settle, settle_again
from sciagent.campaign.driving.crew import Crew, PlannedJob, settling_of
from sciagent.campaign.driving.pace import LocalPlaces, Pace
from sciagent.campaign.driving.session import DriverSession
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import Finding
from sciagent.domain.jobs.states import AttemptState, JobState
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.execution.worker.checkpoints import home_of, left_in
from sciagent.execution.worker.claimed_jobs import ClaimedJob, Task, request_of
from sciagent.execution.worker.completing import JobEnding, JobResult, complete, give_back, reap_driver, store_files
from sciagent.execution.worker.local_pool import LocalPool
from sciagent.store.job_queue import job_lists, jobs, leases
from sciagent.store.job_queue.leases import Claim
from sciagent.verification.sandbox.host import HostResult
from sciagent.verification.sandbox.scratch import remove_folder

CANCEL_SECONDS = 0.2  # between looks for jobs that people have cancelled


@dataclass(frozen=True)
class LocalJob:
    """A job under a lease of the driver."""

    job: ClaimedJob
    planned: PlannedJob

    @property
    def id(self) -> int:
        return self.job.claim.job_id


class LocalJobs(Crew):
    """The crew of a driver that runs its jobs itself.

    workers: jobs at once; None: as many as the campaign says. bell: is set when a job has finished.
    """

    def __init__(self, session: DriverSession, pace: Pace, workers: int | None, bell: threading.Event) -> None:
        super().__init__(session, pace)
        self._workers, spec = workers, session.built.spec
        paid = [rung.verifier.name for rung in session.built.paid]
        self.pool: LocalPool[tuple[LocalJob, ...]] = LocalPool(
            workers or spec.workers, session.built.scratch(), preload=paid, bell=bell
        )
        self.by_id: dict[int, LocalJob] = {}
        """Jobs in the pool."""
        self._calls: dict[int, list[LocalJob]] = {}  # to be launched
        self._cancelled: set[int] = set()  # ids of running jobs that people want to be ended
        self._killed: set[int] = set()  # ids of jobs that were killed, with those that shared their process
        self._looked_at = 0.0
        self._take_up_rungs()

    @property
    def running(self) -> int:
        return self.pool.running

    @property
    def claims(self) -> Sequence[Claim]:
        return [local.job.claim for local in list(self.by_id.values())]

    @property
    def has_room(self) -> bool:  # type: ignore[override]
        return self._places().wanted > 0

    def places(self, connection: Connection) -> LocalPlaces:
        return self._places()

    def _places(self) -> LocalPlaces:
        return LocalPlaces(self.pace, self.pool.free, self.pool.waiting_room, self._wide)

    def start(self, connection: Connection, planned: Sequence[tuple[PlannedJob, float]]) -> list[int]:
        new = [job.row(self.session.built.row.id, priority) for job, priority in planned]
        claims = leases.start_many(connection, new, self.session.owner)
        self._add(claims, [job for job, _ in planned])
        return [claim.job_id for claim in claims]

    def resume(self, connection: Connection, planned: Mapping[int, PlannedJob]) -> None:
        claims = leases.claim_many(connection, list(planned), self.session.owner)
        mine = [job_id for job_id in planned if job_id in claims]
        self._add([claims[job_id] for job_id in mine], [planned[job_id] for job_id in mine])

    def _add(self, claims: Sequence[Claim], planned: Sequence[PlannedJob]) -> None:
        for claim, job in zip(claims, planned, strict=True):
            claimed = ClaimedJob(
                claim, self._tasks[job.position], job.candidate_id, job.candidate, job.key, job.declared
            )
            self._calls.setdefault(job.call, []).append(LocalJob(claimed, job))

    def launch(self) -> int:
        calls, self._calls = self._calls, {}
        for group in calls.values():
            self.by_id.update({local.id: local for local in group})
            request = request_of([local.job for local in group], self.session.built.scratch())
            self.pool.submit(tuple(group), request)
        return sum(map(len, calls.values()))

    def settle(self) -> set[Position]:
        self._end_cancelled()
        pairs: list[tuple[LocalJob, HostResult]] = []
        while (done := self.pool.next_completed()) is not None:
            pairs += zip(
                done.token, done.results or [_pool_failed(local, done.fault) for local in done.token], strict=True
            )
        if not pairs:
            return set()
        ids = {local.id for local, _ in pairs}
        self._write(pairs, ids if self.session.aborting.is_set() else self._killed)
        self._cancelled -= ids
        self._killed -= ids
        for id_ in ids:
            del self.by_id[id_]
        self.session.purchasing.touch(local.planned.candidate_id for local, _ in pairs)
        return {local.planned.position for local, _ in pairs}

    def _write(self, pairs: Sequence[tuple[LocalJob, HostResult]], killed: set[int]) -> None:
        """Complete jobs and place candidates in one transaction. killed: ids of jobs that were killed on purpose."""
        built = self.session.built
        files = store_files(built.ledger, [result for _, result in pairs])
        results = [
            JobResult(local.job, result, artifacts, local.id in killed)
            for (local, result), artifacts in zip(pairs, files, strict=True)
        ]
        with self.session.begin() as connection:
            endings = complete(connection, results).endings
            over = [
                (local, ending)
                for local, _ in pairs
                if (ending := endings.get(local.id)) is not None and ending.after.is_over
            ]
            settle(connection, built, [_settling(local, ending) for local, ending in over])
        left = left_in(built.scratch())  # few jobs leave anything
        for (local, _), result in zip(pairs, results, strict=True):
            ending = endings.get(local.id)
            self._account(local, result, ending)
            key = local.job.key.hash
            stays = ending is None or not (ending.after.is_over or result.outcome is Outcome.CRASHED)
            if key in left and not stays:
                remove_folder(home_of(built.scratch(), key))  # it may be why it crashed
        cancelled = (AttemptState.CANCELLED, AttemptState.CANCELLED_LATE)
        if any(ending.after.attempt in cancelled for _, ending in over):
            with built.ledger.read() as connection:
                self.session.recount(connection)  # their places and reservations are free again

    def _account(self, local: LocalJob, result: JobResult, ending: JobEnding | None) -> None:
        """Keep budget, cost model and pace up to date. ending: None if another process had taken the job over."""
        budget, job = self.session.budget, local.planned
        seconds = result.result.wall_seconds if result.result.own_seconds is None else result.result.own_seconds
        if result.outcome is not Outcome.LOST:
            self.pace.observe(job.position, seconds)
        budget.spend(result.cost)
        if ending is not None and ending.after.is_over:
            budget.release(job.reservation)
            if result.outcome.rule.is_evidence and job.declared is not None:
                job.rung.cost_model.observe(job.declared, result.actual, seconds)

    def _end_cancelled(self) -> None:
        """Kill the running jobs that people have cancelled, and those that share their process, which are queued again.
        This is repeated until they have come back, since a worker may be just about to begin them."""
        if self.by_id and time.monotonic() - self._looked_at > CANCEL_SECONDS:
            with self.session.built.ledger.read() as connection:
                self._cancelled |= jobs.to_be_cancelled(connection, list(self.by_id))
            self._looked_at = time.monotonic()
        if not self._cancelled:
            return
        waited, killed = self.pool.end(lambda group: any(local.id in self._cancelled for local in group))
        self._killed |= {local.id for group in killed for local in group}
        self._give_back(waited)

    def recall(self) -> None:
        self._give_back(self.pool.recall())

    def _give_back(self, groups: Sequence[tuple[LocalJob, ...]]) -> None:
        """Return jobs that the pool had not begun: they are queued again, or cancelled if people want that."""
        if not (returned := [local for group in groups for local in group]):
            return
        with self.session.begin() as connection:
            if cancelled := give_back(connection, [local.job.claim for local in returned]):
                settle_cancelled(connection, self.session, cancelled)
                self.session.recount(connection)
        for local in returned:
            del self.by_id[local.id]
        self._cancelled -= {local.id for local in returned}
        self.session.purchasing.touch(local.planned.candidate_id for local in returned)

    def abort(self) -> None:
        self.pool.cancel()

    def amend(self, connection: Connection) -> None:
        self._take_up_rungs()
        self.pool.resize(self._workers or self.session.built.spec.workers)

    def _take_up_rungs(self) -> None:
        built = self.session.built
        self._wide = {rung.rules.position: rung.limits.threads for rung in built.paid}
        self._tasks = {
            rung.rules.position: Task(
                built.row.id, rung.id, rung.verifier, rung.verifier.request_settings, rung.limits, rung.holds
            )
            for rung in built.paid
        }

    def close(self) -> None:
        self.pool.close()


def _settling(local: LocalJob, ending: JobEnding) -> Settling:
    job, finding = local.planned, ending.result.result.finding
    return settling_of(job.candidate_id, job.position, ending.after.job, finding, ending.kills, 0, ending.recorded)


def _pool_failed(local: LocalJob, fault: str) -> HostResult:
    detail = fault or "the worker died"
    return HostResult(
        Finding(local.job.candidate.key, Outcome.LOST, reason=Reason.WORKER_DIED, detail=detail), Cost(), 0.0
    )


def settle_cancelled(connection: Connection, session: DriverSession, job_ids: Iterable[int]) -> None:
    """Place candidates whose jobs were cancelled before a worker had begun them."""
    for job in job_lists.standing(connection, list(job_ids)):
        settle_again(connection, session.built, job.candidate_id)


def reap(session: DriverSession) -> int:
    """Take back what dead drivers of the campaign left, and place the candidates whose jobs are over by that. Only the
    holder of the driver lease may call it. Returns how many jobs were taken back."""
    with session.begin() as connection:
        reaped = reap_driver(connection, session.built.row.id, session.owner)
        settle_cancelled(connection, session, [job.job_id for job in reaped if job.state is JobState.CANCELLED])
        positions = {rung.id: rung.rules.position for rung in session.built.rungs}
        lost = [job for job in reaped if job.state is JobState.QUARANTINED]
        finding = Finding("", Outcome.LOST, reason=Reason.LEASE_EXPIRED, detail="its driver died")
        settlings = [
            settling_of(job.candidate_id, positions[job.rung_id], job.state, finding, job.kills, job.losses)
            for job in lost
        ]
        settle(connection, session.built, settlings)
    return len(reaped)
