"""Answers to imitate: supervised fine-tuning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sciagent.training.learner.conversations import Conversations
from sciagent.training.learner.kinds import Cells, RowKind, RowSelection, Unit
from sciagent.training.learner.rows import TrainingRow


def _imitated_units(rows: Iterable[tuple[int, Cells]], selection: RowSelection) -> Iterator[Unit]:
    for number, cells in rows:
        if cells.get("how") == "hinted":
            selection.drop("hints, which only a teacher may see")
        elif selection.takes(len(_imitated_row(cells, selection.conversations).ids)):
            yield Unit((number,))


def _imitated_row(cells: Cells, conversations: Conversations) -> TrainingRow:
    return conversations.row(cells)


SFT = RowKind(("sft", "hindsight"), None, _imitated_units, _imitated_row)
