"""Cancels and retries jobs for a person, and updates their candidates.

A candidate whose job was cancelled is held until a person releases it or retries the job, since the scheduler would
otherwise choose the job again. All changes are made under the lock of the campaign's row, as in `steering`.

Fast and inline rungs have no jobs. A candidate that an error at such a rung dropped is computed again in the person's
own process, and placed anew.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung, prepare
from sciagent.campaign.core.record_results_and_place import Settling, set_pending, settle, settle_again
from sciagent.campaign.core.verdicts_and_places import place
from sciagent.campaign.people.verify_calculate_and_add import BATCH
from sciagent.campaign.proposing.rungs_on_unwritten_proposals import BenchEntry, answer_at_once
from sciagent.campaign.proposing.write_turns import log_if_blocked, reuse_decision, write_direct_results
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding
from sciagent.domain.outcomes_verdicts_and_reasons import Verdict
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import JobState, Standing, Verb
from sciagent.errors import UsageError
from sciagent.store.campaign_state import campaigns, candidate_standings, directives, note_and_take_watermarks
from sciagent.store.job_queue import job_lists, jobs
from sciagent.store.results import candidates
from sciagent.verification.sandbox.host import Worker

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


class _Outcome(NamedTuple):
    """The change that was made to one job. The fields are the same as in `JobChange`."""

    done: str
    why: str = ""


def cancel(built: Built, job_ids: Sequence[int], who: str, why: str = "") -> list[JobChange]:
    """Cancels queued jobs at once and notifies the workers of running jobs. The jobs' candidates are held."""
    with built.ledger.begin() as connection:
        note_and_take_watermarks.lock(connection, built.row.id)
        listed = job_lists.job_standings(connection, job_ids)
        cancellable_ids = [job.id for job in listed if job.state in CANCELLABLE]
        queued, running = jobs.request_cancel(connection, cancellable_ids)
        jobs_by_candidate = dict[int, list[int]]()  # ids of the cancelled jobs, by candidate id
        for job in listed:
            if job.id in queued or job.id in running:
                jobs_by_candidate.setdefault(job.candidate_id, []).append(job.id)
        held = set[int]()
        for candidate_id, ids in jobs_by_candidate.items():
            steering = directives.steering_of(connection, built.row.id, candidate_id)
            if not steering.blocks_scheduling:  # otherwise a person has held or vetoed it before
                _hold(connection, built, candidate_id, ids, who, why)
                held.add(candidate_id)
            # the end of a running job settles its candidate
            if not _has_running_job(connection, built, candidate_id):
                settle_again(connection, built, candidate_id)
        outcomes = dict[int, _Outcome]()
        for job in listed:
            if job.id in queued:
                outcomes[job.id] = _Outcome("cancelled")
            elif job.id in running:
                outcomes[job.id] = _Outcome("told")
            else:
                outcomes[job.id] = _Outcome("", f"it is {job.state} already")
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
        note_and_take_watermarks.lock(connection, built.row.id)
        budget = BudgetTracker(built, connection)
        # room: remaining jobs by position of the rung; None: no limit
        room = {rung.rules.position: budget.remaining_jobs(rung.rules.position) for rung in built.bought}
        rung_of_id = {rung.id: rung for rung in built.all_rungs}
        outcomes = dict[int, _Outcome]()
        again = list[int]()  # ids of the jobs that are queued again
        for job in job_lists.job_standings(connection, job_ids):
            rung = rung_of_id[job.rung_id]
            why = _why_not(connection, built, job, rung, room)
            outcomes[job.id] = _Outcome("" if why else "queued", why)
            if not why:
                again.append(job.id)
                priority = jobs.PREFERRED if named else None
                _try_again(connection, built, job, rung, who, priority)
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
        return  # a control decides nothing, so its job does not change the candidate's standing
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
        return ""  # a control may run wherever its candidate has gone
    row = candidate_standings.get(connection, built.row.id, job.candidate_id)
    standing = Standing(row["standing"])
    position = Position(int(row["position"]))
    if standing in (Standing.PENDING, Standing.SETTLED) or position != rung.rules.position:
        last = len(built.rungs) - 1  # the position of a candidate that has passed all rungs is one more
        current_rung = built.rungs[min(position, last)].spec.rung
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
    written = directives.directives_on(connection, built.row.id, candidate_id)
    decisions = [directive for directive in written if directive.verb in verbs]
    if not decisions:
        return False
    latest = decisions[-1]
    return latest.verb is Verb.HOLD and CANCELLED_JOBS_KEY in latest.payload


@dataclass(frozen=True)
class CandidateRetry:
    """A candidate that was dropped with an error at a rung without jobs, and was computed again."""

    rung: str
    """Label of the rung at which it was dropped."""
    key: str
    candidate: str
    """Notation of the candidate."""
    standing: str
    """Standing after the new computation."""
    verdict: str | None
    reason: str | None
    """Reason, if it is dropped again."""
    detail: str


def retry_dropped(built: Built, who: str, limit: int) -> Iterator[CandidateRetry]:
    """Computes candidates again that an error at a fast or inline rung dropped, and places them as new ones.

    The answers of earlier rungs stay. Each `BATCH` of candidates is written in one transaction. limit: most candidates.
    Raises UsageError if there are such candidates and a driver runs, since it has left them out when it read the
    ledger. Raises CampaignError if the process of a rung dies under every candidate; nothing of that batch is written.
    """
    dropped: list[tuple[BuiltRung, int]] = []  # rung at which a candidate was dropped, and its id
    with built.ledger.read() as connection:
        for rung in built.fast:
            room = limit - len(dropped)
            ids = candidate_standings.dropped_with_error(connection, built.row.id, rung.rules.position, room)
            dropped += [(rung, id_) for id_ in ids]
        if not dropped:
            return
        _refuse_if_driven(connection, built)
    prepare(built.fast)
    with Worker(built.scratch(), preload=[rung.verifier.name for rung in built.fast]) as worker:
        for first in range(0, len(dropped), BATCH):
            yield from _compute_again(built, worker, dropped[first : first + BATCH], who)


