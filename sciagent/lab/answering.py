"""Answers of people: a submission as it was typed, and the evidence that is made from it, in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.record import Settling, decides, settle
from sciagent.campaign.lab.restating import restate, share
from sciagent.campaign.lab.sampling import fitting
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import Finding
from sciagent.domain.lab import LabAnswer
from sciagent.domain.outcomes import Outcome
from sciagent.domain.states import AttemptState, JobState
from sciagent.errors import AnsweredMeanwhileError, EvidenceConflictError, UsageError
from sciagent.lab.claiming import claim_finished, claim_here, claim_of, found, locked
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import attempts, leases
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.leases import JobEnd
from sciagent.store.lab import submissions, tasks
from sciagent.store.lab.submissions import NewSubmission, Submission
from sciagent.store.lab.tasks import LabTask
from sciagent.store.results import candidates, evidence
from sciagent.store.results.evidence import NewEvidence, RecordedEvidence
from sciagent.verification.contract import WorldVerifier


@dataclass(frozen=True)
class LabEntry:
    """An answer with what was typed."""

    answer: LabAnswer
    said: Mapping[str, Any]
    """Texts as they were typed, for the record."""
    who: str
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Made by the sender, so that an answer that is sent twice is recorded once."""
    why: str | None = None
    """Reason of a correction."""
    sample: str | None = None
    """Scanned code of the vial that was measured."""
    files: Sequence[Mapping[str, Any]] = ()
    """Name, sha256, size and media type of each attached file."""
    seen: int | None = None
    """Id of the last submission that the person saw, 0 for none; None: not compared."""


@dataclass(frozen=True)
class Recorded:
    """What became of an answer."""

    task: int
    state: str
    evidence_key: str
    """Empty while the answer waits for its review."""
    revision: int
    was_known: bool = False
    """Whether the same answer had been recorded before."""
    in_review: bool = False
    """Whether a second person has to accept it before it becomes evidence."""
    overdrawn: str = ""
    """Message on the limit of the budget that the measurement exceeds; empty if it exceeds none."""


def enter(built: Built, task_id: int, entry: LabEntry) -> Recorded:
    """Records an answer; a task that nobody has is claimed first, also if the budget does not hold it. For a task that
    is done, the answer is a correction, which needs a reason. Where the rung asks for a review, a second person decides
    whether it becomes evidence.

    Raises UsageError if the answer does not fit the form, another person has the task, or the task was cancelled;
    AnsweredMeanwhileError if somebody answered after `entry.seen`; EvidenceConflictError if another answer was sent
    with the same key."""
    with locked(built, task_id) as (connection, _, _):
        return enter_here(connection, built, task_id, entry)


def enter_here(connection: Connection, built: Built, task_id: int, entry: LabEntry) -> Recorded:
    """Records an answer in a transaction that has locked the campaigns. Raises the errors of `enter`."""
    task, rung = found(connection, built, task_id)
    if (before := submissions.with_key(connection, entry.key)) is not None:
        return _again(connection, task, entry, before)
    _check_seen(connection, task, entry)
    sample = None if entry.sample is None else fitting(connection, task, entry.sample).id
    if task.state is JobState.DONE and not entry.why:
        raise UsageError(f"task {task_id} is answered; a correction needs a reason", "give it with --why")
    overdrawn = ""
    if task.state is JobState.QUEUED:
        overdrawn = claim_finished(connection, built, task, rung, entry.who)
        task = tasks.find(connection, task_id) or task
    if task.state not in (JobState.RUNNING, JobState.DONE):
        raise UsageError(f"task {task_id} is over: {task.state}; nothing was recorded")
    if task.state is JobState.RUNNING and task.claimed_by != entry.who:
        claim_here(connection, built, task, rung, entry.who)  # raises the error that says who has it
    finding = finding_of(connection, rung, task, entry.answer)
    new = NewSubmission(
        entry.key, task.id, 0, _kind(finding), entry.who, entry.said, sample_id=sample, files=entry.files,
        why=entry.why if task.state is JobState.DONE else None,
    )  # fmt: skip
    if rung.spec.lab is not None and rung.spec.lab.review:
        recorded = _await_review(connection, task, rung, new)
    else:
        recorded = record(connection, built, task, rung, finding, new)
    return replace(recorded, overdrawn=overdrawn)


def record(
    connection: Connection, built: Built, task: LabTask, rung: BuiltRung, finding: Finding, new: NewSubmission
) -> Recorded:
    """Makes evidence of an answer: the first of a task that is claimed, or a revision of one that is done. The evidence
    bears the name of `new.who`."""
    if task.state is JobState.DONE:
        return _correct(connection, built, task, rung, finding, new)
    return _complete(connection, built, task, rung, finding, new)


