"""The answer of `sciagent rollout`: groups of episodes."""

from __future__ import annotations

from sciagent.domain.answers.model import AnswerModel


class RolledGroup(AnswerModel):
    """A group of episodes that began alike."""

    group: int
    """Number of the group in its campaign, from 1."""
    state: str
    """`open`, `complete` or `broken`."""
    siblings: int
    """Number of episodes."""
    turns: int
    proposals: int
    new: int
    """Proposals that were new to their episode and to the snapshot that it saw."""
    snapshot: int
    """Watermark of the snapshot: later evidence had no influence on the episodes."""


class RolloutAnswer(AnswerModel):
    """The rollouts of a campaign."""

    campaign: str
    state: str
    """State of the campaign."""
    policy: str
    """Name of the policy, with its version."""
    groups: tuple[RolledGroup, ...]
    """The groups that this call began or continued."""
    turns: int
    """Turns that this call has added."""
    seconds: float
    """Elapsed time of these turns, in seconds."""
    stopped: str | None
    """Why groups are left open; None if none is."""
