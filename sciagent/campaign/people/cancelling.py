"""Cancels and retries jobs for a person, and updates their candidates.

A candidate whose job was cancelled is held until a person releases it or retries the job, since the scheduler would
otherwise choose the job again. All changes are made under the lock of the campaign's row, as in `steering`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.record_and_settle import set_pending, settle_again
from sciagent.domain.directives import Verb
from sciagent.domain.rung_position import Position
from sciagent.domain.states import JobState, Standing
from sciagent.store.campaign_state import campaigns, directives, standings, watermarks
from sciagent.store.job_queue import job_lists, jobs

CANCELLABLE = (JobState.QUEUED, JobState.RUNNING)
MAX_LOGGED_JOBS = 1000  # job ids that an event names
GAVE_UP = (JobState.FAILED, JobState.QUARANTINED, JobState.CANCELLED)
CANCELLED_JOBS_KEY = "cancelled"  # key in the payload of a hold: ids of the cancelled jobs that caused it


@dataclass(frozen=True)
class JobChange:
    """The result of cancelling or retrying one job."""

    job_id: int
    rung: str
    """Label of the job's rung."""
    key: str
    """Key of the candidate."""
    smiles: str
    """Notation of the candidate."""
    done: str
    """`cancelled`, `told` (the worker was notified and ends the job), `queued` (retried), or empty if unchanged."""
    why: str = ""
    """Reason why the job is unchanged."""
    held: bool = False
    """Whether the candidate is now held because of the cancelled job."""


def cancel(built: Built, job_ids: Sequence[int], who: str, why: str = "") -> list[JobChange]:
    """Cancels queued jobs at once and notifies the workers of running jobs. The jobs' candidates are held."""
    with built.ledger.begin() as connection:
        watermarks.lock(connection, built.row.id)
        listed = job_lists.job_standings(connection, job_ids)
        waiting, running = jobs.request_cancel(connection, [job.id for job in listed if job.state in CANCELLABLE])
        cancelled = dict[int, list[int]]()  # job ids by candidate id
        for job in listed:
            if job.id in (*waiting, *running):
                cancelled.setdefault(job.candidate_id, []).append(job.id)
        held = set[int]()
        for candidate_id, ids in cancelled.items():
            if not directives.steering_of(connection, built.row.id, candidate_id).blocks_scheduling:
                _hold(connection, built, candidate_id, ids, who, why)
                held.add(candidate_id)
            if not _has_running_job(connection, built, candidate_id):
                settle_again(connection, built, candidate_id)
        outcomes = dict[int, tuple[str, str]]()
        for job in listed:
            if job.id in waiting:
                outcomes[job.id] = "cancelled", ""
            elif job.id in running:
                outcomes[job.id] = "told", ""
            else:
                outcomes[job.id] = "", f"it is {job.state} already"
        return _job_changes(connection, outcomes, {job.id for job in listed if job.candidate_id in held})


def _hold(connection: Connection, built: Built, candidate_id: int, ids: list[int], who: str, why: str) -> None:
    """Holds a candidate because its jobs `ids` were cancelled."""
    numbers = ", ".join(map(str, ids))
    reason = f"job {numbers} cancelled" if len(ids) == 1 else f"jobs {numbers} cancelled"
    if why:
        reason += f": {why}"
    directives.write(
        connection, built.row.id, Verb.HOLD, who, reason, candidate_id=candidate_id, payload={CANCELLED_JOBS_KEY: ids}
    )


