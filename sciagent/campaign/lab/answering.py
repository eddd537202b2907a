"""Answers of people: a submission as it was typed, and the evidence that is made from it, in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.record import Settling, settle
from sciagent.campaign.lab.claiming import claim_here, claim_of, locked
from sciagent.campaign.lab.restating import restate
from sciagent.campaign.lab.sampling import fitting
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import Finding
from sciagent.domain.jobs.lab import LabAnswer
from sciagent.domain.jobs.states import AttemptState, JobState
from sciagent.domain.outcomes import Outcome
from sciagent.errors import EvidenceConflictError, UsageError
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import attempts, leases
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.leases import JobEnd
from sciagent.store.lab import submissions, tasks
from sciagent.store.lab.submissions import NewSubmission, Submission
from sciagent.store.lab.tasks import LabTask
from sciagent.store.results import candidates, evidence
from sciagent.store.results.evidence import NewEvidence
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


@dataclass(frozen=True)
class Recorded:
    """What became of an answer."""

    task: int
    state: str
    evidence_key: str
    revision: int
    was_known: bool = False
    """Whether the same answer had been recorded before."""


def enter(built: Built, task_id: int, entry: LabEntry) -> Recorded:
    """Records an answer; a task that nobody has is claimed first. For a task that is done, the answer is a correction,
    which needs a reason.

    Raises UsageError if the answer does not fit the form, another person has the task, or the task was cancelled;
    EvidenceConflictError if another answer was sent with the same key, or another correction came first."""
    with locked(built, task_id) as (connection, task, rung):
        if (before := submissions.with_key(connection, entry.key)) is not None:
            return _again(connection, task, entry, before)
        sample = None if entry.sample is None else fitting(connection, task, entry.sample).id
        if task.state is JobState.DONE:
            return _correct(connection, built, task, rung, entry, sample)
        if task.state is JobState.QUEUED:
            claim_here(connection, built, task, rung, entry.who)
            task = tasks.find(connection, task_id) or task
        if task.state is not JobState.RUNNING:
            raise UsageError(f"task {task_id} is over: {task.state}; nothing was recorded")
        if task.claimed_by != entry.who:
            claim_here(connection, built, task, rung, entry.who)  # raises the error that says who has it
        return _complete(connection, built, task, rung, entry, sample)


def _complete(
    connection: Connection, built: Built, task: LabTask, rung: BuiltRung, entry: LabEntry, sample: int | None
) -> Recorded:
    claim, begun = claim_of(connection, task)
    candidate, finding = _finding(connection, rung, task, entry)
    key = rung.verifier.evidence_key(candidate)
    state = AttemptState.CANCELLED_LATE if task.cancel_requested else AttemptState.DONE
    seconds = (db_now(connection) - begun).total_seconds()
    cost = rung.declared(candidate) or Cost()  # booked when the task was claimed
    attempts.end_many(connection, [AttemptEnd(claim.attempt_id, state, cost, seconds, finding.outcome, finding.reason)])
    leases.end_held(connection, [JobEnd(claim, JobState.DONE, finding.outcome)])
    new = NewEvidence(
        finding, key, task.candidate_id, attempt_id=claim.attempt_id, source=f"task {task.id}", who=entry.who
    )
    [recorded] = evidence.record_once(connection, [new])
    evidence_id = recorded if isinstance(recorded, int) else recorded.id
    attempts.mark_end(connection, [claim.attempt_id], None if isinstance(recorded, int) else recorded.watermark)
    kind = _kind(finding)
    submission = NewSubmission(entry.key, task.id, claim.fence, kind, entry.who, entry.said, sample_id=sample)
    submission = replace(submission, evidence_id=evidence_id)
    submissions.write(connection, submission)
    tasks.changed(connection, task.id, **({} if sample is None else {"sample_id": sample}))
    settle(connection, built, [Settling(task.candidate_id, rung.rules.position)])
    campaigns.wake(connection, built.row.id)
    return Recorded(task.id, JobState.DONE, key.hash, key.revision)


def _finding(connection: Connection, rung: BuiltRung, task: LabTask, entry: LabEntry) -> tuple[Any, Finding]:
    verifier = rung.verifier
    assert isinstance(verifier, WorldVerifier)  # the registry checks it
    candidate = candidates.load(connection, [task.candidate_id])[task.candidate_id]
    return candidate, verifier.read(candidate, entry.answer)


def _again(connection: Connection, task: LabTask, entry: LabEntry, before: Submission) -> Recorded:
    """Returns what became of an answer that was sent before. Raises EvidenceConflictError if it was another one."""
    if before.job_id != task.id or dict(before.said) != dict(entry.said):
        raise EvidenceConflictError(f"the key {entry.key} was used for another answer; nothing was recorded")
    known = submissions.evidence_key(connection, before.evidence_id) if before.evidence_id is not None else None
    return Recorded(task.id, task.state, known or "", before.revision, was_known=True)


def _correct(
    connection: Connection, built: Built, task: LabTask, rung: BuiltRung, entry: LabEntry, sample: int | None
) -> Recorded:
    """Records a revision of a task that is done, and places its candidate again in every campaign with the rung."""
    if not entry.why:
        raise UsageError(f"task {task.id} is answered; a correction needs a reason: --why")
    candidate, finding = _finding(connection, rung, task, entry)
    current, revision = evidence.latest(connection, [task.candidate_id], rung.verifier.computation)[task.candidate_id]
    key = replace(rung.verifier.evidence_key(candidate), revision=revision + 1)
    attempt_id = submissions.attempt_of(connection, current.id)
    new = NewEvidence(
        finding, key, task.candidate_id, attempt_id=attempt_id, source=f"task {task.id}", who=entry.who,
        why=entry.why, supersedes=current.id,
    )  # fmt: skip
    [evidence_id] = evidence.record(connection, [new])
    last = submissions.of_job(connection, task.id)[-1]
    submissions.write(
        connection,
        NewSubmission(
            entry.key, task.id, last.fence, _kind(finding), entry.who, entry.said,
            revision=key.revision, of_id=last.id, why=entry.why, evidence_id=evidence_id, sample_id=sample,
        ),
    )  # fmt: skip
    tasks.changed(connection, task.id)
    restate(connection, built, task.candidate_id, rung.verifier.computation, f"task {task.id} was corrected")
    return Recorded(task.id, JobState.DONE, key.hash, key.revision)


def _kind(finding: Finding) -> str:
    return "result" if finding.outcome is Outcome.OK else "not_obtained"
