"""Collect: what came back from the local pool is completed, and candidates are placed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built
from sciagent.campaign.core.record import Settling, given_up, settle, settle_again
from sciagent.campaign.driving.dispatch import LocalJob
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import Finding
from sciagent.domain.jobs.states import AttemptState, JobState
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.execution.worker.checkpoints import home_of, left_in
from sciagent.execution.worker.completing import JobEnding, JobResult, Reaped, complete, reap_driver, store_files
from sciagent.execution.worker.local_pool import Completed
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.store.job_queue import job_lists
from sciagent.verification.sandbox.host import HostResult
from sciagent.verification.sandbox.scratch import remove_folder


def collect(
    built: Built,
    purse: BudgetTracker,
    lease: DriverLease,
    done: Sequence[Completed[tuple[LocalJob, ...]]],
    killed: Container[int],
) -> bool:
    """Write finished jobs, in one transaction; True if one of them was cancelled. killed: ids of jobs whose process
    this driver ended on purpose.

    Raises StaleLeaseError, and writes nothing, if another process drives the campaign now.
    """
    pairs = [pair for group in done for pair in _pairs(group)]
    files = store_files(built.ledger, [result for _, result in pairs])
    results = [
        JobResult(local.job, result, artifacts, local.claim.job_id in killed)
        for (local, result), artifacts in zip(pairs, files, strict=True)
    ]
    with built.ledger.begin() as connection:
        campaigns.check_driver(connection, lease)
        endings = complete(connection, results).endings
        over = [(local, endings[id_]) for local, _ in pairs if (id_ := local.claim.job_id) in endings]
        over = [(local, ending) for local, ending in over if ending.after.is_over]
        settle(connection, built, [_settling(local, ending) for local, ending in over])
    left = left_in(built.scratch())  # few jobs leave anything
    for (local, _), result in zip(pairs, results, strict=True):
        ending = endings.get(local.claim.job_id)
        purse.spend(result.cost)
        if ending is not None and ending.after.is_over:
            purse.release(local.reservation)
            if result.outcome.rule.is_evidence and result.job.declared is not None:
                own, wall = result.result.own_seconds, result.result.wall_seconds
                local.rung.cost_model.observe(result.job.declared, result.actual, wall if own is None else own)
        stays = ending is None or not (ending.after.is_over or result.outcome is Outcome.CRASHED)
        if local.job.key.hash in left and not stays:
            remove_folder(home_of(built.scratch(), local.job.key.hash))  # it may be why it crashed
    ended = (ending.after for ending in endings.values())
    return any(
        after.attempt in (AttemptState.CANCELLED, AttemptState.CANCELLED_LATE) and after.is_over for after in ended
    )


def _settling(local: LocalJob, ending: JobEnding) -> Settling:
    position, finding = local.rung.rules.position, ending.result.result.finding
    if ending.after.job is JobState.CANCELLED:
        return Settling(local.job.candidate_id, position)
    gave_up = None
    if ending.after.job is JobState.QUARANTINED:
        gave_up = given_up(finding.outcome, finding.reason, finding.detail, ending.kills)
    return Settling(local.job.candidate_id, position, finding, gave_up, ending.recorded)


def settle_cancelled(connection: Connection, built: Built, job_ids: Iterable[int]) -> None:
    """Candidates whose jobs were cancelled before a worker had taken them up stand where their answers put them."""
    for job in job_lists.standing(connection, list(job_ids)):
        settle_again(connection, built, job.candidate_id)


def _pairs(done: Completed[tuple[LocalJob, ...]]) -> list[tuple[LocalJob, HostResult]]:
    results = done.results or [_pool_failed(local, done.fault) for local in done.token]
    return list(zip(done.token, results, strict=True))


def _pool_failed(local: LocalJob, fault: str) -> HostResult:
    key = local.job.candidate.key
    finding = Finding(key, Outcome.LOST, reason=Reason.WORKER_DIED, detail=fault or "the worker died")
    return HostResult(finding, Cost(), 0.0, {}, ())


def reap(built: Built, lease: DriverLease) -> int:
    """Take back what dead drivers of the campaign left, and place the candidates whose jobs are over by that. Only the
    holder of the driver lease may call it. Returns how many jobs were taken back."""
    with built.ledger.begin() as connection:
        campaigns.check_driver(connection, lease)
        reaped = reap_driver(connection, built.row.id, lease.owner)
        settle_cancelled(connection, built, [job.job_id for job in reaped if job.state is JobState.CANCELLED])
        positions = {rung.id: rung.rules.position for rung in built.rungs}
        settle(
            connection,
            built,
            [_lost(job, positions[job.rung_id]) for job in reaped if job.state is JobState.QUARANTINED],
        )
    return len(reaped)


def _lost(job: Reaped, position: Position) -> Settling:
    detail = "its driver died"
    finding = Finding(str(job.candidate_id), Outcome.LOST, reason=Reason.LEASE_EXPIRED, detail=detail)
    gave_up = given_up(Outcome.LOST, Reason.LEASE_EXPIRED, detail, job.kills, job.losses)
    return Settling(job.candidate_id, position, finding, gave_up)
