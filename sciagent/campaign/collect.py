"""Collect: what came back from the pool, written once under its fence, and what is tried again."""

from __future__ import annotations

import shutil

from sciagent.campaign.build import Built
from sciagent.campaign.dispatch import Ticket, request_of
from sciagent.campaign.judge import Judgement
from sciagent.campaign.money import Purse
from sciagent.campaign.record import Result, error, record_results, settle, store_files
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import Finding
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.states import AttemptState, JobState
from sciagent.execution.local import Completed
from sciagent.store import campaigns, jobs
from sciagent.store.campaigns import DriverLease
from sciagent.verification.host import HostResult

_TRIED_AGAIN = (Outcome.CRASHED, Outcome.LOST)


def collect(built: Built, purse: Purse, lease: DriverLease, done: Completed[Ticket], interrupted: bool) -> None:
    """Write one finished job. interrupted: we killed it ourselves; it goes back to the queue and counts for nothing.

    Raises StaleLeaseError, and writes nothing, if another process drives the campaign now.
    """
    ticket = done.token
    result = done.results[0] if done.results else _pool_failed(ticket, done.fault)
    finding = result.finding
    files = store_files(built.ledger, [result])[0]
    position = ticket.rung.rules.position
    with built.ledger.begin() as connection:
        campaigns.check_driver(connection, lease)
        kills = jobs.kills_of(connection, ticket.claim.job_id) + 1
        state, attempt_state = _states(finding.outcome, kills, interrupted)
        mine = jobs.finish(
            connection,
            ticket.claim,
            state,
            finding.outcome,
            kills=int(finding.outcome in _TRIED_AGAIN and not interrupted),
        )
        if not mine:
            attempt_state = AttemptState.STALE
        jobs.end_attempt(
            connection, ticket.claim.attempt_id, attempt_state, cost=result.cost, wall_seconds=result.wall_seconds,
            outcome=finding.outcome, reason=finding.reason, detail=finding.detail,
        )  # fmt: skip
        jobs.book(connection, built.row.id, ticket.rung.id, ticket.claim.attempt_id, result.cost)
        if mine and state is not JobState.QUEUED:
            found = Result(ticket.candidate, ticket.candidate_id, result, files)
            record_results(connection, ticket.rung, ticket.claim.attempt_id, [found])
            gave_up = _gave_up(finding, state, kills)
            settle(connection, built, ticket.candidate_id, position, failed=result, gave_up=gave_up)
    purse.spend(result.cost)
    if mine and state is not JobState.QUEUED:
        purse.release(ticket.reservation)
    if mine and (state is not JobState.QUEUED or finding.outcome is Outcome.CRASHED):  # it may be why it crashed
        for checkpoint in request_of(built, ticket).checkpoints:
            shutil.rmtree(checkpoint, ignore_errors=True)


def _states(outcome: Outcome, kills: int, interrupted: bool) -> tuple[JobState, AttemptState]:
    if outcome.rule.is_evidence:
        return JobState.DONE, AttemptState.DONE
    if outcome is Outcome.LOST and interrupted:
        return JobState.QUEUED, AttemptState.CANCELLED
    if outcome in _TRIED_AGAIN:
        return (JobState.QUARANTINED if kills >= jobs.MAX_KILLS else JobState.QUEUED), AttemptState.FAILED
    return JobState.FAILED, AttemptState.FAILED


def _gave_up(finding: Finding, state: JobState, kills: int) -> Judgement | None:
    if state is not JobState.QUARANTINED:
        return None
    return error(
        Reason.KILLS_WORKERS, f"{kills} attempts ended in {finding.outcome} ({finding.reason}): {finding.detail}"
    )


def _pool_failed(ticket: Ticket, fault: str) -> HostResult:
    finding = Finding(ticket.candidate.key, Outcome.LOST, reason=Reason.WORKER_DIED, detail=fault or "the worker died")
    return HostResult(finding, Cost(), 0.0, {}, ())


def reap(built: Built, lease: DriverLease) -> int:
    """Take back what dead drivers left running: attempts become lost, booked to their last heartbeat, and their jobs
    wait for a worker again. Only who holds the driver lease may call it. Returns how many jobs were taken back."""
    with built.ledger.begin() as connection:
        campaigns.check_driver(connection, lease)
        orphans = jobs.orphans(connection, built.row.id, lease.owner)
        for attempt_id, job_id, fence, rung_id, started, heartbeat in orphans:
            cost = Cost(core_seconds=max(0.0, (heartbeat - started).total_seconds()))
            jobs.end_attempt(
                connection, attempt_id, AttemptState.LOST, cost=cost, wall_seconds=cost.get("core_seconds", 0.0),
                outcome=Outcome.LOST, reason=Reason.LEASE_EXPIRED, detail="its driver died",
            )  # fmt: skip
            jobs.book(connection, built.row.id, rung_id, attempt_id, cost)
            if job_id is not None:
                jobs.take_back(connection, job_id, fence)
    return len(orphans)
