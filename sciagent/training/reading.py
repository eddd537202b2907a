"""Reads the turns of models from the ledger, each with the messages that it answered.

An episode's answers have places in its training rows, and conditions under which they were drawn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.agent.episode import Episode, EpisodeLimits
from sciagent.agent.messages import Message, from_json, to_json
from sciagent.agent.skills import labels
from sciagent.agent.trace import CONTEXT, Row, calls_of, schema_of
from sciagent.campaign.core.build import Built
from sciagent.campaign.core.opening import open_for_people
from sciagent.domain.evidence import content_hash
from sciagent.store.campaign_state import trajectories
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import episodes
from sciagent.store.learning.episodes import EpisodeRow
from sciagent.store.learning.policies import tool_set_content
from sciagent.store.views.episodes import EpisodeProposal, episode_proposals


class SampledTokens(NamedTuple):
    """The tokens of one answer as they were sampled."""

    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    """(n,)"""
    mask: tuple[bool, ...]
    """(n,) whether the token may be trained: it was not forced, and its distribution is known."""
    drawn: Mapping[str, object]
    """Temperature and schema."""


class SampledAnswers:
    """The answers of one episode."""

    def __init__(self, connection: Connection, turns: Sequence[Mapping[Any, Any]]) -> None:
        """turns: rows of the table."""
        self._all = turns
        self._turns = {turn["number"]: turn for turn in turns if turn["output_ids"] is not None}
        ids = {turn["tool_set_id"] for turn in self._turns.values()} - {None}
        self._tool_sets = {id_: tool_set_content(connection, id_) for id_ in ids}

    def spans(self, row: Row) -> list[Mapping[str, object]]:
        """Returns for each turn that a row trains where its answer lies, and what it was drawn under.

        The end of an answer may be replaced in a row. A row that stands aside has the beginning of its answer as
        context, so the answer is counted from its end.
        """
        found: list[Mapping[str, object]] = []
        for number in dict.fromkeys(turn for turn in row.turns if turn != CONTEXT):
            turn = self._turns[number]
            begin = row.turns.index(number)
            end = begin + row.turns.count(number)
            if row.aside:
                begin = end - len(turn["output_ids"])
            found.append({"turn": number, "begin": begin, "end": end, **self._drawn(turn)})
        return found

    def tokens(self) -> dict[int, SampledTokens]:
        """Returns the tokens of the answers by the number of their turn; turns without tokens are left out."""
        found = {}
        for call in calls_of(self._all):
            turn = self._turns[call.turn]
            known = turn["untrainable"] is None
            mask = tuple(known and not forced for forced in call.forced)
            found[call.turn] = SampledTokens(call.prompt_ids, call.output_ids, mask, self._drawn(turn))
        return found

    def _drawn(self, turn: Mapping[Any, Any]) -> Mapping[str, object]:
        return {"temperature": turn["sampling"].get("temperature", 1.0), "schema": self._schema(turn)}

    def _schema(self, turn: Mapping[Any, Any]) -> Mapping[str, Any] | None:
        if not turn["sampling"].get("grammar") or turn["tool_set_id"] is None:
            return None
        return schema_of(turn["sampling"], self._tool_sets[turn["tool_set_id"]])


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
    proposals: tuple[EpisodeProposal, ...]
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
        j = t.trajectory.c
        g = t.rollout_group.c
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
        by_turn: dict[int, list[EpisodeProposal]] = {}
        for proposal in episode_proposals(connection, episode.id):
            by_turn.setdefault(proposal.turn_id, []).append(proposal)
        rows = self.raw_turns(connection, episode)
        sampled = SampledAnswers(connection, rows).tokens()
        for row in rows:
            if row["message"] is None:
                continue
            answer = from_json(row["message"])
            tools = self._offered(connection, row["tool_set_id"])
            prompt = tuple(talk.messages)
            own = tuple(by_turn.get(row["id"], ()))
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
