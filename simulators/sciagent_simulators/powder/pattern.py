"""Reads measured powder patterns: text files with 2-theta in degrees, intensity, and perhaps its uncertainty."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.text import clean, shown
from sciagent.errors import UsageError

Array = NDArray[np.float64]

ENDINGS = (".xy", ".xye", ".csv", ".txt", ".dat")
MAX_BYTES = 10_000_000
MAX_POINTS = 200_000
FEWEST_POINTS = 50
SHORTEST = 5.0
"""Smallest range, in degrees of 2-theta."""
HEADER_LINES = 200
"""Largest number of lines without numbers before the first point."""
LARGEST = 1e15
"""Largest intensity; more is no count of photons."""
_COMMENT = re.compile(r"""\s*(?:[#!;%'"]|//|/\*|$)""")
_DECIMAL_COMMA = re.compile(r"\d,\d+[ \t]+\d")
_UNCERTAIN = re.compile(r"\b(?:e\.?s\.?d|sig(?:ma)?|err(?:or)?|std|unc\w*|uncertainty)\b", re.IGNORECASE)


@dataclass(frozen=True)
class PowderPattern:
    """A measured pattern, in rising order of 2-theta."""

    two_theta: Array
    """(n,) in degrees, strictly rising."""
    intensity: Array
    """(n,) in counts or any other unit."""
    error: Array | None
    """(n,) standard uncertainties of the intensities, all above 0; None if the file has none."""

    def between(self, low: float | None, high: float | None) -> PowderPattern:
        """Returns the points from low to high degrees; None: from the first, or to the last one. Raises UsageError if
        too few are left."""
        keep = (self.two_theta >= (low or -np.inf)) & (self.two_theta <= (high or np.inf))
        if keep.sum() < FEWEST_POINTS:
            first, last = self.two_theta[0], self.two_theta[-1]
            asked = f"{first if low is None else low:g} to {last if high is None else high:g} degrees"
            raise UsageError(
                f"the pattern has {keep.sum()} points from {asked}, and at least {FEWEST_POINTS} are needed; it was "
                f"measured from {first:g} to {last:g} degrees"
            )
        return PowderPattern(
            self.two_theta[keep], self.intensity[keep], None if self.error is None else self.error[keep]
        )


def read_pattern(path: Path, name: str = "") -> PowderPattern:
    """Reads a pattern. name: what messages call the file; default: its name.

    Comments, a heading, and blank lines are skipped. Columns are separated by spaces, tabs, commas or semicolons; where
    they are not, a comma may be the decimal point. A third column holds uncertainties in files .xye, or if the heading
    says so. Raises UsageError with the line and the fault for anything else."""
    called = name or path.name
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{called}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{called}: larger than {MAX_BYTES // 1_000_000} MB; a pattern is a table of text")
    if b"\0" in data:
        raise UsageError(
            f"{called}: no text; export the pattern as .xy, .xye or .csv from the diffractometer's program"
        )
    table, numbers, heading = _rows(data.decode("utf-8-sig", errors="replace").splitlines(), called)
    has_error = table.shape[1] > 2 and (called.lower().endswith(".xye") or bool(_UNCERTAIN.search(heading)))
    return _checked(table[:, : 3 if has_error else 2], numbers, called)


def _rows(lines: list[str], called: str) -> tuple[Array, list[int], str]:
    """Returns the table of numbers, the number of the line of each row, and the text before them."""
    rows: list[list[float]] = []
    numbers: list[int] = []
    heading: list[str] = []
    for number, line in enumerate(lines, start=1):
        if (row := _numbers(line)) is not None:
            if rows and len(row) != len(rows[0]):
                raise UsageError(f"{called}:{number}: {len(row)} columns; the lines before have {len(rows[0])}")
            rows.append(row)
            numbers.append(number)
            if len(rows) > MAX_POINTS:
                raise UsageError(f"{called}: more than {MAX_POINTS:,} points")
        elif rows and not _COMMENT.match(line):
            raise UsageError(f"{called}:{number}: {shown(clean(line), 60)} is no line of 2-theta and intensity")
        elif not rows:
            heading.append(line)
            if len(heading) > HEADER_LINES:
                break
    if not rows:
        raise UsageError(f"{called}: no line with two numbers, 2-theta and intensity")
    return np.array(rows), numbers, " ".join(heading)[:10_000]


def _numbers(line: str) -> list[float] | None:
    """Returns the numbers of a line; None if it has fewer than two or anything else."""
    if len(line) > 1000 or _COMMENT.match(line):
        return None
    has_decimal_comma = ";" in line or ("." not in line and _DECIMAL_COMMA.search(line))
    text = line.replace(",", ".") if has_decimal_comma else line
    fields = re.split(r"[;,\s]+", text.strip().strip(",;"))
    try:
        row = [float(field) for field in fields if field.strip()]
    except ValueError:
        return None
    return row if len(row) > 1 else None


def _checked(table: Array, numbers: list[int], called: str) -> PowderPattern:
    """Returns the pattern of a table. Raises UsageError for numbers that no diffractometer measures."""
    for bad, what in (
        (~np.isfinite(table).all(axis=1), "not a finite number"),
        ((table[:, 0] <= 0) | (table[:, 0] >= 180), "2-theta outside 0 to 180 degrees"),
        (np.abs(table[:, 1]) > LARGEST, f"an intensity above {LARGEST:g}"),
    ):
        if bad.any():
            raise UsageError(f"{called}:{numbers[int(bad.argmax())]}: {what}")
    if table[0, 0] > table[-1, 0]:
        table, numbers = table[::-1], numbers[::-1]
    falls = np.diff(table[:, 0]) <= 0
    if falls.any():
        raise UsageError(f"{called}:{numbers[int(falls.argmax()) + 1]}: 2-theta does not rise from line to line")
    if len(table) < FEWEST_POINTS or np.ptp(table[:, 0]) < SHORTEST:
        seen = f"{len(table)} points over {np.ptp(table[:, 0]):.3g} degrees"
        needed = f"at least {FEWEST_POINTS} points over {SHORTEST:g} degrees"
        raise UsageError(
            f"{called}: {seen}; {needed}. Is the first column 2-theta in degrees, and is it no list of peaks?"
        )
    if np.ptp(table[:, 1]) == 0 or table[:, 1].max() <= 0:
        raise UsageError(f"{called}: all intensities are equal, or none is above 0")
    error = _errors(table[:, 2]) if table.shape[1] > 2 else None
    return PowderPattern(np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1]), error)


def _errors(column: Array) -> Array | None:
    """Returns the uncertainties; those of 0, as of points without a count, become the smallest other one. None if none
    is above 0."""
    positive = column[column > 0]
    return np.where(column > 0, column, positive.min()) if len(positive) else None
