"""Reads training rows from the folders that `sciagent dataset build` writes, a row group of Parquet at a time."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from sciagent.errors import UsageError
from sciagent.training.learner.conversations import Conversations
from sciagent.training.learner.rows import AnswerSpan, TrainingRow

SAME = 1e-6  # advantages below this are those of a group whose siblings all earned the same
HELD = 16  # row groups of Parquet in memory
FILE = "train.parquet"
KINDS: Mapping[str, tuple[str, ...]] = {"sft": ("sft", "hindsight"), "grpo": ("rows",)}
"""Kinds of data sets that a training takes."""


class Unit(NamedTuple):
    """Rows that are trained in one step: those of a group of siblings, or a single one."""

    numbers: tuple[int, ...]
    """Numbers of the rows in the file, from 0."""


class DatasetRows:
    """The training rows of a folder."""

    def __init__(self, folder: Path, training: str, conversations: Conversations, context: int) -> None:
        """training: a name in `KINDS`. context: rows with more tokens are left out. Raises UsageError for a folder that
        is no data set, or of another kind."""
        import pyarrow.parquet as pq

        path = folder / FILE
        if not path.is_file():
            raise UsageError(
                f"{folder} has no {FILE}; make it: sciagent dataset build {KINDS[training][0]} --out {folder}"
            )
        self._file = pq.ParquetFile(path)
        self.kind = (self._file.schema_arrow.metadata or {}).get(b"dataset", b"").decode()
        if self.kind not in KINDS[training]:
            raise UsageError(
                f"{folder} is a data set of {self.kind or 'unknown kind'}; `train {training}` takes "
                f"{' or '.join(KINDS[training])}: sciagent dataset build {KINDS[training][0]}"
            )
        self._conversations, self._context = conversations, context
        self._held: OrderedDict[int, list[Mapping[str, Any]]] = OrderedDict()
        self._ends: list[int] = []
        for group in range(self._file.num_row_groups):
            self._ends.append((self._ends[-1] if self._ends else 0) + self._file.metadata.row_group(group).num_rows)
        self.left_out: Counter[str] = Counter()
        self.units = list(self._units())

    def rows(self, units: Iterable[Unit]) -> list[TrainingRow]:
        """Returns the rows of some units, in order. Raises UsageError for a row that cannot be read."""
        return [self._row(number, self._cells(number)) for unit in units for number in unit.numbers]

    def _units(self) -> Iterator[Unit]:
        """Yields what can be trained, and counts what is left out."""
        if self.kind == "rows":
            yield from self._groups()
            return
        for number in range(self._ends[-1] if self._ends else 0):
            cells = self._cells(number)
            if cells.get("how") == "hinted":
                self.left_out["rows: hints, which only a teacher may see"] += 1
            elif self._fits(self._row(number, cells)):
                yield Unit((number,))

    def _groups(self) -> Iterator[Unit]:
        """Yields groups of siblings, of which at least one row has something to learn."""
        for _, members in groupby(self._light(), key=lambda found: found[0]):
            group = list(members)
            if all(largest <= SAME for _, _, largest, _ in group if largest is not None):
                kinds = {largest is None for _, _, largest, _ in group}
                why = "have no decided advantage" if kinds == {True} else "belong to siblings that earned the same"
                self.left_out[f"rows: {why}"] += len(group)
                continue
            kept = []
            for _, number, largest, length in group:
                if largest is None:
                    self.left_out["rows: have no decided advantage"] += 1
                elif length > self._context:
                    self._too_long()
                else:
                    kept.append(number)
            if kept:
                yield Unit(tuple(kept))

    def _light(self) -> Iterator[tuple[tuple[Any, ...], int, float | None, int]]:
        """Yields of each row its group, number, largest advantage (None without a decided one) and length."""
        names, number = ["campaign", "group", "episode", "ids", "gradient", "advantages"], 0
        for batch in self._file.iter_batches(batch_size=256, columns=names):
            for cells in batch.to_pylist():
                alone = None if cells["group"] is not None else cells["episode"]
                used = zip(cells["advantages"], cells["gradient"], strict=True)
                sizes = [abs(advantage) for advantage, gradient in used if gradient]
                yield ((cells["campaign"], cells["group"], alone), number, max(sizes, default=None), len(cells["ids"]))
                number += 1

    def _fits(self, row: TrainingRow) -> bool:
        if len(row.ids) > self._context:
            self._too_long()
        return len(row.ids) <= self._context

    def _too_long(self) -> None:
        self.left_out[f"rows: more than {self._context} tokens"] += 1

    def _row(self, number: int, cells: Mapping[str, Any]) -> TrainingRow:
        read: Callable[[Mapping[str, Any]], TrainingRow] = (
            sampled_row if self.kind == "rows" else self._conversations.row
        )
        try:
            return read(cells)
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"row {number} of {FILE} cannot be trained on: {error}") from error

    def _cells(self, number: int) -> Mapping[str, Any]:
        """Returns the cells of a row; its row group stays in memory for a while."""
        group = next(place for place, end in enumerate(self._ends) if number < end)
        if group not in self._held:
            self._held[group] = self._file.read_row_group(group).to_pylist()
            if len(self._held) > HELD:
                self._held.popitem(last=False)
        self._held.move_to_end(group)
        return self._held[group][number - (self._ends[group - 1] if group else 0)]


def sampled_row(cells: Mapping[str, Any]) -> TrainingRow:
    """Returns a row of `dataset build rows`: tokens as they were sampled, trained where `gradient` is true."""
    used: Sequence[bool] = cells["gradient"]
    spans = [
        AnswerSpan(span["begin"], span["end"], span["temperature"], _text(span["schema"]))
        for span in json.loads(cells["spans"])
    ]
    return TrainingRow(
        tuple(cells["ids"]),
        tuple(used),
        _where(used, cells["advantages"]),
        behaviour=_where(used, cells["behaviour"]),
        spans=tuple(spans),
        reward=cells["outcome"],
    )


def _where(used: Sequence[bool], values: Sequence[float | None]) -> tuple[float, ...]:
    """Returns the values where they are used, and 0 elsewhere. Raises TypeError for a used value that is missing."""
    return tuple(float(value) if taken else 0.0 for taken, value in zip(used, values, strict=True))  # type: ignore[arg-type]


def _text(schema: Any) -> str | None:
    return None if schema is None else json.dumps(schema, ensure_ascii=False)