def _refuse_if_driven(connection: Connection, built: Built) -> None:
    """Raises UsageError if a driver runs the campaign."""
    driver = campaigns.driver_of(connection, built.row.id)
    if driver is not None and driver.alive:
        name = built.row.name
        raise UsageError(
            f"there are candidates that an error dropped at a rung without jobs, but the driver at {driver.host} "
            f"(process {driver.pid}) has left them out; stop it first: sciagent stop {name}; then sciagent retry "
            f"--campaign {name} --state dropped; then sciagent resume {name}"
        )


def _compute_again(
    built: Built, worker: Worker, dropped: Sequence[tuple[BuiltRung, int]], who: str
) -> list[CandidateRetry]:
    """Computes a batch of dropped candidates again and writes the answers. dropped: rung and id of each."""
    rung_by_id = {id_: rung for rung, id_ in dropped}
    with built.ledger.read() as connection:
        loaded = candidates.load(connection, list(rung_by_id))
    entries: dict[int, BenchEntry] = {}
    for id_, candidate in loaded.items():
        entry = BenchEntry(ProposalIn(candidate.text), candidate, "new", notation=built.subject.notation(candidate))
        entry.place = place(built.rules, built.objectives, entry.answers)
        entries[id_] = entry
    for rung in built.fast:
        waiting = [entry for entry in entries.values() if entry.place and entry.place.standing is Standing.OPEN]
        answer_at_once(built, worker, rung, waiting)
        for entry in waiting:
            entry.place = place(built.rules, built.objectives, entry.answers)
    with built.ledger.begin() as connection:
        note_and_take_watermarks.lock(connection, built.row.id)
        _refuse_if_driven(connection, built)
        for id_, rung in rung_by_id.items():
            row = candidate_standings.get(connection, built.row.id, id_)
            is_still_dropped = row["standing"] == Standing.DROPPED and row["verdict"] == Verdict.ERROR
            if not is_still_dropped or row["position"] != rung.rules.position:
                del entries[id_]  # somebody else has placed it meanwhile
        if entries:
            _write_again(connection, built, entries, rung_by_id, who)
        retries = []
        for id_, entry in entries.items():
            row = candidate_standings.get(connection, built.row.id, id_)
            computed = CandidateRetry(
                rung=rung_by_id[id_].spec.rung,
                key=loaded[id_].key,
                candidate=entry.notation,
                standing=row["standing"],
                verdict=row["verdict"],
                reason=row["reason"],
                detail=row["detail"] or "",
            )
            retries.append(computed)
    return retries


def _write_again(
    connection: Connection,
    built: Built,
    entries: Mapping[int, BenchEntry],
    rung_by_id: Mapping[int, BuiltRung],
    who: str,
) -> None:
    """Writes the new answers on candidates and places the candidates.

    entries: by candidate id. rung_by_id: the rungs at which the candidates were dropped.
    """
    ids = {entry.candidate.key: id_ for id_, entry in entries.items() if entry.candidate}
    owner = campaigns.new_owner()
    failed: dict[int, Finding] = {}  # the last findings that are not evidence, by candidate id
    for rung in built.fast:
        batch = []
        for id_, entry in entries.items():
            for computed_rung, result in entry.computed:
                if computed_rung is rung and entry.candidate:
                    batch.append((entry.candidate, result))
                    if not result.finding.outcome.rule.is_evidence:
                        failed[id_] = result.finding
        if batch:
            write_direct_results(connection, built, rung, batch, ids, owner=owner, turn_id=None)
    settlings = []
    reused = []
    for id_, entry in entries.items():
        for rung, evidence_id in entry.reused:
            if rung.rules.position >= rung_by_id[id_].rules.position:  # the answers of earlier rungs are its own
                reused.append(reuse_decision(id_, rung, evidence_id))
        log_if_blocked(connection, built, entry, asked="retry", who=who)
        last_position = entry.answers[-1].position
        settlings.append(Settling(id_, last_position, failed=failed.get(id_)))
    candidate_standings.decide(connection, built.row.id, reused)
    settle(connection, built, settlings)
    payload = {"who": who, "candidates": list(entries)[:MAX_LOGGED_JOBS], "n": len(entries)}
    campaigns.log_event(connection, built.row.id, "retried", payload)


def _has_running_job(connection: Connection, built: Built, candidate_id: int) -> bool:
    listed = jobs.of_candidate(connection, built.row.id, candidate_id, [rung.id for rung in built.bought])
    return any(state == JobState.RUNNING for _, _, state, _ in listed)


def _job_changes(
    connection: Connection, outcomes: Mapping[int, _Outcome], held: Container[int] = ()
) -> list[JobChange]:
    """Returns the results. outcomes: by job id. held: ids of jobs whose candidates are now held."""
    changes = []
    for row in job_lists.job_rows(connection, list(outcomes)):
        outcome = outcomes[row.id]
        is_held = row.id in held
        changes.append(JobChange(row.id, row.rung, row.key, row.candidate, outcome.done, outcome.why, held=is_held))
    return changes