def retry(built: Built, job_ids: Sequence[int], who: str, named: bool = True) -> list[JobChange]:
    """Queues failed jobs again; the driver reserves their cost when it starts them.

    Jobs that have succeeded, or whose candidate is held or at another rung, are left unchanged. named: whether a person
    named each job; such jobs go to the front of the queue.
    """
    with built.ledger.begin() as connection:
        watermarks.lock(connection, built.row.id)
        budget = BudgetTracker(built, connection)
        room = {rung.rules.position: budget.remaining_jobs(rung.rules.position) for rung in built.bought}
        rung_of_id = {rung.id: rung for rung in built.all_rungs}
        outcomes = dict[int, tuple[str, str]]()
        again = list[int]()
        for job in job_lists.job_standings(connection, job_ids):
            rung = rung_of_id[job.rung_id]
            why = _why_not(connection, built, job, rung, room)
            outcomes[job.id] = "" if why else "queued", why
            if not why:
                again.append(job.id)
                _try_again(connection, built, job, rung, who, jobs.PREFERRED if named else None)
                left = room[rung.rules.position]
                # a cancelled job did not count towards the limit of its rung
                if job.state is JobState.CANCELLED and left is not None:
                    room[rung.rules.position] = left - 1
        if again:
            payload = {"who": who, "jobs": again[:MAX_LOGGED_JOBS], "n": len(again)}
            campaigns.log_event(connection, built.row.id, "retried", payload)
        return _job_changes(connection, outcomes)


def _try_again(
    connection: Connection, built: Built, job: job_lists.JobStanding, rung: BuiltRung, who: str, priority: float | None
) -> None:
    """Queues the job again and releases its candidate. priority: None keeps the job's priority."""
    steering = directives.steering_of(connection, built.row.id, job.candidate_id)
    if steering.blocks_scheduling:  # such a hold is due to a cancelled job; `_why_not` refuses all others
        reason = f"job {job.id} is tried again"
        directives.write(connection, built.row.id, Verb.RELEASE, who, reason, candidate_id=job.candidate_id)
    jobs.retry(connection, job.id, priority)
    if rung.spec.control:
        return
    set_pending(connection, built, job.candidate_id, rung)


def _why_not(
    connection: Connection,
    built: Built,
    job: job_lists.JobStanding,
    rung: BuiltRung,
    room: Mapping[Position, int | None],
) -> str:
    """Returns why the job cannot be retried; empty if it can. room: remaining jobs by position; None: no limit."""
    if job.state not in GAVE_UP:
        return "it is done, and its answer stands" if job.state is JobState.DONE else f"it is {job.state}, not over"
    steering = directives.steering_of(connection, built.row.id, job.candidate_id)
    if steering.blocks_scheduling and not _held_by_cancelling(connection, built, job.candidate_id):
        which = "vetoed" if steering.vetoed else "held"
        return f"its candidate is {which} by {steering.who}: {steering.why}; release it first: sciagent hold --undo"
    if rung.spec.control:
        return ""
    row = standings.get(connection, built.row.id, job.candidate_id)
    standing = Standing(row["standing"])
    position = Position(int(row["position"]))
    if standing in (Standing.PENDING, Standing.SETTLED) or position != rung.rules.position:
        current_rung = built.rungs[min(position, len(built.rungs) - 1)].spec.rung
        return f"its candidate has gone elsewhere since: {standing} at {current_rung}"
    if job.state is JobState.CANCELLED and room[position] == 0:
        label = rung.spec.rung
        return (
            f"all {built.limit_by_rung.get(position)} places of {label} are used; raise the limit first: "
            f"sciagent amend {built.row.name} --budget rungs.{label}=N"
        )
    return ""


def _held_by_cancelling(connection: Connection, built: Built, candidate_id: int) -> bool:
    """Whether the candidate is held only because one of its jobs was cancelled."""
    verbs = (Verb.HOLD, Verb.VETO, Verb.RELEASE)
    decisions = [d for d in directives.directives_on(connection, built.row.id, candidate_id) if d.verb in verbs]
    return bool(decisions) and decisions[-1].verb is Verb.HOLD and CANCELLED_JOBS_KEY in decisions[-1].payload


def _has_running_job(connection: Connection, built: Built, candidate_id: int) -> bool:
    listed = jobs.of_candidate(connection, built.row.id, candidate_id, [r.id for r in built.bought])
    return any(state == JobState.RUNNING for _, _, state, _ in listed)


def _job_changes(
    connection: Connection, outcomes: Mapping[int, tuple[str, str]], held: Container[int] = ()
) -> list[JobChange]:
    return [
        JobChange(row.id, row.rung, row.key, row.candidate, *outcomes[row.id], row.id in held)
        for row in job_lists.job_rows(connection, list(outcomes))
    ]
