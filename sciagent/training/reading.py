"""Reads the turns of models from the ledger, each with the messages that it answered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.agent.episode import Episode, EpisodeLimits
from sciagent.agent.messages import Message, from_json, to_json
from sciagent.agent.skills import labels
from sciagent.campaign.core.build import Built, open_for_people
from sciagent.domain.evidence import content_hash
from sciagent.store.campaign_state import trajectories
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import episodes
from sciagent.store.learning.episodes import EpisodeRow
from sciagent.store.learning.tool_sets import tool_set_content
from sciagent.store.views import episodes as report_episodes
from sciagent.store.views.episodes import Proposed
from sciagent.training.answer_spans import SampledAnswers, SampledTokens

EVALUATION = "evaluation"  # purpose of episodes that are never trained on


@dataclass(frozen=True)
class RecordedEpisode:
    """An episode of a model."""

    campaign: str
    id: int
    """Id of the trajectory."""
    number: int
    """Number of the trajectory in its campaign."""
    group: int | None
    """Id of the group of its siblings; None for an episode without siblings."""
    sibling: int | None
    policy: str | None
    purpose: str
    task: str
    """Hash of the goal; equal for the same goal in two campaigns."""
    opening: tuple[Message, ...]
    thinking: str
    """Whether later prompts repeat the thinking: `preserve` or `strip`."""
    skill: str | None = None
    """Names and hashes of the skills in the prompt; None without any."""


@dataclass(frozen=True)
class AnsweredTurn:
    """A turn of a model."""

    episode: RecordedEpisode
    id: int
    number: int
    prompt: tuple[Message, ...]
    """All messages that the model answered."""
    answer: Message
    tools: str
    """The tools that were offered, as JSON in OpenAI's format; an empty list if the prompt lists them."""
    row: Mapping[str, Any]
    """The row of the table `turn`."""
    proposals: tuple[Proposed, ...]
    sampled: SampledTokens | None = None
    """The tokens; None if the server returned none."""

    @property
    def new(self) -> list[int]:
        """The ids of the candidates that were new in the campaign, in the order of the proposals."""
        ids = (p.candidate_id for p in self.proposals if p.status == "new")
        return list(dict.fromkeys(id_ for id_ in ids if id_ is not None))

    @cached_property
    def state(self) -> str:
        """A hash of the prompt and the tools; equal for equal questions."""
        return content_hash([[to_json(message) for message in self.prompt], self.tools])


class TrainingCampaign:
    """A campaign as of a watermark. Raises UnknownNameError for an unknown name."""

    def __init__(self, ledger: Ledger, name: str, as_of: int) -> None:
        self.built: Built = open_for_people(ledger, name)
        self.as_of = as_of
        self._tools: dict[int | None, str] = {None: "[]"}

    @property
    def name(self) -> str:
        return self.built.row.name

    def rows(self, connection: Connection) -> list[EpisodeRow]:
        """Returns the episodes, those of a group one after the other."""
        return episodes.episodes(connection, self.built.row.id, self.as_of)

    def episode(self, connection: Connection, row: EpisodeRow) -> RecordedEpisode:
        j, g = t.trajectory.c, t.rollout_group.c
        query = sa.select(j.settings, j.purpose, g.opening)
        query = query.select_from(t.trajectory.outerjoin(t.rollout_group, g.id == j.group_id)).where(j.id == row.id)
        settings, purpose, shared = connection.execute(query).one()
        opening = settings.get("opening") or shared or ()
        return RecordedEpisode(
            *(self.name, row.id, row.number, row.group_id, row.sibling, row.policy, purpose),
            task=self.task,
            opening=tuple(map(from_json, opening)),
            thinking=settings.get("thinking", "preserve"),
            skill=labels(settings),
        )

    @property
    def task(self) -> str:
        """The hash of the goal, which groups of rollouts share with the campaign that they are in."""
        spec = self.built.row.spec
        return content_hash({"objectives": spec["objectives"], "goal": spec["goal"]})

    def turns(self, connection: Connection, episode: RecordedEpisode) -> Iterator[AnsweredTurn]:
        """Yields the turns of an episode before the watermark; turns without a message, as of scripts, are left out."""
        limits = EpisodeLimits(thinking="strip" if episode.thinking == "strip" else "preserve")
        talk = Episode(episode.number, 0, episode.opening, limits)
        proposals: dict[int, list[Proposed]] = {}
        for proposal in report_episodes.proposals(connection, episode.id):
            proposals.setdefault(proposal.turn_id, []).append(proposal)
        rows = self.raw_turns(connection, episode)
        sampled = SampledAnswers(connection, rows).tokens()
        for row in rows:
            if row["message"] is None:
                continue
            answer = from_json(row["message"])
            tools = self._offered(connection, row["tool_set_id"])
            prompt, own = tuple(talk.messages), tuple(proposals.get(row["id"], ()))
            yield AnsweredTurn(
                episode, row["id"], row["number"], prompt, answer, tools, row, own, sampled.get(row["number"])
            )
            talk.restore((answer, *map(from_json, row["observations"])), dict(row["cursor"] or {}))

    def raw_turns(self, connection: Connection, episode: RecordedEpisode) -> Sequence[Any]:
        """Returns the rows of the turns before the watermark, in order: those that versions of rewards have, too."""
        return [row for row in trajectories.turns(connection, episode.id) if row["watermark"] < self.as_of]

    def _offered(self, connection: Connection, tool_set_id: int | None) -> str:
        if tool_set_id not in self._tools:
            offered = tool_set_content(connection, int(tool_set_id or 0))["tools"]
            self._tools[tool_set_id] = json.dumps(offered, ensure_ascii=False)
        return self._tools[tool_set_id]
