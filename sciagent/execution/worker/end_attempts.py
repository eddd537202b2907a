"""Ends attempts: writes evidence, artifacts, attempt, spend and the job's new state in one fenced transaction.

Fenced means that a result is written only if its attempt still holds the lease of the job, by the number of its claim.

The local pool, workers of the ledger, Celery and Slurm all end their attempts here. Verifications without a job do so
too: fast rungs, `sciagent verify` and the checks before a promotion.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import EvidenceKey, Finding
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.states_and_needs import (
    AfterAttempt,
    AttemptState,
    JobState,
    after_loss,
    after_recall,
    after_result,
    cost_of_killed,
)
from sciagent.execution.worker.read_claimed_jobs import ClaimedJob, checkpoints_home
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, leases, offers_claims_and_ended_jobs, reservations_and_bookings
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.leases import Claim, HeldJob, JobEnd, LiveAttempt
from sciagent.store.job_queue.reservations_and_bookings import Bill, CostSeen
from sciagent.store.results import evidence
from sciagent.store.results.evidence import NewEvidence, RecordedEvidence
from sciagent.verification.cost_models import unmeasured
from sciagent.verification.sandbox.host import HostResult
from sciagent.verification.verifier_contract import BaseVerifier

REACHED_LIMIT = (Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY)
"""Outcomes of jobs whose checkpoints are kept for a higher limit."""
StoredArtifacts = tuple[tuple[str, str, int, str], ...]
"""(name, sha256, size in bytes, media type) of the artifacts of one result."""


def store_files(ledger: Ledger, results: Sequence[HostResult]) -> list[StoredArtifacts]:
    """Put every artifact into the store, then remove the spooled files; returns the stored artifacts of each result.

    Call this before the transaction that names the artifacts. After an OSError it may be called again.
    """
    stored = []
    for result in results:
        artifacts = []
        for file in result.files:
            sha256, size = ledger.artifacts.put(file.path)
            artifacts.append((file.name, sha256, size, file.media_type))
        stored.append(tuple(artifacts))
    for result in results:
        for file in result.files:
            file.path.unlink(missing_ok=True)
    return stored


def lost_with_host(job: ClaimedJob, fault: str) -> HostResult:
    """The result of a job whose host failed."""
    finding = Finding(job.candidate.key, Outcome.LOST, reason=Reason.WORKER_DIED, detail=fault)
    return HostResult(finding, cost=Cost(), wall_seconds=0.0)


def drop_checkpoints(scratch: Path, endings: Iterable[JobEnding]) -> None:
    """Remove the checkpoints of jobs that are over, and of crashed jobs, whose checkpoint may be the cause.

    A job that reached a limit keeps them, since it goes on from there once the limit is raised."""
    for ending in endings:
        has_reached_limit = ending.result.outcome in REACHED_LIMIT
        if (ending.after.is_over and not has_reached_limit) or ending.result.outcome is Outcome.CRASHED:
            shutil.rmtree(checkpoints_home(scratch, ending.result.job.key.hash), ignore_errors=True)


@dataclass(frozen=True)
class JobResult:
    """The result of running a claimed job."""

    job: ClaimedJob
    result: HostResult
    artifacts: StoredArtifacts
    interrupted: bool = False
    """Whether the job's process was ended on purpose: the job was cancelled, its lease lost, or its worker stopped."""

    @property
    def outcome(self) -> Outcome:
        return self.result.finding.outcome

    @property
    def cost(self) -> Cost:
        """The measured cost; the wall time on all cores if the process was killed before it was measured."""
        if self.outcome is Outcome.LOST:
            return self.result.cost or cost_of_killed(self.result.wall_seconds, self.job.task.limits.threads)
        # what the host cannot measure, such as money, is as the verifier has counted or declared it
        return self.result.cost + unmeasured(self.job.declared or {}, self.result.finding.spent)


@dataclass(frozen=True)
class JobEnding:
    """A result that was written under its fence, and the new state of its job."""

    result: JobResult
    after: AfterAttempt
    kills: int
    """Number of kills of the job, including this attempt."""
    recorded: RecordedEvidence | None = None
    """The evidence as `evidence.find_reusable` would read it; None if no reusable evidence was recorded."""


