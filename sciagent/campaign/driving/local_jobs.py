"""The crew of the driver's own worker pool: claims, submits and completes jobs; takes back jobs of dead drivers.

A crew is the part of a driver that has jobs run. A call is one run of a verifier, with one job or several jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from sqlalchemy.engine import Connection

from sciagent.campaign.core.record_results_and_place import Settling, settle, settle_again, settling_of
from sciagent.campaign.driving.driver_state_and_heartbeat import Crew, DriverSession
from sciagent.campaign.driving.job_slots import LocalSlots, Pace, PlannedJob
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import AttemptState, JobState
from sciagent.execution.worker.end_attempts import (
    JobEnding,
    JobResult,
    complete,
    drop_checkpoints,
    give_back,
    reap_driver,
    store_files,
)
from sciagent.execution.worker.local_pool import LocalPool
from sciagent.execution.worker.read_claimed_jobs import ClaimedJob, Task, request_of
from sciagent.store.job_queue import job_lists, leases
from sciagent.store.job_queue.leases import Claim
from sciagent.verification.sandbox.host import HostResult


class LocalJobs(Crew):
    """The crew of a driver that runs its own jobs.

    workers: number of parallel jobs; None: as in the spec. bell: event that is set when a job has finished.
    """

    def __init__(self, session: DriverSession, pace: Pace, workers: int | None, bell: threading.Event) -> None:
        super().__init__(session, pace)
        self._workers = workers
        spec = session.built.spec
        paid = [rung.verifier.name for rung in session.built.computed]
        n_workers = workers or spec.workers
        self.pool = LocalPool(session.built.ledger, n_workers, session.built.scratch(), preload=paid, bell=bell)
        self.by_id: dict[int, PlannedJob] = {}
        """Jobs that the driver holds a lease on, by job id."""
        self._calls: dict[int, list[ClaimedJob]] = {}  # jobs to be launched, by number of the call
        self._take_up_rungs()

    @property
    def running(self) -> int:
        return self.pool.n_calls

    @property
    def has_room(self) -> bool:  # type: ignore[override]
        return self.slots().wanted > 0

    def slots(self, connection: Connection | None = None) -> LocalSlots:
        return LocalSlots(self.pace, self.pool.free, self.pool.waiting_room, self._workers_by_position)

    def start(self, connection: Connection, planned: Sequence[PlannedJob]) -> list[int]:
        new = [job.row(self.session.built.row.id) for job in planned]
        claims = leases.start_many(connection, new, self.session.owner, [job.call for job in planned])
        for claim, job in zip(claims, planned, strict=True):
            self._add(claim, job)
        return [claim.job_id for claim in claims]

    def resume(self, connection: Connection, planned: Mapping[int, PlannedJob]) -> None:
        claims = leases.claim_many(connection, list(planned), self.session.owner)
        for job_id, job in planned.items():
            if job_id in claims:
                self._add(claims[job_id], job)

    def _add(self, claim: Claim, job: PlannedJob) -> None:
        task = self._tasks[job.position]
        claimed = ClaimedJob(claim, task, job.candidate_id, job.candidate, job.key, job.declared)
        self._calls.setdefault(job.call, []).append(claimed)
        self.by_id[claim.job_id] = job

    def launch(self) -> int:
        calls = self._calls
        self._calls = {}
        for jobs in calls.values():
            self.pool.submit(tuple(jobs), request_of(jobs, self.session.built.scratch()))
        return sum(len(jobs) for jobs in calls.values())

    def settle(self) -> set[Position]:
        aborting = self.session.aborting.is_set()
        pairs: list[tuple[ClaimedJob, HostResult]] = []
        interrupted: list[bool] = []
        while True:
            call = self.pool.next_completed()
            if call is None:
                break
            pairs += zip(call.jobs, call.results, strict=True)
            interrupted += [call.interrupted or aborting] * len(call.jobs)
        if not pairs:
            return set()
        files = store_files(self.session.built.ledger, [result for _, result in pairs])
        results = [
            JobResult(job, result, artifacts, was_interrupted)
            for (job, result), artifacts, was_interrupted in zip(pairs, files, interrupted, strict=True)
        ]
        self._write({result.job.claim.job_id: result for result in results})
        settled = [self.by_id.pop(job.claim.job_id) for job, _ in pairs]
        self.session.purchasing.pool.mark_changed(job.candidate_id for job in settled)
        return {job.position for job in settled}

    def _write(self, results: Mapping[int, JobResult]) -> None:
        """Completes jobs and places their candidates in one transaction. results: by job id."""
        built = self.session.built
        with self.session.begin() as connection:
            endings = complete(connection, list(results.values()))
            over = {id_: ending for id_, ending in endings.items() if ending.after.is_over}
            settlings = [_settling(self.by_id[id_].position, ending) for id_, ending in over.items()]
            settle(connection, built, settlings)
        for id_, result in results.items():
            self._account(self.by_id[id_], result, is_over=id_ in over)
        drop_checkpoints(built.scratch(), endings.values())
        cancelled = (AttemptState.CANCELLED, AttemptState.CANCELLED_LATE)
        if any(ending.after.attempt in cancelled for ending in over.values()):
            with built.ledger.read() as connection:
                self.session.recount(connection)  # cancelled jobs free their slots and reservations

    def _account(self, job: PlannedJob, result: JobResult, is_over: bool) -> None:
        """Updates budget, cost model and pace after an attempt."""
        budget = self.session.budget
        seconds = result.result.own_seconds
        if seconds is None:
            seconds = result.result.wall_seconds
        if result.outcome is not Outcome.LOST:  # a lost attempt does not tell how long the job takes
            self.pace.observe(job.position, seconds)
        budget.spend(result.cost)
        if is_over:
            budget.release(job.reservation)
            is_whole = result.job.claim.fence <= 1  # a later attempt may have gone on from a checkpoint
            if result.outcome.rule.teaches_cost and job.declared is not None and is_whole:
                job.rung.cost_model.observe(job.declared, result.result.actual, seconds)

    def recall(self) -> None:
        returned = list(chain.from_iterable(self.pool.recall()))
        if not returned:
            return
        with self.session.begin() as connection:
            cancelled_ids = give_back(connection, [job.claim for job in returned])
            if cancelled_ids:
                settle_cancelled(connection, self.session, cancelled_ids)
                self.session.recount(connection)
        for job in returned:
            del self.by_id[job.claim.job_id]
        self.session.purchasing.pool.mark_changed(job.candidate_id for job in returned)

    def abort(self) -> None:
        self.pool.kill()

    def amend(self, connection: Connection) -> None:
        self._take_up_rungs()
        self.pool.slots = self._workers or self.session.built.spec.workers

    def _take_up_rungs(self) -> None:
        """Makes the tasks of the rungs, and the number of workers that a job of each rung takes, by position."""
        built = self.session.built
        self._workers_by_position = {rung.rules.position: rung.limits.threads for rung in built.computed}
        self._tasks = {}
        for rung in built.computed:
            settings = rung.verifier.request_settings
            task = Task(built.row.id, rung.id, rung.verifier, settings, rung.limits, rung.holds)
            self._tasks[rung.rules.position] = task

    def close(self) -> None:
        self.pool.close()


def _settling(position: Position, ending: JobEnding) -> Settling:
    job = ending.result.job
    finding = ending.result.result.finding
    return settling_of(
        job.candidate_id, position, ending.after.job, finding, ending.kills, losses=0, recorded=ending.recorded
    )


def settle_cancelled(connection: Connection, session: DriverSession, job_ids: Iterable[int]) -> None:
    """Settles the candidates of cancelled jobs again."""
    for job in job_lists.job_standings(connection, list(job_ids)):
        settle_again(connection, session.built, job.candidate_id)


def reap(session: DriverSession) -> int:
    """Takes back the jobs of dead drivers and places candidates whose jobs are over; returns the number of jobs taken
    back. Only the holder of the driver lease may call it."""
    with session.begin() as connection:
        reaped = reap_driver(connection, session.built.row.id, session.owner)
        cancelled_ids = [job.claim.job_id for job in reaped if job.state is JobState.CANCELLED]
        settle_cancelled(connection, session, cancelled_ids)
        positions = {rung.id: rung.rules.position for rung in session.built.all_rungs}
        lost = [job for job in reaped if job.state is JobState.QUARANTINED]
        # one finding for all lost jobs; it is not recorded, so it needs no candidate's key
        finding = Finding("", Outcome.LOST, reason=Reason.LEASE_EXPIRED, detail="its driver died")
        settlings = [
            settling_of(
                job.candidate_id, positions[job.rung_id], job.state, finding, kills=job.kills, losses=job.losses
            )
            for job in lost
        ]
        settle(connection, session.built, settlings)
    return len(reaped)
