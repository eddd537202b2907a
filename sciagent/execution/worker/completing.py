"""Ends attempts: writes evidence, artifacts, attempt, spend and the job's new state in one fenced transaction.

The local pool, workers of the ledger, Celery and Slurm all end their attempts here. Verifications without a job do so
too: fast rungs, `sciagent verify` and the checks before a promotion.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.domain.cost import Cost
from sciagent.domain.evidence import EvidenceKey, Finding
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.states import (
    AfterAttempt,
    AttemptState,
    JobState,
    after_loss,
    after_recall,
    after_result,
    cost_of_killed,
)
from sciagent.execution.worker.claimed_jobs import ClaimedJob, home_of
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, leases, offers, spend
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.leases import Claim, JobEnd, LiveAttempt
from sciagent.store.job_queue.spend import Bill, CostSeen
from sciagent.store.results import evidence
from sciagent.store.results.evidence import NewEvidence, RecordedEvidence
from sciagent.verification.contract import BaseVerifier
from sciagent.verification.cost import unmeasured
from sciagent.verification.sandbox.host import HostResult

Stored = tuple[tuple[str, str, int, str], ...]  # artifacts: (name, sha256, size, media type)


def store_files(ledger: Ledger, results: Sequence[HostResult]) -> list[Stored]:
    """Put every artifact into the store, then remove the spooled files. Call it before the transaction that names them.
    Raises OSError; it may then be called again."""
    stored = []
    for result in results:
        put = [(file, *ledger.artifacts.put(file.path)) for file in result.files]
        stored.append(tuple((file.name, sha256, size, file.media_type) for file, sha256, size in put))
    for result in results:
        for file in result.files:
            file.path.unlink(missing_ok=True)
    return stored


def lost_with_host(job: ClaimedJob, fault: str) -> HostResult:
    """The result of a job whose host failed."""
    finding = Finding(job.candidate.key, Outcome.LOST, reason=Reason.WORKER_DIED, detail=fault)
    return HostResult(finding, Cost(), 0.0)


def drop_checkpoints(scratch: Path, endings: Iterable[JobEnding]) -> None:
    """Remove the checkpoints of ended jobs, and of crashed ones, since a checkpoint may be the cause."""
    for ending in endings:
        if ending.after.is_over or ending.result.outcome is Outcome.CRASHED:
            shutil.rmtree(home_of(scratch, ending.result.job.key.hash), ignore_errors=True)


@dataclass(frozen=True)
class JobResult:
    """The result of running a claimed job."""

    job: ClaimedJob
    result: HostResult
    artifacts: Stored
    interrupted: bool = False
    """Whether its process was ended on purpose: the job was cancelled, its lease lost, or its worker stopped."""

    @property
    def outcome(self) -> Outcome:
        return self.result.finding.outcome

    @property
    def cost(self) -> Cost:
        """Measured cost. If the process was killed and not measured: wall time on all cores."""
        if self.outcome is Outcome.LOST:
            return self.result.cost or cost_of_killed(self.result.wall_seconds, self.job.task.limits.threads)
        return self.result.cost + unmeasured(self.job.declared or {}, self.result.finding.spent)


@dataclass(frozen=True)
class JobEnding:
    """A result that was written under its fence, and the new state of its job."""

    result: JobResult
    after: AfterAttempt
    kills: int
    """Number of kills of the job, including this attempt."""
    recorded: RecordedEvidence | None = None
    """The evidence as `find_reusable` reads it; None if no reusable evidence was recorded."""


def complete(connection: Connection, results: Sequence[JobResult]) -> dict[int, JobEnding]:
    """Write the results, and return {job id: ending} of those that were written under their fences. Other results are
    refused, since their lease was lost. A second call after a commit of unknown outcome writes nothing again."""
    by_id = {result.job.claim.job_id: result for result in results}
    held = leases.hold(connection, [result.job.claim for result in results])
    after = dict[int, AfterAttempt]()
    for id_, job in held.items():
        finding = by_id[id_].result.finding
        interrupted = by_id[id_].interrupted
        after[id_] = after_result(
            finding.outcome, finding.reason, kills=job.kills, interrupted=interrupted, cancelled=job.cancel
        )
    _close(connection, [_closing(by_id[id_], after[id_], by_id[id_].cost) for id_ in held])
    good = [by_id[id_] for id_ in held if after[id_].is_over and by_id[id_].outcome.rule.is_evidence]
    direct = [
        DirectResult(r.job.task.verifier, r.job.candidate_id, r.job.key, r.result, r.artifacts, r.job.declared)
        for r in good
    ]
    evidence_rows = _record(connection, direct, [result.job.claim.attempt_id for result in good])
    recorded = {result.job.claim.job_id: row for result, row in zip(good, evidence_rows, strict=True)}
    raised = _refuse(connection, [result for id_, result in by_id.items() if id_ not in held])
    attempts.mark_late(connection, raised)
    _mark_ends(connection, [*(by_id[id_].job.claim.attempt_id for id_ in held), *raised], evidence_rows)
    return {
        id_: JobEnding(by_id[id_], after[id_], job.kills + after[id_].kills, recorded.get(id_))
        for id_, job in held.items()
    }


@dataclass(frozen=True)
class DirectResult:
    """A verification without a job: of a fast rung, of `sciagent verify`, or before a promotion."""

    verifier: BaseVerifier[Any]
    candidate_id: int
    key: EvidenceKey
    result: HostResult
    artifacts: Stored
    declared: Cost | None = None
    """Declared cost, for comparison with the actual one; None if the cost model must not learn from it."""


def complete_direct(
    connection: Connection,
    owner: str,
    results: Sequence[DirectResult],
    *,
    campaign_id: int | None,
    rung_id: int | None,
    turn_id: int | None = None,
) -> list[RecordedEvidence | None]:
    """Write one attempt for results of one rung, with bill and evidence. Returns the recorded evidence in order.

    An attempt without any evidence has failed, for the reason of its first result. turn_id: the turn within which the
    rung ran."""
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
    good = [direct.result.finding.outcome.rule.is_evidence for direct in results]
    if any(good):
        end = AttemptEnd(attempt_id, AttemptState.DONE, cost, wall, Outcome.OK if len(results) > 1 else finding.outcome)
    else:
        end = AttemptEnd(attempt_id, AttemptState.FAILED, cost, wall, finding.outcome, finding.reason, finding.detail)
    attempts.end_many(connection, [end])
    if campaign_id is not None:
        spend.book_many(connection, [Bill(campaign_id, rung_id, attempt_id, cost)])
    written = _record(connection, list(compress(results, good)), [attempt_id] * sum(good))
    _mark_ends(connection, [attempt_id], written)
    recorded = iter(written)
    return [next(recorded) if is_evidence else None for is_evidence in good]


def reap_expired(connection: Connection, limit: int = 100) -> list[LiveAttempt]:
    """Take back jobs whose lease has expired: their worker is dead, cut off or stalled. Any process may call it."""
    return _lose(connection, leases.expired(connection, limit), "its worker was not heard of for as long as a lease")


def reap_driver(connection: Connection, campaign_id: int, owner: str) -> list[LiveAttempt]:
    """Take back jobs that dead drivers of the campaign ran themselves. owner: the holder of the driver lease."""
    return _lose(connection, leases.orphans(connection, campaign_id, owner), "its driver died")


def _lose(connection: Connection, gone: Sequence[LiveAttempt], detail: str) -> list[LiveAttempt]:
    """End attempts whose worker or driver is dead, and book their cost up to the last heartbeat. The jobs of one call
    share its time equally. Returns the attempts with the new states of their jobs."""
    after = [after_loss(losses=live.losses, cancelled=live.cancel) for live in gone]
    lost = Outcome.LOST, Reason.LEASE_EXPIRED, detail
    _close(
        connection, [_taken_back(live, end, live.heartbeat_at, *lost) for live, end in zip(gone, after, strict=True)]
    )
    attempts.mark_end(connection, [live.claim.attempt_id for live in gone])
    return [
        live._replace(state=end.job, kills=live.kills + end.kills, losses=live.losses + end.losses)
        for live, end in zip(gone, after, strict=True)
    ]


def call_back(connection: Connection, campaign_id: int) -> None:
    """Take all jobs of the campaign from workers. A running job counts no loss and may run again later; its worker ends
    it at the next check of its lease. The attempts are booked up to now."""
    offers.withdraw(connection, campaign_id)
    now = db_now(connection)
    lost = (Outcome.LOST, Reason.WORKER_DIED, "called back by who stopped the campaign")
    closings = []
    for live in leases.held_by_workers(connection, campaign_id):
        until = now if live.lease_until > now else live.heartbeat_at
        closings.append(_taken_back(live, after_recall(cancelled=live.cancel), until, *lost))
    _close(connection, closings)
    offers.withdraw(connection, campaign_id)
    attempts.mark_end(connection, [closing.claim.attempt_id for closing in closings])


def give_back(connection: Connection, claims: Sequence[Claim]) -> set[int]:
    """Return jobs to the queue that were claimed but not begun; no loss is counted. Returns the ids of jobs that are
    cancelled instead, because a person asked for it."""
    held = leases.hold(connection, claims)
    after = {id_: after_recall(cancelled=job.cancel) for id_, job in held.items()}
    _close(connection, [_Closing(claim, after[claim.job_id]) for claim in claims if claim.job_id in held])
    return {id_ for id_ in held if after[id_].is_over}


def give_up(connection: Connection, job_id: int, outcome: Outcome, reason: Reason, detail: str) -> None:
    """End a job that the cluster cannot run, with a failed attempt of no cost. The attempt gets no watermark, since the
    caller goes on to lock other jobs."""
    claim = leases.claim(connection, job_id, "cluster")
    if claim is not None:
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
        result = self.outcome, self.reason, self.detail
        return AttemptEnd(self.claim.attempt_id, self.after.attempt, self.cost, self.wall_seconds, *result)


def _closing(result: JobResult, after: AfterAttempt, cost: Cost) -> _Closing:
    task = result.job.task
    finding = result.result.finding
    spent = task.campaign_id, task.rung_id, cost, result.result.wall_seconds
    return _Closing(result.job.claim, after, *spent, finding.outcome, finding.reason, finding.detail)


def _taken_back(
    live: LiveAttempt, after: AfterAttempt, until: datetime, outcome: Outcome, reason: Reason, detail: str
) -> _Closing:
    """The end of an attempt whose cost was not measured, with an equal share of its call. until: time up to which it
    is booked."""
    wall = max(0.0, (until - live.started_at).total_seconds()) / live.together
    spent = live.campaign_id, live.rung_id, cost_of_killed(wall, live.cores), wall
    return _Closing(live.claim, after, *spent, outcome, reason, detail)


def _close(connection: Connection, closings: Sequence[_Closing]) -> None:
    """End attempts and their jobs, whose leases the caller holds, and book their costs."""
    ends = []
    for closing in closings:
        after = closing.after
        outcome = None if closing.outcome is Outcome.LOST and not after.is_over else closing.outcome
        ends.append(JobEnd(closing.claim, after.job, outcome, after.kills, after.losses))
    leases.end_held(connection, ends)
    attempts.end_many(connection, [closing.end for closing in closings])
    bills = [
        Bill(closing.campaign_id, closing.rung_id, closing.claim.attempt_id, closing.cost)
        for closing in closings
        if closing.campaign_id is not None
    ]
    spend.book_many(connection, bills)


def _record(
    connection: Connection, good: Sequence[DirectResult], attempt_ids: Sequence[int]
) -> list[RecordedEvidence | None]:
    """Write evidence, and its actual and declared cost. A second result under one key, from a slower campaign, is
    dropped, since the first one was computed with the same settings."""
    new = []
    seen = []
    for direct, attempt_id in zip(good, attempt_ids, strict=True):
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
        if direct.declared is not None:
            key = verifier.name, verifier.version, verifier.settings_hash, direct.candidate_id
            seen.append(CostSeen(*key, attempt_id, direct.declared, result.actual))
    recorded = evidence.record_once(connection, new)
    spend.observe_costs(connection, seen)
    return [
        row if isinstance(row, RecordedEvidence) and not entry.key.replicate else None
        for entry, row in zip(new, recorded, strict=True)
    ]


def _mark_ends(connection: Connection, attempt_ids: Sequence[int], recorded: Sequence[RecordedEvidence | None]) -> None:
    """Write the watermark at which attempts ended; with evidence of the same transaction, that of the last one."""
    watermarks = [row.watermark for row in recorded if row is not None]
    attempts.mark_end(connection, attempt_ids, max(watermarks, default=None))


def _refuse(connection: Connection, late: Sequence[JobResult]) -> dict[int, Mapping[str, float]]:
    """Book the cost of late results, beyond what was booked when their lease was lost. A result that was already
    written is skipped. Returns {attempt id: cost booked before} of the others."""
    late_ids = [result.job.claim.attempt_id for result in late]
    booked_by_id = attempts.booked(connection, late_ids) if late_ids else {}
    bills = []
    ends = []
    raised = dict[int, Mapping[str, float]]()
    for result in late:
        state, booked = booked_by_id[result.job.claim.attempt_id]
        if state not in (AttemptState.LOST, AttemptState.RUNNING):
            continue
        cost = result.cost
        raised[result.job.claim.attempt_id] = booked
        whole = Cost({k: max(cost.get(k, 0.0), booked.get(k, 0.0)) for k in {*cost, *booked}})
        ends.append(_closing(result, AfterAttempt(JobState.QUEUED, AttemptState.STALE), whole).end)
        more = Cost({k: v - booked.get(k, 0.0) for k, v in whole.items()})
        bills.append(Bill(result.job.task.campaign_id, result.job.task.rung_id, result.job.claim.attempt_id, more))
    attempts.end_many(connection, ends)
    spend.book_many(connection, bills)
    return raised
