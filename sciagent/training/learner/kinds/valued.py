"""Tokens as they were sampled, with the reward of each turn: PPO, whose advantages come from a value head."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from sciagent.training.learner.conversations import Conversations
from sciagent.training.learner.kinds import Cells, RowKind, RowSelection, Unit, group_of, spans_of, where
from sciagent.training.learner.rows import EpisodeTurns, RowTurn, TrainingRow


def valued_row(cells: Cells) -> TrainingRow:
    """Returns a row of `dataset build rows`: trained where `trainable` is true; its advantages are not known yet."""
    used: Sequence[bool] = cells["trainable"]
    turns = tuple(RowTurn(span["turn"], span["begin"], span["end"]) for span in json.loads(cells["spans"]))
    episode = EpisodeTurns(
        f"{cells['campaign']} {cells['episode']}",
        tuple(cells["turn_rewards"] or ()),
        turns,
        group=None if cells["group"] is None else f"{cells['campaign']} {cells['group']}",
    )
    return TrainingRow(
        tuple(cells["ids"]),
        tuple(used),
        (0.0,) * len(used),
        behaviour=where(used, cells["behaviour"]),
        spans=spans_of(cells["spans"]),
        reward=cells["outcome"],
        episode=episode,
    )


def _valued_units(rows: Iterable[tuple[int, Cells]], selection: RowSelection) -> Iterator[Unit]:
    """Yields groups of siblings, and episodes without siblings, of which at least one turn has something to learn."""
    for _, members in groupby(rows, key=lambda row: group_of(row[1])):
        kept = []
        for number, cells in members:
            if not decided(cells):
                selection.drop("have no decided reward")
            elif selection.takes(len(cells["ids"])):
                kept.append(number)
        if kept:
            yield Unit(tuple(kept))


def decided(cells: Cells) -> bool:
    """Returns whether a row trains a turn after which, itself included, every reward is decided."""
    rewards = cells["turn_rewards"] or ()
    undecided = max((turn for turn, reward in enumerate(rewards) if reward is None), default=-1)
    used = zip(cells["turns"], cells["trainable"], strict=True)
    return any(trainable and undecided < turn < len(rewards) for turn, trainable in used)


def _valued_row(cells: Cells, _: Conversations) -> TrainingRow:
    return valued_row(cells)


NEEDED = ("trainable", "turn_rewards")
PPO = RowKind(("rows",), ("campaign", "group", "episode", "ids", "turns", *NEEDED), _valued_units, _valued_row, NEEDED)