def _complete(
    connection: Connection, built: Built, task: LabTask, rung: BuiltRung, finding: Finding, new: NewSubmission
) -> Recorded:
    claim, begun = claim_of(connection, task)
    candidate = candidates.load(connection, [task.candidate_id])[task.candidate_id]
    key = rung.verifier.evidence_key(candidate, task.replicate)
    state = AttemptState.CANCELLED_LATE if task.cancel_requested else AttemptState.DONE
    seconds = (db_now(connection) - begun).total_seconds()
    cost = rung.declared(candidate) or Cost()  # booked when the task was claimed
    attempts.end_many(connection, [AttemptEnd(claim.attempt_id, state, cost, seconds, finding.outcome, finding.reason)])
    leases.end_held(connection, [JobEnd(claim, JobState.DONE, finding.outcome)])
    made = NewEvidence(
        finding, key, task.candidate_id, attempt_id=claim.attempt_id, source=f"task {task.id}", who=_measured_by(new)
    )
    [recorded] = evidence.record_once(connection, [made])
    evidence_id = recorded if isinstance(recorded, int) else recorded.id
    attempts.mark_end(connection, [claim.attempt_id], None if isinstance(recorded, int) else recorded.watermark)
    new = replace(new, fence=claim.fence, evidence_id=evidence_id)
    submissions.write(connection, new, task.campaign_id, _act(new, "entered"))
    tasks.changed(connection, task.id, **({} if new.sample_id is None else {"sample_id": new.sample_id}))
    if decides(connection, rung, task.candidate_id):
        settle(connection, built, [Settling(task.candidate_id, rung.rules.position)])
    why = f"task {task.id} of {task.campaign} asked for the same, and was answered"
    asking = tasks.asking_for(connection, task.evidence_key)
    share(connection, built.ledger, asking, evidence_id, f"task {task.id}", why)
    campaigns.wake(connection, built.row.id)
    return Recorded(task.id, JobState.DONE, key.hash, key.revision)


def finding_of(connection: Connection, rung: BuiltRung, task: LabTask, answer: LabAnswer) -> Finding:
    """Returns what an answer says of the task's molecule. Raises UsageError if it does not fit the form."""
    verifier = rung.verifier
    assert isinstance(verifier, WorldVerifier)  # the registry checks it
    return verifier.read(candidates.load(connection, [task.candidate_id])[task.candidate_id], answer)


def _await_review(connection: Connection, task: LabTask, rung: BuiltRung, new: NewSubmission) -> Recorded:
    before = submissions.of_job(connection, task.id)
    revision = 0
    if task.state is JobState.DONE:
        revision = _current(connection, task, rung)[1] + 1
    fence = before[-1].fence if task.state is JobState.DONE else claim_of(connection, task)[0].fence
    of_id = before[-1].id if before else None
    new = replace(new, fence=fence, revision=revision, of_id=of_id)
    id_ = submissions.write(connection, new, task.campaign_id, "entered for review")
    tasks.changed(connection, task.id, in_review_id=id_)
    return Recorded(task.id, task.state, "", revision, in_review=True)


def _check_seen(connection: Connection, task: LabTask, entry: LabEntry) -> None:
    if entry.seen is None:
        return
    later = [each for each in submissions.of_job(connection, task.id) if each.id > entry.seen]
    if later:
        raise AnsweredMeanwhileError(task.id, later[-1].who)


def _again(connection: Connection, task: LabTask, entry: LabEntry, before: Submission) -> Recorded:
    """Returns what became of an answer that was sent before. Raises EvidenceConflictError if it was another one."""
    same_files = [dict(file) for file in before.files] == [dict(file) for file in entry.files]
    if before.job_id != task.id or dict(before.said) != dict(entry.said) or not same_files:
        raise EvidenceConflictError(
            f"the key {entry.key} was used for another answer, which is recorded; this one is not. "
            "Load the task again to see the first one, and correct it there"
        )
    known = submissions.evidence_key(connection, before.evidence_id) if before.evidence_id is not None else None
    return Recorded(task.id, task.state, known or "", before.revision, was_known=True, in_review=known is None)


def _correct(
    connection: Connection, built: Built, task: LabTask, rung: BuiltRung, finding: Finding, new: NewSubmission
) -> Recorded:
    """Records a revision of a task that is done, and places its candidate again in every campaign with the rung."""
    candidate = candidates.load(connection, [task.candidate_id])[task.candidate_id]
    current, revision = _current(connection, task, rung)
    key = replace(rung.verifier.evidence_key(candidate, task.replicate), revision=revision + 1)
    attempt_id = submissions.attempt_of(connection, current.id)
    made = NewEvidence(
        finding, key, task.candidate_id, attempt_id=attempt_id, source=f"task {task.id}", who=_measured_by(new),
        why=new.why, supersedes=current.id,
    )  # fmt: skip
    [evidence_id] = evidence.record(connection, [made])
    last = submissions.of_job(connection, task.id)[-1]
    new = replace(new, fence=last.fence, revision=key.revision, of_id=last.id, evidence_id=evidence_id)
    submissions.write(connection, new, task.campaign_id, _act(new, "corrected"))
    tasks.changed(connection, task.id)
    restate(connection, built, task.candidate_id, rung.verifier.computation, f"task {task.id} was corrected")
    return Recorded(task.id, JobState.DONE, key.hash, key.revision)


def _current(connection: Connection, task: LabTask, rung: BuiltRung) -> tuple[RecordedEvidence, int]:
    """Returns the evidence of a task that is done, and its revision."""
    of = [task.candidate_id]
    return evidence.latest(connection, of, rung.verifier.computation, task.replicate)[task.candidate_id]


def _kind(finding: Finding) -> str:
    return "result" if finding.outcome is Outcome.OK else "not_obtained"


def _act(new: NewSubmission, otherwise: str) -> str:
    return "accepted" if new.kind == submissions.REVIEWED else otherwise


def _measured_by(new: NewSubmission) -> str:
    """Returns who measured; a reviewer's submission names the person."""
    return str(new.said["measured_by"]) if new.kind == submissions.REVIEWED else str(new.who)
