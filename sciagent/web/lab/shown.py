"""A task as its page shows it: the question, what is known, and what was answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.domain.answers.lab import LabTaskAnswer
from sciagent.domain.lab import NOT_OBTAINED
from sciagent.domain.properties import properties
from sciagent.domain.states import JobState
from sciagent.lab.listing import TaskReader
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import samples, submissions, tasks
from sciagent.store.lab.samples import Vial
from sciagent.store.lab.submissions import Submission
from sciagent.store.lab.tasks import LabTask
from sciagent.store.people import audit
from sciagent.store.people.audit import AuditEntry
from sciagent.store.views import candidates
from sciagent.web.words import in_words

REASONS = {
    "synthesis_failed": "the synthesis failed",
    "decomposed": "it decomposed",
    "insoluble": "it did not dissolve",
    "impure": "it could not be purified",
}
"""{reason: words} for which a molecule could not be measured."""
assert set(REASONS) == set(NOT_OBTAINED)
MEANINGS = {
    "standard": "one standard deviation",
    "interval_95": "95 % interval",
    "tolerance": "tolerance of the instrument",
}


@dataclass(frozen=True)
class Known:
    """A value that a rung found before."""

    rung: str
    property: str
    value: str
    level: str


@dataclass(frozen=True)
class TaskPage:
    """A task with everything that its page shows."""

    task: LabTaskAnswer
    labels: dict[str, str]
    """Words for each property that is asked for."""
    notes: dict[str, str]
    """{property: its description}, so that a number without a unit says what it is."""
    known: Sequence[Known]
    answers: Sequence[Submission]
    """What people entered, oldest first."""
    signatures: Sequence[AuditEntry]
    vials: Sequence[Vial]
    waiting: Submission | None
    """The answer that waits for a second person."""
    others: Sequence[LabTask]
    """Tasks of the same molecule by other methods, or in other campaigns."""

    @property
    def last(self) -> int:
        """Returns the id of the last submission; 0 without one."""
        return self.answers[-1].id if self.answers else 0

    @property
    def latest(self) -> Submission | None:
        """Returns the last answer that has values or a reason."""
        return next((each for each in reversed(self.answers) if each.kind != submissions.SENT_BACK), None)


def read_task(ledger: Ledger, task: LabTask, reader: TaskReader) -> TaskPage:
    """Returns a task for its page. reader: one that may know the campaign already."""
    with ledger.read() as connection:
        [shown] = reader.shown(connection, [task])
        answers = submissions.of_job(connection, task.id)
        of = tasks.of_candidate(connection, task.candidate_id)
        signed = audit.of_object(connection, "submission", [each.id for each in answers])
        return TaskPage(
            shown,
            {asked.property: in_words(asked.property) for asked in shown.asks},
            {asked.property: found.description for asked in shown.asks if (found := properties().get(asked.property))},
            [] if shown.blind else _known(connection, task),
            answers,
            [entry for entry in signed if entry.what == "signed"],
            samples.of_candidate(connection, task.candidate_id, 20),
            next((each for each in answers if each.id == task.in_review_id), None),
            [] if shown.blind else [each for each in of if each.id != task.id and each.state != JobState.CANCELLED],
        )


def _known(connection: Connection, task: LabTask) -> list[Known]:
    row = campaigns.get(connection, task.campaign)
    ladder = campaigns.rungs(connection, row.id)
    answers = candidates.answers(connection, row, ladder, [task.candidate_id]).get(task.candidate_id, ())
    return [
        Known(answer.rung, in_words(measured.property), str(measured.quantity), measured.level.label)
        for answer in answers
        if answer.rung != task.rung
        for measured in answer.measured
    ]
