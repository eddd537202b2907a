"""The answers about work of people: tasks, claims, and what was entered."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.answers.values import StructureText

TaskState = Literal["waiting", "queued", "claimed", "in_review", "answered", "cancelled"]


class LabAsked(AnswerModel):
    """A quantity that a task asks for."""

    property: str
    """Name of the property."""
    units: tuple[str, ...]
    """Units in which it may be entered."""
    grades: tuple[str, ...] = ()
    """Words for the answer, from the worst to the best; empty for a number."""


class LabTaskAnswer(StructureText):
    """A task for people."""

    task: int
    """Number of the task."""
    code: str | None
    """Code of its sample; null without one."""
    campaign: str
    """Name of the campaign."""
    rung: str
    """Label of the rung."""
    key: str
    """Key of the candidate."""
    asks: tuple[LabAsked, ...]
    """Quantities that are to be measured."""
    method: str
    """Method of measurement, with its conditions."""
    question: str = ""
    """The question, where a person judges instead of measuring."""
    why: str
    """Reason of the scheduler for the measurement."""
    due_at: datetime | None
    """Deadline (UTC); null without one."""
    state: TaskState
    """`waiting`: for the word of a chemist; `queued`: on the list; `claimed`; `in_review`: for a second
    person; `answered`; `cancelled`."""
    claimed_by: str | None
    """The person who has claimed it."""
    blind: bool = False
    """Whether what is known of the candidate is hidden, and each measurement of it is another person's."""
    slot_at: datetime | None = Field(default=None, exclude_if=lambda value: value is None)
    """Time (UTC) at which a slot of the week is free for it; left out where it can be claimed now, or is claimed."""
    is_unwanted: bool = False
    """Whether it is not wanted any more although somebody has claimed it; an answer still counts."""


class LabClaimed(AnswerModel):
    """A claim of a task, or its end."""

    task: int
    """Number of the task."""
    state: TaskState
    """State of the task now."""
    claimed_by: str | None
    """The person who has claimed it."""
    cost_given_back: bool | None = None
    """After a release: whether its cost was given back, as it is within a day."""


class LabSampleAnswer(StructureText):
    """A vial of a candidate."""

    code: str
    """Code on its label: ten signs and a check sign."""
    task: int | None
    """Number of the task that it was registered for."""
    form: str
    """Salt form and solvates."""
    source: str
    """`made`, `bought` or `given`."""
    lot: str | None = None
    """Batch."""
    purity: float | None = None
    """Mass fraction, from 0 to 1."""
    purity_how: str | None = None
    """Method by which the purity was found."""
    made_by: str | None = None
    """Who made it."""
    place: str | None = None
    """Where it is kept."""
    state: str = "ok"
    """`ok`, `empty` or `bad`."""


class LabWaiting(AnswerModel):
    """An answer that waits for a second person."""

    task: int
    """Number of the task."""
    answer: int
    """Number of the answer, which the person who accepts it names."""
    who: str
    """Person who entered it."""
    at: datetime
    """Time (UTC) at which it was entered."""
    text: str
    """The answer in words, with numbers and units as they were typed."""
    why: str | None
    """Reason of a correction; null otherwise."""


class LabEntered(AnswerModel):
    """What became of an answer."""

    task: int
    """Number of the task."""
    state: TaskState
    """State of the task now."""
    evidence_key: str
    """Key of the evidence that was made of it; empty while it waits for its review."""
    revision: int
    """0, or the number of the correction."""
    overdrawn: str = Field(default="", exclude_if=lambda value: not value)
    """Message on the limit of the budget that the measurement exceeds; left out if it exceeds none."""
