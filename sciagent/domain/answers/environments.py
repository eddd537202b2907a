"""The answers about episodes: groups of rollouts, the tasks of an environment, its episodes and replies to turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sciagent.domain.answers.model import AnswerModel

Messages = tuple[Mapping[str, Any], ...]
"""Messages in OpenAI's format."""


class EnvironmentTask(AnswerModel):
    """A task of an environment. The tasks of a campaign have one goal and differ by their seed."""

    task: int
    """Number of the task, from 0."""
    campaign: str
    goal: str
    """Goal, ladder and budget of the campaign, in words."""
    seed: int
    """Seed of the random choices of the tools in the task's episodes."""
    turns: int
    """Largest number of turns of an episode."""


class OpenedEpisode(AnswerModel):
    """An episode that a client has opened."""

    episode: int
    """Number of the episode in its campaign."""
    group: int
    """Number of its group: the episodes that began alike."""
    sibling: int
    """Number of the episode in its group, from 0."""
    siblings: int
    """Number of episodes of the group."""
    turns: int
    """Largest number of turns."""
    messages: Messages
    """The messages with which the conversation begins: system and user."""
    tools: tuple[Mapping[str, Any], ...]
    """Schemas of the tools in OpenAI's format."""


class EpisodeReply(AnswerModel):
    """The reply of the environment to one turn."""

    episode: int
    turn: int
    """Number of the turn in its episode, from 0."""
    messages: Messages
    """The answers of the tools."""
    reward: float | None
    """The turn's reward by the evidence so far, in hits or utility; None if it is undecided yet."""
    done: bool
    """Whether the episode has ended."""
    ended: str | None
    """Why the episode has ended; None while it goes on."""


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
