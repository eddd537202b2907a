"""Collect: what came back from the pool, written once under its fence, and what is tried again."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import Purse
from sciagent.campaign.core.build import Built
from sciagent.campaign.core.judge import Judgement
from sciagent.campaign.core.record import Result, Settling, error, record_results, settle, settle_again
from sciagent.campaign.driving.dispatch import Ticket
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import Finding
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.states import AttemptState, JobState
from sciagent.execution.worker.checkpoints import home_of, left_in
from sciagent.execution.worker.completing import store_files
from sciagent.execution.worker.ending import DEATHS, TRIED_AGAIN, states_of
from sciagent.execution.worker.local_pool import Completed
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.store.job_queue import attempts, job_lists, jobs, leases, spend
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.leases import JobEnd
from sciagent.store.job_queue.spend import Bill
from sciagent.store.results.evidence import RecordedEvidence
from sciagent.verification.cost import unmeasured
from sciagent.verification.sandbox.host import HostResult
from sciagent.verification.sandbox.scratch import remove_folder


def collect(
    built: Built,
    purse: Purse,
    lease: DriverLease,
    done: Sequence[Completed[tuple[Ticket, ...]]],
    killed: Container[int],
) -> bool:
    """Write finished jobs, in one transaction; True if one of them was cancelled. killed: ids of jobs that we killed
    ourselves; what is lost of them goes back to the queue and counts for nothing, but for what a person cancelled.

    Raises StaleLeaseError, and writes nothing, if another process drives the campaign now.
    """
    pairs = [pair for one in done for pair in _pairs(one)]
    files = store_files(built.ledger, [result for _, result in pairs])
    with built.ledger.begin() as connection:
        campaigns.check_driver(connection, lease)
        ids = [ticket.claim.job_id for ticket, _ in pairs]
        died = [ticket.claim.job_id for ticket, result in pairs if result.finding.outcome in TRIED_AGAIN]
        kills = jobs.kills_of(connection, died) if died else {}
        cancel = jobs.to_be_cancelled(connection, ids)
        ended = [
            _ended(ticket, result, kills.get(id_, 0) + 1, id_ in killed, id_ in cancel)
            for id_, (ticket, result) in zip(ids, pairs, strict=True)
        ]
        mine = leases.finish_many(connection, [one.job_end for one in ended])
        attempts.end_many(connection, [one.attempt_end(one.job_id in mine) for one in ended])
        spend.book_many(connection, [one.bill(built.row.id) for one in ended])
        over = [one.job_id in mine and one.state is not JobState.QUEUED for one in ended]
        said = record_results(
            connection,
            [one.found(artifacts) for one, artifacts, is_over in zip(ended, files, over, strict=True) if is_over],
        )
        settle(connection, built, [one.settling(said) for one, is_over in zip(ended, over, strict=True) if is_over])
    left = left_in(built.scratch())  # few jobs leave anything
    for one, is_over in zip(ended, over, strict=True):
        purse.spend(one.cost)
        if is_over:
            purse.release(one.ticket.reservation)
        if one.ticket.key.hash in left and one.job_id in mine and (is_over or one.outcome is Outcome.CRASHED):
            remove_folder(home_of(built.scratch(), one.ticket.key.hash))  # it may be why it crashed
    return bool(cancel)


@dataclass(frozen=True)
class _Ended:
    """A job that came back, and what becomes of it and of its attempt. kills: how many workers it has killed, should
    this have been one. counts: whether this is held against it. cost: see `_cost`."""

    ticket: Ticket
    result: HostResult
    state: JobState
    attempt_state: AttemptState
    kills: int
    counts: bool
    cost: Cost

    @property
    def job_id(self) -> int:
        return self.ticket.claim.job_id

    @property
    def outcome(self) -> Outcome:
        return self.result.finding.outcome

    @property
    def job_end(self) -> JobEnd:
        return JobEnd(self.ticket.claim, self.state, self.outcome, int(self.counts))

    def attempt_end(self, mine: bool) -> AttemptEnd:
        finding = self.result.finding
        state = self.attempt_state if mine else AttemptState.STALE
        return AttemptEnd(
            self.ticket.claim.attempt_id,
            state,
            self.cost,
            self.result.wall_seconds,
            finding.outcome,
            finding.reason,
            finding.detail,
        )

    def bill(self, campaign_id: int) -> Bill:
        return Bill(campaign_id, self.ticket.rung.id, self.ticket.claim.attempt_id, self.cost)

    def found(self, artifacts: tuple[tuple[str, str, int, str], ...]) -> Result:
        one = self.ticket
        return Result(one.rung, one.claim.attempt_id, one.key, one.candidate_id, one.declared, self.result, artifacts)

    def settling(self, said: Mapping[int, RecordedEvidence]) -> Settling:
        """said: by attempt, what was recorded."""
        one, finding = self.ticket, self.result.finding
        if self.state is JobState.CANCELLED:
            return Settling(one.candidate_id, one.rung.rules.position)
        gave_up = _gave_up(finding, self.state, self.kills)
        return Settling(one.candidate_id, one.rung.rules.position, finding, gave_up, said.get(one.claim.attempt_id))


def _ended(ticket: Ticket, result: HostResult, kills: int, killed: bool, cancelled: bool) -> _Ended:
    """killed: by us. cancelled: a person wants it to be ended."""
    state, attempt_state = states_of(result.finding, kills, killed, cancelled)
    counts = result.finding.outcome in TRIED_AGAIN and not (killed or cancelled)
    return _Ended(ticket, result, state, attempt_state, kills, counts, _cost(ticket, result, cancelled))


def _cost(ticket: Ticket, result: HostResult, cancelled: bool) -> Cost:
    """What was measured; and, of a job that came to an end, what nobody measures: as it was counted or declared. Of
    one that was cancelled at least the time that went by."""
    if result.finding.outcome is Outcome.LOST:
        passed = result.wall_seconds if cancelled else 0.0
        return result.cost or Cost(core_seconds=max(0.0, passed))
    return result.cost + unmeasured(ticket.declared or {}, result.finding.spent)


def settle_cancelled(connection: Connection, built: Built, job_ids: Iterable[int]) -> None:
    """Candidates whose jobs were cancelled before a worker had taken them up stand where their answers put them."""
    for one in job_lists.standing(connection, list(job_ids)):
        settle_again(connection, built, one.candidate_id)


def _pairs(done: Completed[tuple[Ticket, ...]]) -> list[tuple[Ticket, HostResult]]:
    results = done.results or [_pool_failed(ticket, done.fault) for ticket in done.token]
    return list(zip(done.token, results, strict=True))


def _gave_up(finding: Finding, state: JobState, kills: int) -> Judgement | None:
    if state is not JobState.QUARANTINED:
        return None
    if finding.reason not in DEATHS:
        return error(finding.reason, finding.detail + (f"; so {kills} times" if kills > 1 else ""))
    return error(
        Reason.KILLS_WORKERS, f"{kills} attempts ended in {finding.outcome} ({finding.reason}): {finding.detail}"
    )


def _pool_failed(ticket: Ticket, fault: str) -> HostResult:
    finding = Finding(ticket.candidate.key, Outcome.LOST, reason=Reason.WORKER_DIED, detail=fault or "the worker died")
    return HostResult(finding, Cost(), 0.0, {}, ())


def reap(built: Built, lease: DriverLease) -> int:
    """Take back what dead drivers left: attempts that ran become lost, booked to their last heartbeat, those that were
    claimed ahead are cancelled, and their jobs wait for a worker again. Only who holds the driver lease may call it.
    Returns how many jobs were taken back."""
    with built.ledger.begin() as connection:
        campaigns.check_driver(connection, lease)
        orphans = leases.orphans(connection, built.row.id, lease.owner)
        for attempt_id, job_id, fence, rung_id, state, started, heartbeat in orphans:
            ran = state == AttemptState.RUNNING
            cost = Cost(core_seconds=max(0.0, (heartbeat - started).total_seconds()) if ran else 0.0)
            attempts.end(
                connection,
                attempt_id,
                AttemptState.LOST if ran else AttemptState.CANCELLED,
                cost=cost,
                wall_seconds=cost.get("core_seconds", 0.0),
                outcome=Outcome.LOST,
                reason=Reason.LEASE_EXPIRED,
                detail="its driver died",
            )
            spend.book(connection, built.row.id, rung_id, attempt_id, cost)
            if job_id is not None and leases.take_back(connection, job_id, fence):
                settle_cancelled(connection, built, [job_id])
    return len(orphans)
