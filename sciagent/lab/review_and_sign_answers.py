"""Review and signature of the answers of people: a second person has to `accept` an answer or to `send_back` it where
the rung asks for a review, and `sign` signs what is recorded.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Literal, get_args

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.errors import AnswerChangedError, UsageError
from sciagent.lab.claims_costs_and_vials import locked
from sciagent.lab.record_answers import Recorded, read_answer, record
from sciagent.lab.typed_answers import answer_in_words, typed_answer
from sciagent.store.lab import submissions, tasks
from sciagent.store.lab.submissions import REVIEWED, SENT_BACK, NewSubmission, Submission
from sciagent.store.lab.tasks import LabTask
from sciagent.store.people import audit

Meaning = Literal["measured", "reviewed", "approved"]
MEANINGS: tuple[Meaning, ...] = get_args(Meaning)
"""The meanings that a signature can have."""


def accept(built: Built, task_id: int, who: str, seen: int) -> Recorded:
    """Makes evidence of the answer that waits. seen: id of the submission that the reviewer read.

    Raises UsageError if none waits, or the same person entered it; AnswerChangedError if another answer waits than the
    one that the reviewer read."""
    with locked(built, task_id) as (connection, task, rung):
        waiting = _reviewable_answer(connection, task, who, seen)
        read = read_answer(connection, rung, task, typed_answer(waiting.said))
        typed_texts = {**waiting.said, "measured_by": waiting.who}
        new = replace(
            _word_on(waiting, task, REVIEWED, who, waiting.why),
            said=typed_texts,
            sample_id=waiting.sample_id,
            files=waiting.files,
        )
        tasks.write_change(connection, task.id, in_review_id=None)
        return record(connection, built, task, rung, read, new)


def send_back(built: Built, task_id: int, who: str, why: str, seen: int | None = None) -> None:
    """Gives an answer that waits back to the person who entered it. seen: as for `accept`; None: not compared. Raises
    the errors of `accept`."""
    with locked(built, task_id) as (connection, task, _):
        waiting = _reviewable_answer(connection, task, who, seen)
        new = replace(_word_on(waiting, task, SENT_BACK, who, why), revision=waiting.revision)
        submission_id = submissions.write(connection, new, task.campaign_id, "sent back")
        tasks.write_change(connection, task.id, in_review_id=None, sent_back_id=submission_id)


def _word_on(waiting: Submission, task: LabTask, kind: str, who: str, why: str | None) -> NewSubmission:
    """Returns a reviewer's word on an answer that waits, without values. kind: as in `NewSubmission`."""
    return NewSubmission(
        key=uuid.uuid4().hex,
        job_id=task.id,
        fence=waiting.fence,
        kind=kind,
        who=who,
        said={},
        of_id=waiting.id,
        why=why,
    )


def sign(built: Built, task_id: int, who: str, name: str, meaning: Meaning, seen: int) -> None:
    """Signs the last submission of a task; the entry of the audit trail has the printed name, the meaning, and the hash
    of the submission. seen: id of the submission that the person read.

    The caller has asked for the password. Raises UsageError if another submission came since."""
    with locked(built, task_id) as (connection, task, _):
        answers = [each for each in submissions.of_job(connection, task_id) if each.kind != SENT_BACK]
        if not answers or answers[-1].id != seen:
            raise UsageError(f"task {task_id} was changed since you read it; read it again before you sign")
        about: dict[str, object] = {
            "task": task_id,
            "name": name,
            "meaning": meaning,
            "submission_sha256": audit.submission_digest(connection, seen),
        }
        audit.append(connection, who, "signed", "submission", seen, campaign_id=task.campaign_id, **about)


def waiting_answer(connection: Connection, task: LabTask) -> Submission:
    """Returns the answer that waits for a second person. Raises UsageError if none waits."""
    if task.in_review_id is None:
        raise UsageError(f"no answer of task {task.id} waits for a review")
    return submissions.by_id(connection, task.in_review_id)


def _reviewable_answer(connection: Connection, task: LabTask, who: str, seen: int | None) -> Submission:
    """Returns the answer that a reviewer may decide about. Raises the errors of `accept`."""
    waiting = waiting_answer(connection, task)
    if waiting.who == who:
        raise UsageError(f"you entered the answer of task {task.id}; another person reviews it")
    if seen is not None and waiting.id != seen:
        raise AnswerChangedError(_change(connection, task, waiting, seen))
    return waiting


def _change(connection: Connection, task: LabTask, waiting: Submission, seen: int) -> str:
    """Returns what changed since a reviewer read an answer: the old one, the new one, and who entered each."""
    waiting_text = f'"{answer_in_words(waiting.said)}" by {waiting.who}'
    by_id = {submission.id: submission for submission in submissions.of_job(connection, task.id)}
    if seen not in by_id:
        which = f"the answer of task {task.id} that waits is {waiting_text}"
        return f"{which}; read it before you decide. Nothing was recorded"
    read_text = f'"{answer_in_words(by_id[seen].said)}" by {by_id[seen].who}'
    what = f"the answer of task {task.id} was changed since you read it"
    return f"{what}, from {read_text} to {waiting_text}. Nothing was recorded"
