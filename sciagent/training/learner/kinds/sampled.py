"""Tokens as they were sampled, with advantages over siblings: the policy gradient of GRPO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from sciagent.training.learner.conversations import Conversations
from sciagent.training.learner.kinds import Cells, RowKind, RowSelection, Unit, group_of, spans_of, where
from sciagent.training.learner.rows import TrainingRow

SAME = 1e-6  # advantages below this are those of a group whose siblings all earned the same


def sampled_row(cells: Cells) -> TrainingRow:
    """Returns a row of `dataset build rows`: tokens as they were sampled, trained where `gradient` is true."""
    used: Sequence[bool] = cells["gradient"]
    return TrainingRow(
        tuple(cells["ids"]),
        tuple(used),
        where(used, cells["advantages"]),
        behaviour=where(used, cells["behaviour"]),
        spans=spans_of(cells["spans"]),
        reward=cells["outcome"],
    )


def _sampled_units(rows: Iterable[tuple[int, Cells]], selection: RowSelection) -> Iterator[Unit]:
    """Yields groups of siblings, of which at least one row has something to learn."""
    for _, members in groupby(rows, key=lambda row: group_of(row[1])):
        group = [(number, _largest(cells), len(cells["ids"])) for number, cells in members]
        if all(largest <= SAME for _, largest, _ in group if largest is not None):
            kinds = {largest is None for _, largest, _ in group}
            why = "have no decided advantage" if kinds == {True} else "belong to siblings that earned the same"
            selection.drop(why, len(group))
            continue
        kept = []
        for number, largest, length in group:
            if largest is None:
                selection.drop("have no decided advantage")
            elif selection.takes(length):
                kept.append(number)
        if kept:
            yield Unit(tuple(kept))


def _largest(cells: Cells) -> float | None:
    """Returns the largest advantage of a row; None without a decided one."""
    used = zip(cells["advantages"], cells["gradient"], strict=True)
    return max((abs(advantage) for advantage, gradient in used if gradient), default=None)


def _sampled_row(cells: Cells, _: Conversations) -> TrainingRow:
    return sampled_row(cells)


GRPO = RowKind(
    ("rows",), ("campaign", "group", "episode", "ids", "gradient", "advantages"), _sampled_units, _sampled_row
)