def complete(connection: Connection, results: Sequence[JobResult]) -> dict[int, JobEnding]:
    """Write the results, and return {job id: ending} of the results that were written under their fences.

    Of a result whose lease was lost only the cost is booked. A second call after a commit of unknown outcome writes
    nothing again.
    """
    by_id = {result.job.claim.job_id: result for result in results}
    held_jobs = leases.lock_held_jobs(connection, [result.job.claim for result in results])
    held_results = {id_: by_id[id_] for id_ in held_jobs}
    late_results = [result for id_, result in by_id.items() if id_ not in held_jobs]
    after = _states_after(held_jobs, held_results)
    closings = [_closing_of_result(result, after[id_], result.cost) for id_, result in held_results.items()]
    _close(connection, closings)
    costs_before = _book_late(connection, late_results)
    with_evidence = [
        result for id_, result in held_results.items() if after[id_].is_over and result.outcome.rule.is_evidence
    ]
    evidence_rows = _record_evidence(
        connection,
        [_as_direct(result) for result in with_evidence],
        [result.job.claim.attempt_id for result in with_evidence],
    )
    recorded = {result.job.claim.job_id: row for result, row in zip(with_evidence, evidence_rows, strict=True)}
    attempts.mark_late(connection, costs_before)
    ended_attempts = [result.job.claim.attempt_id for result in held_results.values()]
    late_attempts = list(costs_before)
    _mark_ends(connection, [*ended_attempts, *late_attempts], evidence_rows)
    endings = dict[int, JobEnding]()
    for id_, job in held_jobs.items():
        kills = job.kills + after[id_].kills
        endings[id_] = JobEnding(held_results[id_], after[id_], kills, recorded.get(id_))
    return endings


def _states_after(held_jobs: Mapping[int, HeldJob], held_results: Mapping[int, JobResult]) -> dict[int, AfterAttempt]:
    """Returns the state of each job after its result, by its id."""
    after = dict[int, AfterAttempt]()
    for id_, job in held_jobs.items():
        result = held_results[id_]
        finding = result.result.finding
        after[id_] = after_result(
            finding.outcome, finding.reason, kills=job.kills, interrupted=result.interrupted, cancelled=job.cancel
        )
    return after


@dataclass(frozen=True)
class DirectResult:
    """A verification without a job: of a fast rung, of `sciagent verify`, or before a promotion."""

    verifier: BaseVerifier[Any]
    candidate_id: int
    key: EvidenceKey
    result: HostResult
    artifacts: StoredArtifacts
    declared: Cost | None = None
    """Declared cost, for comparison with the actual cost; None if the cost model must not learn from the result."""


def _as_direct(result: JobResult) -> DirectResult:
    """The result without its job."""
    job = result.job
    return DirectResult(job.task.verifier, job.candidate_id, job.key, result.result, result.artifacts, job.declared)


def complete_direct(
    connection: Connection,
    owner: str,
    results: Sequence[DirectResult],
    *,
    campaign_id: int | None,
    rung_id: int | None,
    turn_id: int | None = None,
) -> list[RecordedEvidence | None]:
    """Write one attempt for results of one rung, with bill and evidence. Returns the recorded evidence in order, and
    None for a result that is no evidence.

    An attempt without any evidence has failed, for the reason of its first result. campaign_id, rung_id: None for a
    verification outside a campaign. turn_id: the turn within which the rung ran.
    """
    if not results:
        return []
    cost = Cost()
    wall = 0.0
    for direct in results:
        cost += direct.result.actual
        wall += direct.result.wall_seconds
    attempt_id = attempts.begin(
        connection, owner, campaign_id=campaign_id, rung_id=rung_id, n_candidates=len(results), turn_id=turn_id
    )
    finding = results[0].result.finding
    with_evidence = [direct for direct in results if direct.result.finding.outcome.rule.is_evidence]
    if with_evidence:
        # several results share the attempt, which then has no outcome of a single candidate
        outcome = Outcome.OK if len(results) > 1 else finding.outcome
        end = AttemptEnd(attempt_id, AttemptState.DONE, cost, wall, outcome)
    else:
        end = AttemptEnd(attempt_id, AttemptState.FAILED, cost, wall, finding.outcome, finding.reason, finding.detail)
    attempts.end_many(connection, [end])
    if campaign_id is not None:
        reservations_and_bookings.book_many(connection, [Bill(campaign_id, rung_id, attempt_id, cost)])
    written = _record_evidence(connection, with_evidence, [attempt_id] * len(with_evidence))
    _mark_ends(connection, [attempt_id], written)
    remaining = iter(written)  # in the order of `with_evidence`
    recorded: list[RecordedEvidence | None] = []
    for direct in results:
        is_evidence = direct.result.finding.outcome.rule.is_evidence
        recorded.append(next(remaining) if is_evidence else None)
    return recorded


def reap_expired(connection: Connection, limit: int = 100) -> list[LiveAttempt]:
    """Take back jobs whose lease has expired: their worker is dead, cut off or stalled. Any process may call it."""
    return _take_back_lost(
        connection, leases.expired(connection, limit), "its worker was not heard of for as long as a lease"
    )


