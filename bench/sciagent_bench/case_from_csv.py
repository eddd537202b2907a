"""Reads a CSV of known answers, plain or gzipped, as a case for the bench.

Each rung is a column with a cost; the last rung is the truth. An empty cell costs its price but has no answer; an empty
truth is never a hit. Identifiers give the similarity of structures; no scheduler sees them.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sciagent.errors import InputFileError, UnknownNameError, UsageError, did_you_mean
from sciagent.inputs.open_input import open_input
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.law.similarity import Similarity
from sciagent_bench.replay_cases import Case
from sciagent_bench.replay_once import Truth
from sciagent_bench.rungs_of_same_property_and_good_ends import NOTHING, SIGNS, KnownRungs

EMPTY_CELLS = ("", "nan", "na", "none", "null")


@dataclass(frozen=True)
class TableRung:
    """A rung whose answers are a column of the table."""

    column: str
    cost: float


@dataclass(frozen=True)
class Sheet:
    """The cells of a file. rows: each as long as the header. lines: number of the last line of each row in the file."""

    path: Path
    header: list[str]
    rows: list[list[str]]
    lines: list[int]

    def texts(self, column: str) -> list[str]:
        """Returns the cells of a column. Raises InputFileError for an unknown column."""
        if column not in self.header:
            raise InputFileError(
                f'{self.path}:1:1: no column "{column}"{did_you_mean(column, self.header)}; '
                f"the header has: {', '.join(self.header) or 'nothing'}"
            )
        place = self.header.index(column)
        return [row[place].strip() for row in self.rows]

    def numbers(self, column: str) -> Array:
        """Returns (n,) values, NaN for empty cells. Raises InputFileError for a cell that is no number."""
        values = []
        for row, text in enumerate(self.texts(column)):
            value = _number(text)
            if value is None:
                raise self.fault(column, row, f'"{text}" is no finite number')
            values.append(value)
        return np.array(values, dtype=float)

    def fault(self, column: str, row: int, what: str) -> InputFileError:
        """Returns the error about a cell. row: its place among the rows, from 0."""
        return InputFileError(f"{self.path}:{self.lines[row]}:{self.header.index(column) + 1}: {column}: {what}")


def read_case(
    path: Path,
    rungs: Sequence[TableRung],
    goal: str,
    top: float,
    identifier: str | None = None,
    features: Sequence[str] = (),
    known: KnownRungs = NOTHING,
) -> Case:
    """Reads a case. Raises UsageError with the place.

    goal: max or min. top: fraction of the answers that are hits; ties with the worst hit count too. features: columns
    for the similarity of structures, in place of the identifier. known: what is known of the rungs before any answer.
    """
    sheet = read_sheet(path)
    scores = np.column_stack([sheet.numbers(rung.column) for rung in rungs])
    sign = SIGNS[goal]
    value = sign * scores[:, -1]
    if np.isnan(value).all():
        raise InputFileError(f"{path}:1:{sheet.header.index(rungs[-1].column) + 1}: {rungs[-1].column}: no answers")
    hit = value >= np.nanquantile(value, 1 - top)
    costs = np.tile([rung.cost for rung in rungs], (len(scores), 1))
    names = tuple(rung.column for rung in rungs)
    for name in (*known.same, *known.alike, *(name for name, _ in known.passes)):
        if name not in names[:-1]:
            raise UnknownNameError("lower rung", name, names[:-1])
    return Case.of(Truth(scores, costs, hit), sign, _similarity(sheet, identifier, features), names, known)


def parse_rungs(text: str) -> tuple[TableRung, ...]:
    """Reads `column:cost` of each rung, separated by commas, the truth last."""
    rungs: list[TableRung] = []
    for part in text.split(","):
        column, _, cost = part.strip().rpartition(":")
        value = _number(cost.strip())
        if not column.strip() or value is None or math.isnan(value):
            raise UsageError(f'rung "{part.strip()}" is not column:cost, such as gap_GFN2:0.03')
        if value < 0:
            raise UsageError(f'rung "{part.strip()}": a cost is not below 0')
        rungs.append(TableRung(column.strip(), value))
    names = [rung.column for rung in rungs]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise UsageError(f"rung {', '.join(sorted(repeated))} is named twice")
    if not rungs[-1].cost:
        raise UsageError(f'rung "{names[-1]}": the last one, the truth, must cost something')
    return tuple(rungs)


def read_sheet(path: Path) -> Sheet:
    """Reads a CSV file with a header. Raises UsageError or InputFileError, with the place."""
    line = 1
    try:
        with io.TextIOWrapper(open_input(path), encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            rows = []
            lines = []
            for row in reader:
                line = reader.line_num
                if not row:
                    continue
                if len(row) != len(header):
                    raise InputFileError(f"{path}:{line}:1: {len(row)} cells, but the header has {len(header)}")
                rows.append(row)
                lines.append(line)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputFileError(f"{path}:{line}:1: not UTF-8 text after here ({error.reason}); save it so") from error
    except csv.Error as error:
        raise InputFileError(f"{path}:{line + 1}:1: {error}") from error
    if len(set(header)) < len(header):
        raise InputFileError(f"{path}:1:1: two columns have the same name")
    if not rows:
        raise InputFileError(f"{path}:1:1: no rows")
    return Sheet(path, header, rows, lines)


def _similarity(sheet: Sheet, identifier: str | None, features: Sequence[str]) -> Similarity | None:
    from sciagent_bench.candidate_similarity import UnreadableError, of_features, of_identifiers

    if features:
        numeric = {name: _is_numeric(sheet.texts(name)) for name in features}
        numbers = [_filled(sheet, name) for name in features if numeric[name]]
        return of_features(numbers, [sheet.texts(name) for name in features if not numeric[name]])
    if identifier is None:
        return None
    try:
        return of_identifiers(sheet.texts(identifier))
    except UnreadableError as error:
        raise sheet.fault(identifier, error.place, str(error)) from error


def _is_numeric(texts: Sequence[str]) -> bool:
    """Returns whether most cells are numbers; a text among them is then a mistake, not a label."""
    numbers = [text for text in texts if text.lower() not in EMPTY_CELLS and _number(text) is not None]
    return len(numbers) > len(texts) / 2


def _filled(sheet: Sheet, column: str) -> Array:
    """Returns the numbers of a column. Raises InputFileError for an empty cell."""
    values = sheet.numbers(column)
    if np.isnan(values).any():
        raise sheet.fault(column, int(np.argmax(np.isnan(values))), "empty; a feature needs a number in every row")
    return values


def _number(text: str) -> float | None:
    """Returns NaN for an empty cell, None for a text that is not a finite number."""
    if text.lower() in EMPTY_CELLS:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
