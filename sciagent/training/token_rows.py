"""Rows of token ids for a policy gradient: as sampled, with what each token was worth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.agent.trace.linearise import CONTEXT, Row, linearise
from sciagent.agent.trace.recomputing import schema_of
from sciagent.agent.trace.recorded import calls_of
from sciagent.store.campaign_state.trajectories import untrainable
from sciagent.store.learning import rewards
from sciagent.store.learning.tool_sets import content_of
from sciagent.training.columns import EPISODE, JUDGED, Cells, TableColumn, episode_cells
from sciagent.training.reading import RecordedEpisode

COLUMNS = (
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
    TableColumn("spans", "text", "JSON: of each answer its turn, begin and end in ids, its temperature and its schema"),
    TableColumn("reward_version", "whole", "version of the rewards; null without one"),
    TableColumn("outcome", "number", "reward of the whole episode, in hits or utility; null if undecided"),
    *JUDGED,
)
GROUP = 64  # rows of a row group; a row may have thousands of tokens


def rows_of(
    connection: Connection,
    episode: RecordedEpisode,
    turns: Sequence[Mapping[Any, Any]],
    version: int | None,
    left_out: Counter[str],
) -> Iterator[Mapping[str, Any]]:
    """Yields the rows of an episode. turns: rows of the table, in order. version: of the rewards.

    left_out: counts by reason the turns that no policy gradient may use.
    """
    advantages: dict[int, float] = {}
    outcome = None
    if version is not None:
        numbers = {turn["id"]: turn["number"] for turn in turns}
        for reward in rewards.of_version(connection, version, [episode.id]):
            if reward.turn_id is None:
                outcome = reward.value
            elif reward.advantage is not None and reward.turn_id in numbers:
                advantages[numbers[reward.turn_id]] = reward.advantage
    reasons = {turn["number"]: untrainable(turn) for turn in turns}
    for turn in turns:
        number = turn["number"]
        if (why := reasons[number]) is not None:
            left_out[f"turns: {why}"] += 1
        elif number not in advantages:
            left_out["turns: without an advantage: undecided, without siblings, or no rewards published"] += 1
    fit = {number for number, why in reasons.items() if why is None and number in advantages}
    conditions = {turn["number"]: turn for turn in turns if turn["output_ids"] is not None}
    offered = {id_: content_of(connection, id_) for id_ in {turn["tool_set_id"] for turn in turns} if id_ is not None}
    for number, row in enumerate(linearise(calls_of(turns)).rows):
        spans = json.dumps(list(_spans(row, conditions, offered)), ensure_ascii=False)
        own = {"row": number, "spans": spans, "reward_version": version, "outcome": outcome}
        yield episode_cells(episode) | own | _cells(row, advantages, fit)


def _cells(row: Row, advantages: Mapping[int, float], fit: set[int]) -> Cells:
    gradient = [
        masked and drawn is not None and turn in fit
        for masked, drawn, turn in zip(row.mask, row.behaviour, row.turns, strict=True)
    ]
    return {
        "aside": row.aside,
        "ids": row.ids,
        "mask": row.mask,
        "logprobs": row.logprobs,
        "behaviour": row.behaviour,
        "turns": row.turns,
        "advantages": [None if turn == CONTEXT else advantages.get(turn) for turn in row.turns],
        "gradient": gradient,
    }


def _spans(
    row: Row, turns: Mapping[int, Mapping[Any, Any]], offered: Mapping[int, Mapping[str, Any]]
) -> Iterator[Cells]:
    """Yields for each turn that a row trains where its answer lies, and what it was drawn under.

    turns: rows of the table by number. offered: tool sets by id. The end of an answer may be replaced in a row. A row
    that stands aside has the beginning of its answer as context, so the answer is counted from its end.
    """
    for number in dict.fromkeys(turn for turn in row.turns if turn != CONTEXT):
        turn, begin = turns[number], row.turns.index(number)
        held = sum(one == number for one in row.turns)
        end = begin + held
        if row.aside:
            begin = end - len(turn["output_ids"])
        schema = None
        if turn["sampling"].get("grammar") and turn["tool_set_id"] is not None:
            schema = schema_of(turn["sampling"], offered[turn["tool_set_id"]])
        temperature = turn["sampling"].get("temperature", 1.0)
        yield {"turn": number, "begin": begin, "end": end, "temperature": temperature, "schema": schema}