def reap_driver(connection: Connection, campaign_id: int, owner: str) -> list[LiveAttempt]:
    """Take back jobs that dead drivers of the campaign ran themselves. owner: the holder of the driver lease."""
    return _take_back_lost(connection, leases.orphans(connection, campaign_id, owner), "its driver died")


def _take_back_lost(connection: Connection, gone: Sequence[LiveAttempt], detail: str) -> list[LiveAttempt]:
    """End attempts whose worker or driver is dead, and book their cost up to the last heartbeat.

    The jobs of one call share its time equally. Returns the attempts with the new states of their jobs.
    """
    closings = []
    ended = []
    for live in gone:
        after = after_loss(losses=live.losses, cancelled=live.cancel)
        closings.append(_closing_of_lost(live, after, live.heartbeat_at, Reason.LEASE_EXPIRED, detail))
        kills = live.kills + after.kills
        losses = live.losses + after.losses
        ended.append(live._replace(state=after.job, kills=kills, losses=losses))
    _close(connection, closings)
    attempts.mark_end(connection, [live.claim.attempt_id for live in gone])
    return ended


def call_back(connection: Connection, campaign_id: int) -> None:
    """Take all jobs of the campaign from workers, and book the attempts up to now.

    A running job counts no loss and may run again later. Its worker ends it at the next check of its lease.
    """
    offers_claims_and_ended_jobs.withdraw(connection, campaign_id)  # the jobs that wait
    now = db_now(connection)
    detail = "called back by who stopped the campaign"
    closings = []
    for live in leases.held_by_workers(connection, campaign_id):
        # a worker whose lease has expired may have died at its last heartbeat
        until = now if live.lease_until > now else live.heartbeat_at
        after = after_recall(cancelled=live.cancel)
        closings.append(_closing_of_lost(live, after, until, Reason.WORKER_DIED, detail))
    _close(connection, closings)
    offers_claims_and_ended_jobs.withdraw(connection, campaign_id)  # the jobs that ran until now
    attempts.mark_end(connection, [closing.claim.attempt_id for closing in closings])


def give_back(connection: Connection, claims: Sequence[Claim]) -> set[int]:
    """Return jobs to the queue that were claimed but not begun; no loss is counted.

    Returns the ids of jobs that are cancelled instead, because a person asked for it.
    """
    held_jobs = leases.lock_held_jobs(connection, claims)
    after = {id_: after_recall(cancelled=job.cancel) for id_, job in held_jobs.items()}
    _close(connection, [_Closing(claim, after[claim.job_id]) for claim in claims if claim.job_id in held_jobs])
    return {id_ for id_ in held_jobs if after[id_].is_over}


def give_up(connection: Connection, job_id: int, outcome: Outcome, reason: Reason, detail: str) -> None:
    """End a job that the cluster cannot run, with a failed attempt of no cost.

    The attempt gets no watermark, since the caller goes on to lock other jobs.
    """
    claim = leases.claim(connection, job_id, owner="cluster")
    if claim is not None:
        # a job that was lost too often may be the cause, and a person has to look at it
        state = JobState.QUARANTINED if outcome is Outcome.LOST else JobState.FAILED
        after = AfterAttempt(state, AttemptState.FAILED)
        _close(connection, [_Closing(claim, after, outcome=outcome, reason=reason, detail=detail)])


class _Closing(NamedTuple):
    """The end of one attempt, and the new state of its job."""

    claim: Claim
    after: AfterAttempt
    campaign_id: int | None = None
    """None if no cost is booked."""
    rung_id: int | None = None
    cost: Cost = Cost()
    wall_seconds: float = 0.0
    outcome: Outcome | None = None
    reason: Reason | None = None
    detail: str = ""

    @property
    def end(self) -> AttemptEnd:
        return AttemptEnd(
            self.claim.attempt_id,
            self.after.attempt,
            self.cost,
            self.wall_seconds,
            self.outcome,
            self.reason,
            self.detail,
        )


def _closing_of_result(result: JobResult, after: AfterAttempt, cost: Cost) -> _Closing:
    task = result.job.task
    finding = result.result.finding
    return _Closing(
        result.job.claim,
        after,
        campaign_id=task.campaign_id,
        rung_id=task.rung_id,
        cost=cost,
        wall_seconds=result.result.wall_seconds,
        outcome=finding.outcome,
        reason=finding.reason,
        detail=finding.detail,
    )


