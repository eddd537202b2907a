"""The columns and cells of data sets: episodes, turns, messages in the format of chat templates, and token rows.

`rows_of` yields the rows of token ids for a policy gradient: tokens as they were sampled, with their advantages.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.agent.messages_sampling_and_policy_client import Message
from sciagent.agent.turns_to_token_rows import CONTEXT, Row, calls_of, linearise
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.store.learning import versioned_rewards
from sciagent.training.hindsight_goals_and_hints import CandidateVerdict
from sciagent.training.read_turns import AnsweredTurn, RecordedEpisode, SampledAnswers

Cells = dict[str, object]
"""The cells of a row by column."""


class TableColumn(NamedTuple):
    """A column of a data set."""

    name: str
    kind: str
    """Type of the cells: one of the keys of `kinds` in `schema`, such as `text`."""
    about: str


EPISODE = (
    TableColumn("campaign", "text", "name of the campaign"),
    TableColumn("episode", "whole", "number of the episode in its campaign"),
    TableColumn("group", "whole", "id of the group of siblings; null for an episode without siblings"),
    TableColumn("sibling", "whole", "number in the group, from 0"),
    TableColumn("policy", "text", "name and version of the model that answered"),
    TableColumn("purpose", "text", "campaign, rollout or demonstration"),
    TableColumn("task", "text", "hash of the goal; equal for equal goals"),
)
TURN = (
    TableColumn("turn", "whole", "number of the turn in its episode, from 0"),
    TableColumn("prompt", "messages", "the messages that the model answered"),
    TableColumn("tools", "text", "JSON: the tools that were offered, in OpenAI's format"),
    TableColumn("candidates", "texts", "keys of the candidates that the answer proposed first"),
    TableColumn("payoff", "number", "of the best of these candidates, in hits or utility; null if undecided"),
    TableColumn("scaffold", "text", "Murcko scaffold of that candidate; empty without rings"),
)
JUDGED = (
    TableColumn("skill", "text", "names and hashes of the skills in the prompt; null without any"),
    TableColumn(
        "rubric", "text", "JSON: score, uncertainty and level by a judge with a rubric; null where none judged"
    ),
)


def schema(columns: Iterable[TableColumn], about: Mapping[str, str]) -> Any:
    """Returns the `pyarrow.Schema` of a table. about: metadata of the table."""
    import pyarrow as pa

    call = pa.struct([("name", pa.string()), ("arguments", pa.string())])
    calls = pa.list_(pa.struct([("id", pa.string()), ("type", pa.string()), ("function", call)]))
    message = pa.struct(
        [
            ("role", pa.string()),
            ("content", pa.string()),
            ("reasoning_content", pa.string()),
            ("tool_calls", calls),
            ("tool_call_id", pa.string()),
            ("name", pa.string()),
        ]
    )
    kinds = {
        "text": pa.string(),
        "texts": pa.list_(pa.string()),
        "whole": pa.int64(),
        "number": pa.float64(),
        "truth": pa.bool_(),
        "messages": pa.list_(message),
        "wholes": pa.list_(pa.int32()),
        "numbers": pa.list_(pa.float32()),
        "truths": pa.list_(pa.bool_()),
        "objects": pa.list_(pa.json_()),
    }
    fields = [pa.field(c.name, kinds[c.kind], metadata={"description": c.about}) for c in columns]
    return pa.schema(fields, metadata=dict(about))


def chat(messages: Sequence[Message]) -> list[Cells]:
    """Returns the messages in OpenAI's format; the arguments of calls stay the text that the model wrote."""
    return [_chat(message) for message in messages]


def _chat(message: Message) -> Cells:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.calls
    ]
    return {
        "role": message.role,
        "content": message.content,
        "reasoning_content": message.thinking or None,
        "tool_calls": calls or None,
        "tool_call_id": message.call_id or None,
        "name": message.name or None,
    }


def episode_cells(episode: RecordedEpisode) -> Cells:
    """Returns the cells of an episode, which all its rows share."""
    return {
        "campaign": episode.campaign,
        "episode": episode.number,
        "group": episode.group,
        "sibling": episode.sibling,
        "policy": episode.policy,
        "purpose": episode.purpose,
        "task": episode.task,
        "skill": episode.skill,
    }


def turn_cells(turn: AnsweredTurn, verdicts: Sequence[CandidateVerdict]) -> Cells:
    """Returns the cells of a turn. verdicts: on its new candidates."""
    best = best_of(verdicts)
    return episode_cells(turn.episode) | {
        "turn": turn.number,
        "prompt": chat(turn.prompt),
        "tools": turn.tools,
        "candidates": [verdict.key for verdict in verdicts],
        "payoff": None if best is None else best.payoff,
        "scaffold": None if best is None else best.scaffold,
        "rubric": None if best is None or best.judged is None else _rubric_text(best.judged),
    }


