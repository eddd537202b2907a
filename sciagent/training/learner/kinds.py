"""The rows that a training takes from a data set: a rule selects them, reads them, and keeps some of them together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sciagent.training.learner.conversations import Conversations
from sciagent.training.learner.rows import AnswerSpan, TrainingRow

Cells = Mapping[str, Any]
"""The cells of a row by column."""


class Unit(NamedTuple):
    """Rows that are trained in one step: those of a group of siblings or of an episode, or a single one."""

    numbers: tuple[int, ...]
    """Numbers of the rows in the file, from 0."""


@dataclass(frozen=True)
class RowSelection:
    """Takes the rows that can be trained, and counts the others by reason."""

    conversations: Conversations
    context: int
    """Most tokens of a row."""
    left_out: Counter[str] = field(default_factory=Counter)

    def drop(self, why: str, rows: int = 1) -> None:
        self.left_out[f"rows: {why}"] += rows

    def takes(self, tokens: int) -> bool:
        """Returns whether a row of so many tokens fits into the model, and counts it if not."""
        if tokens > self.context:
            self.drop(f"more than {self.context} tokens")
        return tokens <= self.context


class RowKind(NamedTuple):
    """The rows of a training."""

    datasets: tuple[str, ...]
    """Kinds of data sets that have them."""
    columns: tuple[str, ...] | None
    """Columns by which rows are selected; None for all."""
    units: Callable[[Iterable[tuple[int, Cells]], RowSelection], Iterator[Unit]]
    """Returns what is trained, from the numbered rows of a file."""
    row: Callable[[Cells, Conversations], TrainingRow]
    needed: tuple[str, ...] = ()
    """Columns that data sets of earlier versions lack."""


def spans_of(text: str) -> tuple[AnswerSpan, ...]:
    """Returns the answers of a row from the column `spans`."""
    return tuple(
        AnswerSpan(span["begin"], span["end"], span["temperature"], _text(span["schema"])) for span in json.loads(text)
    )


def group_of(cells: Cells) -> tuple[Any, ...]:
    """Returns what the rows of a group of siblings have in common; of an episode without siblings, its own."""
    return cells["campaign"], cells["group"], None if cells["group"] is not None else cells["episode"]


def where(used: Sequence[bool], values: Sequence[float | None]) -> tuple[float, ...]:
    """Returns the values where they are used, and 0 elsewhere. Raises TypeError for a used value that is missing."""
    return tuple(float(value) if taken else 0.0 for taken, value in zip(used, values, strict=True))  # type: ignore[arg-type]


def _text(schema: Any) -> str | None:
    return None if schema is None else json.dumps(schema, ensure_ascii=False)
