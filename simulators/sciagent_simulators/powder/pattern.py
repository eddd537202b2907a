"""Measured powder patterns: files are read, brought onto a uniform grid, and freed of their background.

A file has 2-theta in degrees, intensity, and perhaps its uncertainty. No candidate influences the background.
"""

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
            first = self.two_theta[0]
            last = self.two_theta[-1]
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
        table = table[::-1]
        numbers = numbers[::-1]
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


MAX_GRID = 5000
"""Largest number of points of the grid; finer patterns are averaged over several of their steps."""
NOISE = 1.4826 / np.sqrt(6)
"""Factor from the median of absolute second differences to the standard deviation of white noise."""


@dataclass(frozen=True)
class PreparedPattern:
    """A measured pattern on a uniform grid, apart from its background."""

    two_theta: Array
    """(n,) in degrees, evenly spaced."""
    intensity: Array
    """(n,) as measured."""
    background: Array
    """(n,) in the unit of the intensity."""
    error: Array
    """(n,) standard uncertainties: those of the file, else the square root of the intensity, scaled to the noise."""

    @property
    def step(self) -> float:
        """Distance between two points, in degrees."""
        return float(self.two_theta[1] - self.two_theta[0])

    @property
    def net(self) -> Array:
        """(n,) the intensity without the background."""
        return self.intensity - self.background


def prepared(pattern: PowderPattern, window: float) -> PreparedPattern:
    """Returns the pattern on a grid of at most MAX_GRID points, with its background.

    window: width in degrees of what is taken for a peak; broader features belong to the background."""
    steps = np.diff(pattern.two_theta)
    span = float(np.ptp(pattern.two_theta))
    n = round(span / float(np.median(steps))) + 1
    grid = np.linspace(pattern.two_theta[0], pattern.two_theta[-1], -(-n // -(-n // MAX_GRID)))
    intensity, per_point = _averaged(pattern.two_theta, pattern.intensity, grid)
    if pattern.error is not None:
        error = np.sqrt(_averaged(pattern.two_theta, pattern.error**2, grid)[0] / per_point)
    else:
        counts = np.maximum(intensity, 0.01 * float(intensity.max()))
        noise = NOISE * float(np.median(np.abs(np.diff(intensity, 2)) / np.sqrt(counts[1:-1])))
        error = np.sqrt(counts) * (noise or 1.0)
    reach = max(1, round(window / 2 / float(grid[1] - grid[0])))
    return PreparedPattern(grid, intensity, background_of(intensity, error, reach), error)


def _averaged(x: Array, y: Array, grid: Array) -> tuple[Array, Array]:
    """Returns the means of y within half a step of each point of the grid, interpolated where a step holds no point;
    and the number of points of each, at least 1."""
    step = grid[1] - grid[0]
    place = np.clip(np.rint((x - grid[0]) / step).astype(int), 0, len(grid) - 1)
    n = np.bincount(place, minlength=len(grid))
    total = np.bincount(place, weights=y, minlength=len(grid))
    filled = n > 0
    centre = np.bincount(place, weights=x, minlength=len(grid))[filled] / n[filled]
    return np.interp(grid, centre, total[filled] / n[filled]), np.maximum(n, 1).astype(float)


def background_of(intensity: Array, error: Array, reach: int) -> Array:
    """Returns the background by SNIP: clipping with a window that shrinks from `reach` points to 1, on the double
    logarithm of the square root of the smoothed intensity; then raised by the mean of the noise between the peaks.

    Source: Morháč et al., Nucl. Instrum. Methods A 401, 113 (1997)."""
    lowest = float(intensity.min())
    smooth = smoothed(intensity - lowest, max(3, reach // 8 * 2 + 1))
    level = np.log(np.log(np.sqrt(np.maximum(smooth, 0.0) + 1.0) + 1.0) + 1.0)
    for width in range(reach, 0, -1):
        padded = np.pad(level, width, mode="edge")
        level = np.minimum(level, (padded[: -2 * width] + padded[2 * width :]) / 2)
    background = np.square(np.exp(np.exp(level) - 1.0) - 1.0) - 1.0 + lowest
    return _raised(intensity, error, background)


def _raised(intensity: Array, error: Array, background: Array) -> Array:
    """Returns the background raised by the median of the points between the peaks, since clipping runs below noise."""
    net = (intensity - background) / error
    between = net < np.median(net) + 1.0
    for _ in range(10):
        middle = float(np.median(net[between]))
        between = np.abs(net - middle) < 2.0
        if between.sum() < len(net) // 20:
            return background
    return background + max(middle, 0.0) * error if middle < 3.0 else background


def smoothed(values: Array, n: int) -> Array:
    """Returns the running mean over n points; n is odd, and the ends are repeated."""
    if n <= 1:
        return values
    sums = np.cumsum(np.concatenate([[0.0], np.pad(values, n // 2, mode="edge")]))
    means: Array = (sums[n:] - sums[:-n]) / n
    return means
