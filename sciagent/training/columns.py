"""The columns of data sets, and messages in the format of chat templates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sciagent.agent.messages import Message
from sciagent.domain.evidence import Measured
from sciagent.training.reading import AnsweredTurn, RecordedEpisode
from sciagent.training.verdicts import CandidateVerdict

Cells = dict[str, object]
"""The cells of a row by column."""


class TableColumn(NamedTuple):
    """A column of a data set."""

    name: str
    kind: str
    """One of the names in `schema`."""
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
    parts = [("role", pa.string()), ("content", pa.string()), ("reasoning_content", pa.string())]
    message = pa.struct([*parts, ("tool_calls", calls), ("tool_call_id", pa.string()), ("name", pa.string())])
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
    fields: Cells = {"role": message.role, "content": message.content, "reasoning_content": message.thinking or None}
    fields |= {"tool_calls": calls or None, "tool_call_id": message.call_id or None, "name": message.name or None}
    return fields


def episode_cells(episode: RecordedEpisode) -> Cells:
    cells: Cells = {"campaign": episode.campaign, "episode": episode.number, "group": episode.group}
    cells |= {"sibling": episode.sibling, "policy": episode.policy}
    return cells | {"purpose": episode.purpose, "task": episode.task, "skill": episode.skill}


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
        "rubric": None if best is None or best.judged is None else _score(best.judged),
    }


def _score(judged: Measured) -> str:
    quantity = judged.quantity
    return json.dumps({"score": quantity.value, "uncertainty": quantity.uncertainty, "level": judged.level.label})


def best_of(verdicts: Iterable[CandidateVerdict]) -> CandidateVerdict | None:
    """Returns the candidate of the highest payoff, of equal ones the first; None if none is decided."""
    decided = [verdict for verdict in verdicts if verdict.payoff is not None]
    return max(decided, key=lambda verdict: verdict.payoff or 0.0, default=None)
