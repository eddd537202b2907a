"""Reads the episodes and turns of models from the ledger, as of a watermark.

`TrainingCampaign` reads the turns, each with the messages that it answered. `SampledAnswers` says where the answers of
an episode lie in its training rows, and under which conditions they were drawn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.agent.conversation_and_asking import Episode, EpisodeLimits
from sciagent.agent.messages_sampling_and_policy_client import Message, from_json, to_json
from sciagent.agent.skills import labels
from sciagent.agent.turns_to_token_rows import CONTEXT, Row, calls_of, schema_of
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.domain.proposer_interfaces import FILTERED
from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import reward_inputs
from sciagent.store.learning.policies_and_roles import tool_set_content
from sciagent.store.learning.reward_inputs import EpisodeRow
from sciagent.store.views.report_episodes_and_proposers import EpisodeProposal, episode_proposals


class SampledTokens(NamedTuple):
    """The tokens of one answer as they were sampled."""

    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    """(n,)"""
    mask: tuple[bool, ...]
    """(n,) whether the token may be trained: it was not forced, and its distribution is known."""
    drawn: Mapping[str, object]
    """`temperature` and `schema` under which the tokens were drawn; a schema of None restricted nothing."""


class SampledAnswers:
    """The answers of one episode."""

    def __init__(self, connection: Connection, turns: Sequence[Mapping[Any, Any]]) -> None:
        """turns: the rows of the table `turn` of the episode, in order."""
        self._all_turns = turns
        # turns whose tokens were recorded, by number
        self._turns = {turn["number"]: turn for turn in turns if turn["output_ids"] is not None}
        ids = {turn["tool_set_id"] for turn in self._turns.values()} - {None}
        self._tool_sets = {id_: tool_set_content(connection, id_) for id_ in ids}

    def spans(self, row: Row) -> list[Mapping[str, object]]:
        """Returns, for each turn that a row trains, the place of its answer in the row and how the answer was drawn.

        The end of an answer may be replaced in a row. In a row with `aside`, the beginning of an answer may be context;
        the place of the answer then follows from its end.
        """
        spans: list[Mapping[str, object]] = []
        trained_turns = [number for number in row.turns if number != CONTEXT]  # of each token that was sampled
        for number in dict.fromkeys(trained_turns):
            turn = self._turns[number]
            begin = row.turns.index(number)
            end = begin + row.turns.count(number)
            if row.aside:
                begin = end - len(turn["output_ids"])
            spans.append({"turn": number, "begin": begin, "end": end, **self._drawn(turn)})
        return spans

    def tokens(self) -> dict[int, SampledTokens]:
        """Returns the tokens of the answers by the number of their turn; turns without tokens are left out."""
        tokens_by_turn = {}
        for call in calls_of(self._all_turns):
            turn = self._turns[call.turn]
            is_trainable = turn["untrainable"] is None
            mask = tuple(is_trainable and not is_forced for is_forced in call.forced)
            tokens_by_turn[call.turn] = SampledTokens(call.prompt_ids, call.output_ids, mask, self._drawn(turn))
        return tokens_by_turn

    def _drawn(self, turn: Mapping[Any, Any]) -> Mapping[str, object]:
        """Returns the conditions of `SampledTokens.drawn`."""
        return {"temperature": turn["sampling"].get("temperature", 1.0), "schema": self._schema(turn)}

    def _schema(self, turn: Mapping[Any, Any]) -> Mapping[str, Any] | None:
        """Returns the schema that restricted the tokens of a turn; None if the sampler followed none."""
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
        """The ids of the candidates that were new in the campaign, in the order of the proposals, each once."""
        new_ids: dict[int, None] = {}
        for proposal in self.proposals:
            if proposal.status == "new" and proposal.candidate_id is not None:
                new_ids[proposal.candidate_id] = None
        return list(new_ids)

    @property
    def was_filtered(self) -> bool:
        """Whether a filter dropped a proposal of the turn, so that what it is worth is not known."""
        return any(proposal.status == FILTERED for proposal in self.proposals)

    @cached_property
    def state(self) -> str:
        """A hash of the prompt and the tools; equal for equal questions."""
        return content_hash([[to_json(message) for message in self.prompt], self.tools])


class TrainingCampaign:
    """A campaign as of a watermark. Raises UnknownNameError for an unknown name."""

    def __init__(self, ledger: Ledger, name: str, as_of: int) -> None:
        self.built: Built = open_campaign_for_people(ledger, name)
        self.as_of = as_of
        self._tools: dict[int | None, str] = {None: "[]"}

    @property
    def name(self) -> str:
        return self.built.row.name

    def episode_rows(self, connection: Connection) -> list[EpisodeRow]:
        """Returns the episodes. The episodes of a group follow each other."""
        return reward_inputs.episodes(connection, self.built.row.id, self.as_of)

    def episode(self, connection: Connection, row: EpisodeRow) -> RecordedEpisode:
        """Returns an episode of the campaign with its opening."""
        trajectory = t.trajectory.c
        group = t.rollout_group.c
        joined = t.trajectory.outerjoin(t.rollout_group, group.id == trajectory.group_id)
        query = sa.select(trajectory.settings, trajectory.purpose, group.opening).select_from(joined)
        settings, purpose, group_opening = connection.execute(query.where(trajectory.id == row.id)).one()
        opening = settings.get("opening") or group_opening or ()
        return RecordedEpisode(
            campaign=self.name,
            id=row.id,
            number=row.number,
            group=row.group_id,
            sibling=row.sibling,
            policy=row.policy,
            purpose=purpose,
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
        """Yields the turns of an episode before the watermark. Turns without a message, such as those of scripts, are
        left out."""
        limits = EpisodeLimits(thinking="strip" if episode.thinking == "strip" else "preserve")
        conversation = Episode(episode.number, seed=0, opening=episode.opening, limits=limits)
        proposals_by_turn: dict[int, list[EpisodeProposal]] = {}
        for proposal in episode_proposals(connection, episode.id):
            proposals_by_turn.setdefault(proposal.turn_id, []).append(proposal)
        rows = self.raw_turns(connection, episode)
        sampled = SampledAnswers(connection, rows).tokens()
        for row in rows:
            if row["message"] is None:
                continue
            answer = from_json(row["message"])
            tools = self._offered(connection, row["tool_set_id"])
            prompt = tuple(conversation.messages)
            proposals = tuple(proposals_by_turn.get(row["id"], ()))
            yield AnsweredTurn(
                episode=episode,
                id=row["id"],
                number=row["number"],
                prompt=prompt,
                answer=answer,
                tools=tools,
                row=row,
                proposals=proposals,
                sampled=sampled.get(row["number"]),
            )
            observations = map(from_json, row["observations"])
            conversation.restore((answer, *observations), dict(row["cursor"] or {}))

    def raw_turns(self, connection: Connection, episode: RecordedEpisode) -> Sequence[Any]:
        """Returns the rows of the turns before the watermark, in order. Rewards as of the watermark are for the
        same turns."""
        return [row for row in proposer_trajectories.turns(connection, episode.id) if row["watermark"] < self.as_of]

    def _offered(self, connection: Connection, tool_set_id: int | None) -> str:
        """Returns the tools of a tool set, as JSON."""
        if tool_set_id not in self._tools:
            # never 0, since `_tools` has an entry for None
            offered = tool_set_content(connection, int(tool_set_id or 0))["tools"]
            self._tools[tool_set_id] = json.dumps(offered, ensure_ascii=False)
        return self._tools[tool_set_id]
