"""Review and signature: a second person accepts an answer or sends it back, and people sign what is recorded."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Literal, get_args

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.errors import AnswerChangedError, UsageError
from sciagent.lab.answering import Recorded, finding_of, record
from sciagent.lab.claiming import locked
from sciagent.lab.typed_answers import typed_answer
from sciagent.store.lab import submissions, tasks
from sciagent.store.lab.submissions import REVIEWED, SENT_BACK, NewSubmission, Submission
from sciagent.store.lab.tasks import LabTask
from sciagent.store.people import audit

Meaning = Literal["measured", "reviewed", "approved"]
MEANINGS: tuple[Meaning, ...] = get_args(Meaning)
"""What a signature may mean."""


def accept(built: Built, task_id: int, who: str, seen: int) -> Recorded:
    """Makes evidence of the answer that waits. seen: id of the submission that the reviewer read.

    Raises UsageError if none waits, or the same person entered it; AnswerChangedError if another answer waits than the
    one that the reviewer read."""
    with locked(built, task_id) as (connection, task, rung):
        waiting = _waiting(connection, task, who, seen)
        finding = finding_of(connection, rung, task, typed_answer(waiting.said))
        said = {**waiting.said, "measured_by": waiting.who}
        new = NewSubmission(
            uuid.uuid4().hex, task.id, waiting.fence, REVIEWED, who, said,
            of_id=waiting.id, sample_id=waiting.sample_id, files=waiting.files, why=waiting.why,
        )  # fmt: skip
        tasks.changed(connection, task.id, in_review_id=None)
        return record(connection, built, task, rung, finding, new)


def send_back(built: Built, task_id: int, who: str, why: str, seen: int | None = None) -> None:
    """Gives an answer that waits back to the person who entered it. seen: as for `accept`; None: not compared. Raises
    the errors of `accept`."""
    with locked(built, task_id) as (connection, task, _):
        waiting = _waiting(connection, task, who, seen)
        new = NewSubmission(
            uuid.uuid4().hex, task.id, waiting.fence, SENT_BACK, who, {}, revision=waiting.revision,
            of_id=waiting.id, why=why,
        )  # fmt: skip
        submissions.write(connection, new, task.campaign_id, "sent back")
        tasks.changed(connection, task.id, in_review_id=None)


def sign(built: Built, task_id: int, who: str, name: str, meaning: Meaning, seen: int) -> None:
    """Signs the last submission of a task; the entry of the audit trail has the printed name, the meaning, and the hash
    of the submission. seen: id of the submission that the person read.

    The caller has asked for the password. Raises UsageError if another submission came since."""
    with locked(built, task_id) as (connection, task, _):
        signed = [each for each in submissions.of_job(connection, task_id) if each.kind != SENT_BACK]
        if not signed or signed[-1].id != seen:
            raise UsageError(f"task {task_id} was changed since you read it; read it again before you sign")
        about: dict[str, object] = {
            "task": task_id,
            "name": name,
            "meaning": meaning,
            "submission_sha256": audit.submission_digest(connection, seen),
        }
        audit.append(connection, who, "signed", "submission", seen, campaign_id=task.campaign_id, **about)


def answer_in_words(said: Mapping[str, Any]) -> str:
    """Returns what a submission says, in one line. said: its texts as they were typed."""
    parts = []
    if said.get("not_obtained"):
        parts = [f"not obtained: {said['not_obtained'].replace('_', ' ')}"]
    spreads = said.get("uncertainties", {})
    parts += [f"{name}: {grade}" for name, grade in said.get("grades", {}).items()]
    for name, value in said.get("values", {}).items():
        parts.append(f"{name} {value}" + (f" ± {spreads[name]}" if spreads.get(name) else ""))
    comment = f" “{said['comment']}”" if said.get("comment") else ""
    return ", ".join(parts) + comment


def waiting_answer(connection: Connection, task: LabTask) -> Submission:
    """Returns the answer that waits for a second person. Raises UsageError if none waits."""
    if task.in_review_id is None:
        raise UsageError(f"no answer of task {task.id} waits for a review")
    return submissions.by_id(connection, task.in_review_id)


def _waiting(connection: Connection, task: LabTask, who: str, seen: int | None) -> Submission:
    waiting = waiting_answer(connection, task)
    if waiting.who == who:
        raise UsageError(f"you entered the answer of task {task.id}; another person reviews it")
    if seen is not None and waiting.id != seen:
        raise AnswerChangedError(_change(connection, task, waiting, seen))
    return waiting


def _change(connection: Connection, task: LabTask, waiting: Submission, seen: int) -> str:
    """Returns what changed since a reviewer read an answer: the old one, the new one, and who entered each."""
    read = next((each for each in submissions.of_job(connection, task.id) if each.id == seen), None)
    now = f'"{answer_in_words(waiting.said)}" by {waiting.who}'
    if read is None:
        return f"the answer of task {task.id} that waits is {now}; read it before you decide. Nothing was recorded"
    before = f'"{answer_in_words(read.said)}" by {read.who}'
    return f"the answer of task {task.id} was changed since you read it, from {before} to {now}. Nothing was recorded"