def _rubric_text(judged: Measured) -> str:
    quantity = judged.quantity
    return json.dumps({"score": quantity.value, "uncertainty": quantity.uncertainty, "level": judged.level.label})


def best_of(verdicts: Iterable[CandidateVerdict]) -> CandidateVerdict | None:
    """Returns the candidate with the highest payoff, the first of equal ones; None if none is decided."""
    decided = [verdict for verdict in verdicts if verdict.payoff is not None]
    return max(decided, key=lambda verdict: verdict.payoff or 0.0, default=None)


TOKEN_COLUMNS = (
    *EPISODE,
    TableColumn("row", "whole", "number of the row in its episode, from 0"),
    TableColumn("aside", "truth", "whether the row holds an answer that the conversation went on without"),
    TableColumn("ids", "wholes", "(t,) token ids"),
    TableColumn("mask", "truths", "(t,) whether the token was sampled in this row and not forced by a grammar"),
    TableColumn("logprobs", "numbers", "(t,) as the back end gave them, natural logarithms; 0 where not sampled"),
    TableColumn("behaviour", "numbers", "(t,) log-probability in the distribution that the token was drawn from"),
    TableColumn("turns", "wholes", "(t,) turn that sampled the token; -1 for the prompt"),
    TableColumn("advantages", "numbers", "(t,) advantage of the turn, in hits or utility; null if undecided"),
    TableColumn("gradient", "truths", "(t,) whether a policy gradient may use it: mask, behaviour and an advantage"),
    TableColumn("trainable", "truths", "(t,) whether a policy gradient may use it once it has an advantage"),
    TableColumn("spans", "text", "JSON: of each answer its turn, begin and end in ids, its temperature and its schema"),
    TableColumn("reward_version", "whole", "version of the rewards; null without one"),
    TableColumn("outcome", "number", "reward of the whole episode, in hits or utility; null if undecided"),
    TableColumn("turn_rewards", "numbers", "(turns of the episode,) reward of each; null where undecided"),
    *JUDGED,
)
TOKEN_GROUP_ROWS = 64  # rows of a row group; a row may have thousands of tokens


def rows_of(
    connection: Connection,
    episode: RecordedEpisode,
    turns: Sequence[Mapping[Any, Any]],
    version: int | None,
    left_out: Counter[str],
) -> Iterator[Mapping[str, Any]]:
    """Yields the rows of an episode: one for its conversation, and more where the prompt did not go on with the tokens
    before.

    turns: rows of the table `turn`, in order. version: of the rewards; None for none. left_out: gets the numbers of
    turns that no policy gradient may use, by reason.
    """
    numbers = {turn["id"]: turn["number"] for turn in turns}
    earned = versioned_rewards.of_episode(connection, version, episode.id, numbers)
    advantages = earned.advantages
    usable_turns = set[int]()
    for turn in turns:
        number = turn["number"]
        if turn["untrainable"] is not None:
            left_out[f"turns: {turn['untrainable']}"] += 1
            continue
        usable_turns.add(number)
        if number not in advantages:
            left_out["turns: without an advantage: undecided, without siblings, or no rewards published"] += 1
    answers = SampledAnswers(connection, turns)
    for row_number, row in enumerate(linearise(calls_of(turns)).rows):
        row_cells: Cells = {
            "row": row_number,
            "spans": json.dumps(answers.spans(row), ensure_ascii=False),
            "reward_version": version,
            "outcome": earned.outcome,
            "turn_rewards": earned.by_turn,
        }
        yield episode_cells(episode) | row_cells | _token_cells(row, advantages, usable_turns)


def _token_cells(row: Row, advantages: Mapping[int, float], usable_turns: set[int]) -> Cells:
    """Returns the cells with a value for each token. usable_turns: turns that a policy gradient may use."""
    trainable = [
        is_sampled and logprob is not None and turn in usable_turns
        for is_sampled, logprob, turn in zip(row.mask, row.behaviour, row.turns, strict=True)
    ]
    # tokens that were not sampled in the row have the number `CONTEXT` in place of a turn
    return {
        "aside": row.aside,
        "ids": row.ids,
        "mask": row.mask,
        "logprobs": row.logprobs,
        "behaviour": row.behaviour,
        "turns": row.turns,
        "advantages": [None if turn == CONTEXT else advantages.get(turn) for turn in row.turns],
        "gradient": [may_train and turn in advantages for may_train, turn in zip(trainable, row.turns, strict=True)],
        "trainable": trainable,
    }
