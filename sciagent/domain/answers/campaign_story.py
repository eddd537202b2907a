"""What became of a candidate in one campaign, and why it stands where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.answers.outlook import Outlook
from sciagent.domain.answers.rung_story import RungStory
from sciagent.domain.answers.values import CandidateName


class ProposalStory(AnswerModel):
    """One time that a candidate was proposed."""

    by: str
    """The proposer, or the person."""
    is_person: bool
    """Whether a person proposed it."""
    turn: int | None
    """Number of the proposer's turn; null for a person."""
    text: str
    """The text as it was handed in."""
    status: str
    """`new`, `duplicate` or `refused`."""
    operation: str | None
    """How it was made: `seed`, or the name of an operation."""
    rationale: str | None
    """Why, in the proposer's words."""
    predicted: Mapping[str, object]
    """What the proposer foretold, by property."""
    at: datetime
    """When (UTC)."""
    parents: tuple[CandidateName, ...]
    """What it was made from."""


class PersonWord(AnswerModel):
    """What a person said of a candidate."""

    verb: str
    """`hold`, `veto`, `release`, `promote` or `add`."""
    rung: str | None
    """The rung that a promotion goes to."""
    who: str
    """Who said it."""
    why: str
    """The reason."""
    at: datetime
    """When (UTC)."""


class CampaignStory(AnswerModel):
    """What became of a candidate in one campaign."""

    campaign: str
    """Name of the campaign."""
    state: str
    """State of the campaign."""
    scheduler: str
    """Its scheduler."""
    standing: str
    """Where the candidate stands: open, pending, held, vetoed, dropped or settled."""
    rung: str
    """The rung that it waits for, or that decided."""
    verdict: str | None
    """The verdict that decided; null while it is open."""
    reason: str | None
    """The reason of that verdict."""
    detail: str
    """The same with numbers."""
    score: float | None
    """What orders open candidates, in (0, 1]; not a probability."""
    utility: float | None
    """Weighted geometric mean of the desirabilities, in (0, 1]; null until it is settled."""
    hit: bool
    """Whether it is a hit."""
    in_seeds: bool
    """Whether it stood in a file of seeds."""
    proposed: tuple[ProposalStory, ...]
    """Each time that it was proposed, oldest first."""
    rungs: tuple[RungStory, ...]
    """What each rung said, in ladder order."""
    people: tuple[PersonWord, ...]
    """What people said, oldest first."""
    core_seconds: float
    """What it cost this campaign, in core-seconds."""
    outlook: Outlook | None
    """What it promises; null unless it waits in a campaign scheduled by `priced`."""
    why: str
    """Why it stands there, in a sentence or two."""
