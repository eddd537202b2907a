"""Rows of token ids for a policy gradient: as sampled, with what each token was worth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.agent.trace import CONTEXT, Row, linearise
from sciagent.agent.trace.recorded import calls_of
from sciagent.store.campaign_state.trajectories import untrainable
from sciagent.store.learning import rewards
from sciagent.training.answer_spans import SampledAnswers
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
    TableColumn("trainable", "truths", "(t,) whether a policy gradient may use it once it has an advantage"),
    TableColumn("spans", "text", "JSON: of each answer its turn, begin and end in ids, its temperature and its schema"),
    TableColumn("reward_version", "whole", "version of the rewards; null without one"),
    TableColumn("outcome", "number", "reward of the whole episode, in hits or utility; null if undecided"),
    TableColumn("turn_rewards", "numbers", "(turns of the episode,) reward of each; null where undecided"),
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
    earned = rewards.of_episode(connection, version, episode.id, {turn["id"]: turn["number"] for turn in turns})
    advantages = earned.advantages
    reasons = {turn["number"]: untrainable(turn) for turn in turns}
    for turn in turns:
        number = turn["number"]
        if (why := reasons[number]) is not None:
            left_out[f"turns: {why}"] += 1
        elif number not in advantages:
            left_out["turns: without an advantage: undecided, without siblings, or no rewards published"] += 1
    fit = {number for number, why in reasons.items() if why is None}
    answered = SampledAnswers(connection, turns)
    for number, row in enumerate(linearise(calls_of(turns)).rows):
        spans = json.dumps(answered.spans(row), ensure_ascii=False)
        own = {"row": number, "spans": spans, "reward_version": version, "outcome": earned.outcome}
        own["turn_rewards"] = earned.by_turn
        yield episode_cells(episode) | own | _cells(row, advantages, fit)


def _cells(row: Row, advantages: Mapping[int, float], fit: set[int]) -> Cells:
    """Returns the cells of tokens. fit: turns that a policy gradient may use."""
    trainable = [
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
        "gradient": [used and turn in advantages for used, turn in zip(trainable, row.turns, strict=True)],
        "trainable": trainable,
    }