def _closing_of_lost(live: LiveAttempt, after: AfterAttempt, until: datetime, reason: Reason, detail: str) -> _Closing:
    """The end of a lost attempt, whose cost was not measured. until: time up to which the attempt is booked.

    The attempt is billed an equal share of the time of its call.
    """
    call_seconds = max(0.0, (until - live.started_at).total_seconds())
    wall_seconds = call_seconds / live.together
    return _Closing(
        live.claim,
        after,
        campaign_id=live.campaign_id,
        rung_id=live.rung_id,
        cost=cost_of_killed(wall_seconds, live.cores),
        wall_seconds=wall_seconds,
        outcome=Outcome.LOST,
        reason=reason,
        detail=detail,
    )


def _close(connection: Connection, closings: Sequence[_Closing]) -> None:
    """End attempts and their jobs, whose leases the caller holds, and book their costs."""
    ends = []
    for closing in closings:
        after = closing.after
        # a job that is queued again after a loss has no outcome yet
        runs_again = closing.outcome is Outcome.LOST and not after.is_over
        outcome = None if runs_again else closing.outcome
        ends.append(JobEnd(closing.claim, after.job, outcome, after.kills, after.losses))
    leases.end_held(connection, ends)
    attempts.end_many(connection, [closing.end for closing in closings])
    bills = [
        Bill(closing.campaign_id, closing.rung_id, closing.claim.attempt_id, closing.cost)
        for closing in closings
        if closing.campaign_id is not None
    ]
    reservations_and_bookings.book_many(connection, bills)


def _record_evidence(
    connection: Connection, results: Sequence[DirectResult], attempt_ids: Sequence[int]
) -> list[RecordedEvidence | None]:
    """Write evidence, and its actual and declared cost. Returns the evidence that `find_reusable` reads, in order.

    A second result under one key, from a slower campaign, is dropped, since the first one was computed with the same
    settings. The answer is None for a dropped result, and for a replicate above 0.
    """
    new = []
    costs_seen = []
    for direct, attempt_id in zip(results, attempt_ids, strict=True):
        result = direct.result
        verifier = direct.verifier
        new.append(
            NewEvidence(
                result.finding,
                direct.key,
                direct.candidate_id,
                attempt_id=attempt_id,
                versions=result.versions,
                artifacts=direct.artifacts,
            )
        )
        if direct.declared is not None and result.finding.outcome.rule.teaches_cost:
            cost_seen = CostSeen(
                verifier.name,
                verifier.version,
                verifier.settings_hash,
                direct.candidate_id,
                attempt_id,
                direct.declared,
                result.actual,
            )
            costs_seen.append(cost_seen)
    recorded = evidence.record_once(connection, new)
    reservations_and_bookings.observe_costs(connection, costs_seen)
    answers: list[RecordedEvidence | None] = []
    for entry, row in zip(new, recorded, strict=True):
        if isinstance(row, RecordedEvidence) and entry.key.replicate == 0:
            answers.append(row)
        else:
            answers.append(None)
    return answers


def _mark_ends(connection: Connection, attempt_ids: Sequence[int], recorded: Sequence[RecordedEvidence | None]) -> None:
    """Write the watermark at which attempts ended.

    recorded: evidence of the same transaction; if there is any, the attempts get the watermark of the last piece.
    """
    watermarks = [row.watermark for row in recorded if row is not None]
    attempts.mark_end(connection, attempt_ids, max(watermarks, default=None))


def _book_late(connection: Connection, late: Sequence[JobResult]) -> dict[int, Mapping[str, float]]:
    """Book the cost of late results, beyond what was booked when their lease was lost.

    Returns {attempt id: cost booked before}. A result that was already written is skipped.
    """
    late_ids = [result.job.claim.attempt_id for result in late]
    booked_by_id = attempts.booked(connection, late_ids) if late_ids else {}
    bills = []
    ends = []
    costs_before = dict[int, Mapping[str, float]]()
    for result in late:
        attempt_id = result.job.claim.attempt_id
        state, booked = booked_by_id[attempt_id]
        if state not in (AttemptState.LOST, AttemptState.RUNNING):
            continue
        costs_before[attempt_id] = booked
        cost = result.cost
        names = {*cost, *booked}
        whole_cost = Cost({name: max(cost.get(name, 0.0), booked.get(name, 0.0)) for name in names})
        # only the attempt's state is written; the job's state belongs to a later attempt
        after = AfterAttempt(JobState.QUEUED, AttemptState.STALE)
        ends.append(_closing_of_result(result, after, whole_cost).end)
        unbooked_cost = Cost({name: amount - booked.get(name, 0.0) for name, amount in whole_cost.items()})
        bills.append(Bill(result.job.task.campaign_id, result.job.task.rung_id, attempt_id, unbooked_cost))
    attempts.end_many(connection, ends)
    reservations_and_bookings.book_many(connection, bills)
    return costs_before
