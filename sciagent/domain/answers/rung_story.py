"""What one rung has to do with one candidate: decisions, attempts and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sciagent.domain.answers.evidence_story import EvidenceStory
from sciagent.domain.answers.model import AnswerModel


class AttemptStory(AnswerModel):
    """One attempt of a job."""

    state: str
    """State of the attempt."""
    outcome: str | None
    """How it ended."""
    reason: str | None
    """Why it ended so."""
    detail: str
    """The same in words."""
    core_seconds: float
    """What it cost, in core-seconds."""
    wall_seconds: float | None
    """How long it took by the clock, in seconds."""
    started_at: datetime | None
    """When it began (UTC)."""
    host: str
    """The machine."""


class DecisionStory(AnswerModel):
    """One decision to run or reuse a rung."""

    action: str
    """`run`, `reuse` or `promote`."""
    chooser: str
    """Who chose: a scheduler, or `person:` and a name."""
    why: str | None
    """The reason."""
    index: float | None
    """What the candidate was chosen by."""
    price: Mapping[str, float] | None
    """Price of a unit of each limit, in hits or utility."""
    law_version: str | None
    """The law that it was chosen by."""
    propensity: float | None
    """Probability of the choice."""
    watermark: int | None
    """The last evidence that was known."""
    at: datetime
    """When (UTC)."""


class RungStory(AnswerModel):
    """What one rung said of a candidate, and what it cost."""

    rung: str
    """Label of the rung."""
    tier: str
    """Tier of its verifier."""
    verifier: str
    """Name of its verifier."""
    version: str
    """Version of its verifier."""
    settings: Mapping[str, object]
    """Settings of its verifier."""
    gate: tuple[str, ...]
    """Windows of its gate."""
    objectives: tuple[str, ...]
    """Windows of the objectives that it decides."""
    is_terminal: bool
    """Whether it decides."""
    outcome: str | None
    """How it ended; null where it did not run."""
    verdict: str | None
    """The verdict by gate and objectives; null where there is none."""
    reason: str | None
    """The reason of the verdict."""
    detail: str
    """The same with numbers."""
    job: str | None
    """State of its job; null where there is none."""
    reused: bool
    """Whether the answer was known before."""
    core_seconds: float
    """What it cost, in core-seconds."""
    attempts: tuple[AttemptStory, ...]
    """Each attempt, oldest first."""
    decisions: tuple[DecisionStory, ...]
    """Each decision, oldest first."""
    evidence: EvidenceStory | None
    """Its answer; null where there is none."""
