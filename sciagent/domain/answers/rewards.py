"""The answers of `sciagent rewards`: a published version, and the rewards of its episodes."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from sciagent.domain.answers.model import AnswerModel


class ChangedReward(AnswerModel):
    """A turn whose reward is another one than before."""

    episode: int
    """Number of the trajectory in its campaign."""
    turn: int
    was: float | None
    """None: undecided, or not there."""
    now: float | None


class PublishedRewards(AnswerModel):
    """A version of rewards."""

    version: int
    spec_hash: str
    watermark: int
    law: int | None
    """Row of the law that valued unsettled candidates; None if there was none."""
    episodes: int
    rewarded: int
    """Episodes whose outcome is decided."""
    undecided: int
    changed: tuple[ChangedReward, ...]
    """Turns whose rewards differ from those of the previous version."""


class RewardedCandidate(AnswerModel):
    """A candidate in the turn that proposed it first."""

    key: str
    value: float | None
    """Worth in hits or utility; None if undecided."""
    cost: float
    """Price × amount over all resources that were booked for the candidate, in hits or utility."""
    resources: Mapping[str, float]
    """The amount of each of them, also of those without a price."""
    settled: bool


class RewardedTurn(AnswerModel):
    """A turn with its reward, in hits or utility."""

    turn: int
    reward: float | None
    to_go: float | None = Field(serialization_alias="return")
    """Sum of the rewards from this turn on; `return` in JSON."""
    advantage: float | None
    """None: undecided, or the episode has no siblings."""
    terms: Mapping[str, float | None]
    candidates: tuple[RewardedCandidate, ...]


class RewardedEpisode(AnswerModel):
    """An episode with its rewards."""

    episode: int
    group: int | None
    """Number of its rollout group; None for an episode without siblings."""
    sibling: int | None
    policy: str | None
    outcome: float | None
    turns: tuple[RewardedTurn, ...]


class ShownRewards(AnswerModel):
    """A version of rewards with all its episodes."""

    version: int
    campaign: str
    spec_hash: str
    watermark: int
    law: int | None
    episodes: tuple[RewardedEpisode, ...]
