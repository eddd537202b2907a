"""How attempts end: evidence, artifacts, attempt, spend and the job's end in one fenced transaction.

The local pool, workers of the ledger, Celery and Slurm all end their attempts here, and so do verifications that have
no job: fast rungs, `sciagent verify` and the checks before a promotion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.domain.cost import Cost
from sciagent.domain.evidence import EvidenceKey
from sciagent.domain.jobs.job_rules import AfterAttempt, after_loss, after_recall, after_result, cost_of_killed
from sciagent.domain.jobs.states import AttemptState, JobState
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.execution.worker.claimed_jobs import ClaimedJob
from sciagent.store.database.clock import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, leases, offers, spend
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.leases import Claim, HeldJob, JobEnd, LiveAttempt
from sciagent.store.job_queue.spend import Bill, CostSeen
from sciagent.store.results import evidence
from sciagent.store.results.evidence import NewEvidence, RecordedEvidence
from sciagent.verification.contract import Verifier
from sciagent.verification.cost import unmeasured
from sciagent.verification.sandbox.host import HostResult

Stored = tuple[tuple[str, str, int, str], ...]  # artifacts: (name, sha256, size, media type)


def store_files(ledger: Ledger, results: Sequence[HostResult]) -> list[Stored]:
    """Put every artifact into the store (before the transaction that names it); then the spooled files are removed.
    Raises OSError, and may be called again."""
    stored = []
    for result in results:
        put = [(file, *ledger.artifacts.put(file.path)) for file in result.files]
        stored.append(tuple((file.name, sha256, size, file.media_type) for file, sha256, size in put))
    for result in results:
        for file in result.files:
            file.path.unlink(missing_ok=True)
    return stored


@dataclass(frozen=True)
class JobResult:
    """What came back of a claimed job."""

    job: ClaimedJob
    result: HostResult
    artifacts: Stored
    interrupted: bool = False
    """Its process was ended on purpose: a person cancelled it, its lease was lost, or whoever ran it was stopped."""

    @property
    def outcome(self) -> Outcome:
        return self.result.finding.outcome

    @property
    def cost(self) -> Cost:
        """Measured cost; wall time on all cores where the process was killed and nobody measured it."""
        if self.outcome is Outcome.LOST:
            return self.result.cost or cost_of_killed(self.result.wall_seconds, self.job.task.limits.threads)
        return self.result.cost + unmeasured(self.job.declared or {}, self.result.finding.spent)

    @property
    def actual(self) -> Cost:
        """What a cost model learns from."""
        return self.result.cost + (self.result.finding.spent or {})


@dataclass(frozen=True)
class JobEnding:
    """A result that was written under its fence, and what it made of its job."""

    result: JobResult
    after: AfterAttempt
    kills: int
    """Kills of the job, this attempt included."""
    recorded: RecordedEvidence | None = None
    """The evidence as `find_reusable` would read it; None where there is none, or another result stood already."""


@dataclass(frozen=True)
class Written:
    """What `complete` wrote."""

    endings: Mapping[int, JobEnding]
    """By job id, results that were written under their fences."""
    stale: frozenset[int]
    """Ids of jobs whose result was refused, because somebody else had taken over."""

    @property
    def over(self) -> frozenset[int]:
        """Ids of the jobs that will not be tried again."""
        return frozenset(id_ for id_, ending in self.endings.items() if ending.after.is_over)


def complete(connection: Connection, results: Sequence[JobResult]) -> Written:
    """Write all of it, once. Called again after a commit that nobody knows the end of, it writes nothing anew."""
    by_id = {result.job.claim.job_id: result for result in results}
    held = leases.hold(connection, [result.job.claim for result in results])
    after = {id_: _after(by_id[id_], job) for id_, job in held.items()}
    _close(connection, [_closing(by_id[id_], after[id_], by_id[id_].cost) for id_ in held])
    good = [by_id[id_] for id_ in held if after[id_].is_over and by_id[id_].outcome.rule.is_evidence]
    recorded = _record(connection, [_as_direct(result) for result in good], [r.job.claim.attempt_id for r in good])
    found = {result.job.claim.job_id: one for result, one in zip(good, recorded, strict=True)}
    stale = _refuse(connection, [result for id_, result in by_id.items() if id_ not in held])
    endings = {
        id_: JobEnding(by_id[id_], after[id_], job.kills + after[id_].kills, found.get(id_))
        for id_, job in held.items()
    }
    return Written(endings, frozenset(stale))


@dataclass(frozen=True)
class DirectResult:
    """A verification that had no job: of a fast rung, of `sciagent verify`, before a promotion."""

    verifier: Verifier[Any]
    candidate_id: int
    key: EvidenceKey
    result: HostResult
    artifacts: Stored
    declared: Cost | None = None
    """Compared with what it cost; None where that is not to be learnt from."""


def complete_direct(
    connection: Connection, owner: str, results: Sequence[DirectResult], *, campaign_id: int | None, rung_id: int | None
) -> list[RecordedEvidence | None]:
    """One attempt for results of one rung, with its bill and their evidence; returns, in order, what was recorded."""
    if not results:
        return []
    cost, wall = Cost(), 0.0
    for direct in results:
        cost += direct.result.cost + (direct.result.finding.spent or {})
        wall += direct.result.wall_seconds
    attempt_id = attempts.begin(connection, owner, campaign_id=campaign_id, rung_id=rung_id, n_candidates=len(results))
    finding = results[0].result.finding
    if len(results) > 1 or finding.outcome.rule.is_evidence:
        end = AttemptEnd(attempt_id, AttemptState.DONE, cost, wall, Outcome.OK if len(results) > 1 else finding.outcome)
    else:
        end = AttemptEnd(attempt_id, AttemptState.FAILED, cost, wall, finding.outcome, finding.reason, finding.detail)
    attempts.end_many(connection, [end])
    if campaign_id is not None:
        spend.book_many(connection, [Bill(campaign_id, rung_id, attempt_id, cost)])
    good = [direct for direct in results if direct.result.finding.outcome.rule.is_evidence]
    recorded = iter(_record(connection, good, [attempt_id] * len(good)))
    return [next(recorded) if direct.result.finding.outcome.rule.is_evidence else None for direct in results]


@dataclass(frozen=True)
class Reaped:
    """A job that was taken back from a worker or driver that is gone."""

    job_id: int
    campaign_id: int
    rung_id: int
    candidate_id: int
    queue: str | None
    """Where workers find it; None: its driver runs it."""
    state: JobState
    kills: int
    losses: int


def reap_expired(connection: Connection, limit: int = 100) -> list[Reaped]:
    """Take back jobs whose lease has run out: their worker is gone, cut off or stalled. Any process may call it."""
    return _lose(connection, leases.expired(connection, limit), "its worker was not heard of for as long as a lease")


def reap_driver(connection: Connection, campaign_id: int, owner: str) -> list[Reaped]:
    """Take back what dead drivers of the campaign ran themselves. Only `owner`, the holder of the driver lease, may."""
    return _lose(connection, leases.orphans(connection, campaign_id, owner), "its driver died")


def call_back(connection: Connection, campaign_id: int) -> int:
    """Workers shall have nothing of the campaign any more: what they run is to be run again later, and counts for
    nothing; they end it when they look next. The attempts are booked up to now. Returns how many ran."""
    offers.withdraw(connection, campaign_id)
    found = leases.held_by_workers(connection, campaign_id)
    _recall(connection, found, db_now(connection), "called back by who stopped the campaign")
    offers.withdraw(connection, campaign_id)
    return len(found)


def give_back(connection: Connection, claims: Sequence[Claim]) -> set[int]:
    """Jobs that were claimed and have not begun are queued again, as if nothing had been; returns the ids of those that
    are cancelled instead, because a person asked for it."""
    held = leases.hold(connection, claims)
    mine = [claim for claim in claims if claim.job_id in held]
    after = {id_: after_recall(cancelled=job.cancel) for id_, job in held.items()}
    _close(connection, [_Closing(claim, None, None, after[claim.job_id], Cost(), 0.0) for claim in mine])
    return {id_ for id_ in held if after[id_].is_over}


def give_up(connection: Connection, job_id: int, outcome: Outcome, reason: Reason, detail: str) -> None:
    """A job that no cluster can run: an attempt that failed, and cost nothing."""
    claim = leases.claim(connection, job_id, "cluster")
    if claim is not None:
        state = JobState.QUARANTINED if outcome is Outcome.LOST else JobState.FAILED
        after = AfterAttempt(state, AttemptState.FAILED)
        _close(connection, [_Closing(claim, None, None, after, Cost(), 0.0, outcome, reason, detail)])


@dataclass(frozen=True)
class _Closing:
    """One attempt that ends, with its job. campaign_id: None where there is nothing to book."""

    claim: Claim
    campaign_id: int | None
    rung_id: int | None
    after: AfterAttempt
    cost: Cost
    wall_seconds: float
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


def _close(connection: Connection, closings: Sequence[_Closing]) -> None:
    """End attempts and their jobs, which the caller holds, and book what they cost."""
    ends = []
    for one in closings:
        returns = one.outcome is Outcome.LOST and not one.after.is_over
        ends.append(
            JobEnd(one.claim, one.after.job, None if returns else one.outcome, one.after.kills, one.after.losses)
        )
    leases.end_held(connection, ends)
    attempts.end_many(connection, [one.end for one in closings])
    spend.book_many(
        connection,
        [
            Bill(one.campaign_id, one.rung_id, one.claim.attempt_id, one.cost)
            for one in closings
            if one.campaign_id is not None
        ],
    )


def _after(result: JobResult, job: HeldJob) -> AfterAttempt:
    finding = result.result.finding
    return after_result(
        finding.outcome, finding.reason, kills=job.kills, interrupted=result.interrupted, cancelled=job.cancel
    )


def _closing(result: JobResult, after: AfterAttempt, cost: Cost) -> _Closing:
    task, finding = result.job.task, result.result.finding
    return _Closing(
        result.job.claim,
        task.campaign_id,
        task.rung_id,
        after,
        cost,
        result.result.wall_seconds,
        finding.outcome,
        finding.reason,
        finding.detail,
    )


def _as_direct(result: JobResult) -> DirectResult:
    job = result.job
    return DirectResult(job.task.verifier, job.candidate_id, job.key, result.result, result.artifacts, job.declared)


def _record(
    connection: Connection, good: Sequence[DirectResult], attempt_ids: Sequence[int]
) -> list[RecordedEvidence | None]:
    """Evidence, and what it cost against what was declared. A second result under one key (another campaign was faster)
    is dropped: the first stands, and was computed under the same settings."""
    new, seen = [], []
    for direct, attempt_id in zip(good, attempt_ids, strict=True):
        result, v = direct.result, direct.verifier
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
            actual = result.cost + (result.finding.spent or {})
            ids = (direct.candidate_id, attempt_id)
            seen.append(CostSeen(v.name, v.version, v.settings_hash, *ids, direct.declared, actual))
    recorded = evidence.record_once(connection, new)
    spend.observe_costs(connection, seen)
    return [
        one
        if isinstance(one, RecordedEvidence) and made.finding.outcome.rule.reusable and not made.key.replicate
        else None
        for made, one in zip(new, recorded, strict=True)
    ]


def _refuse(connection: Connection, late: Sequence[JobResult]) -> list[int]:
    """Results that come too late: nothing of them is kept but what they have cost, beyond what was booked when they
    were taken for dead. One that we have written ourselves is none."""
    if not late:
        return []
    found = attempts.booked(connection, [result.job.claim.attempt_id for result in late])
    open_ = (AttemptState.LOST, AttemptState.RUNNING)
    stale = [result for result in late if found[result.job.claim.attempt_id][0] in open_]
    owed, ends = [], []
    for result in stale:
        booked, cost = found[result.job.claim.attempt_id][1], result.cost
        whole = Cost({k: max(cost.get(k, 0.0), booked.get(k, 0.0)) for k in {*cost, *booked}})
        ends.append(_closing(result, AfterAttempt(JobState.QUEUED, AttemptState.STALE), whole).end)
        more = Cost({k: v - booked.get(k, 0.0) for k, v in whole.items()})
        owed.append(Bill(result.job.task.campaign_id, result.job.task.rung_id, result.job.claim.attempt_id, more))
    attempts.end_many(connection, ends)
    spend.book_many(connection, owed)
    return [result.job.claim.job_id for result in stale]


def _lose(connection: Connection, gone: Sequence[LiveAttempt], detail: str) -> list[Reaped]:
    """Attempts whose worker or driver vanished, booked to their last heartbeat."""
    closings, reaped = [], []
    for live in gone:
        after = after_loss(losses=live.losses, cancelled=live.cancel)
        wall = max(0.0, (live.heartbeat_at - live.started_at).total_seconds())
        cost = cost_of_killed(wall, live.cores)
        closings.append(
            _Closing(
                live.claim,
                live.campaign_id,
                live.rung_id,
                after,
                cost,
                wall,
                Outcome.LOST,
                Reason.LEASE_EXPIRED,
                detail,
            )
        )
        reaped.append(_reaped(live, after))
    _close(connection, closings)
    return reaped


def _recall(connection: Connection, taken: Sequence[LiveAttempt], until: datetime | None, detail: str) -> list[Reaped]:
    """Attempts that are taken back and count for nothing. until: they ran up to then; None: they had not begun."""
    closings, reaped = [], []
    for live in taken:
        after = after_recall(cancelled=live.cancel)
        last = live.started_at if until is None else until if live.lease_until > until else live.heartbeat_at
        wall = max(0.0, (last - live.started_at).total_seconds())
        cost = cost_of_killed(wall, live.cores)
        closings.append(
            _Closing(
                live.claim, live.campaign_id, live.rung_id, after, cost, wall, Outcome.LOST, Reason.WORKER_DIED, detail
            )
        )
        reaped.append(_reaped(live, after))
    _close(connection, closings)
    return reaped


def _reaped(live: LiveAttempt, after: AfterAttempt) -> Reaped:
    kills, losses = live.kills + after.kills, live.losses + after.losses
    return Reaped(
        live.claim.job_id, live.campaign_id, live.rung_id, live.candidate_id, live.queue, after.job, kills, losses
    )
