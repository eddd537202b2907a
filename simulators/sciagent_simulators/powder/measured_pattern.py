"""Measured powder patterns: `read_pattern` reads a file; `prepared` makes a uniform grid and finds the background.

A file has 2-theta in degrees, intensity, and perhaps its uncertainty. The background follows from the measured pattern
alone, so it is the same for all candidates.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.safe_text_and_durations import clean, shown
from sciagent.errors import UsageError

Array = NDArray[np.float64]

ENDINGS = (".xy", ".xye", ".csv", ".txt", ".dat")
MAX_BYTES = 10_000_000
MAX_POINTS = 200_000
MIN_POINTS = 50
MIN_RANGE = 5.0
"""Smallest range, in degrees of 2-theta."""
MAX_HEADING_LINES = 200
"""Largest number of lines without numbers before the first point."""
MAX_INTENSITY = 1e15
"""Largest intensity; more is no count of photons."""
_COMMENT = re.compile(r"""\s*(?:[#!;%'"]|//|/\*|$)""")
"""The beginning of a comment, or a blank line."""
_DECIMAL_COMMA = re.compile(r"\d,\d+[ \t]+\d")
"""A number such as 10,5 that blanks or a tab separate from the next number."""
_UNCERTAIN = re.compile(r"\b(?:e\.?s\.?d|sig(?:ma)?|err(?:or)?|std|unc\w*|uncertainty)\b", re.IGNORECASE)
"""A word of a heading that stands for an uncertainty."""


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
        """Returns the points from `low` to `high` degrees. None for `low` is the first point, for `high` the last one.

        Raises UsageError for fewer than MIN_POINTS points."""
        is_within = (self.two_theta >= (low or -np.inf)) & (self.two_theta <= (high or np.inf))
        if is_within.sum() < MIN_POINTS:
            first = self.two_theta[0]
            last = self.two_theta[-1]
            begin = first if low is None else low
            end = last if high is None else high
            raise UsageError(
                f"the pattern has {is_within.sum()} points from {begin:g} to {end:g} degrees, and at least "
                f"{MIN_POINTS} are needed; it was measured from {first:g} to {last:g} degrees"
            )
        error = None if self.error is None else self.error[is_within]
        return PowderPattern(self.two_theta[is_within], self.intensity[is_within], error)


def read_pattern(path: Path, name: str = "") -> PowderPattern:
    """Returns the pattern in a file. name: what messages call the file; default: its name.

    Comments, a heading, and blank lines are skipped. Columns are separated by spaces, tabs, commas or semicolons. A
    comma may be the decimal point if no comma separates columns. A third column holds uncertainties in files .xye, or
    if the heading says so. Raises UsageError with the line and the fault for anything else."""
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
    lines = data.decode("utf-8-sig", errors="replace").splitlines()
    table, line_numbers, heading = _rows(lines, called)
    says_uncertainties = called.lower().endswith(".xye") or bool(_UNCERTAIN.search(heading))
    n_columns = 3 if table.shape[1] > 2 and says_uncertainties else 2
    return _checked(table[:, :n_columns], line_numbers, called)


def _rows(lines: list[str], called: str) -> tuple[Array, list[int], str]:
    """Returns the table of numbers, the line number of each of its rows, and the text before the table."""
    rows: list[list[float]] = []
    line_numbers: list[int] = []
    heading: list[str] = []
    for number, line in enumerate(lines, start=1):
        row = _numbers(line)
        if row is not None:
            if rows and len(row) != len(rows[0]):
                raise UsageError(f"{called}:{number}: {len(row)} columns; the lines before have {len(rows[0])}")
            rows.append(row)
            line_numbers.append(number)
            if len(rows) > MAX_POINTS:
                raise UsageError(f"{called}: more than {MAX_POINTS:,} points")
        elif rows and not _COMMENT.match(line):
            raise UsageError(f"{called}:{number}: {shown(clean(line), 60)} is no line of 2-theta and intensity")
        elif not rows:
            heading.append(line)
            if len(heading) > MAX_HEADING_LINES:
                break
    if not rows:
        raise UsageError(f"{called}: no line with two numbers, 2-theta and intensity")
    return np.array(rows), line_numbers, " ".join(heading)[:10_000]


def _numbers(line: str) -> list[float] | None:
    """Returns the numbers of a line; None if the line has fewer than two numbers, or anything that is no number."""
    if len(line) > 1000 or _COMMENT.match(line):
        return None
    # semicolons separate columns where the comma is the decimal point
    has_decimal_comma = ";" in line or ("." not in line and _DECIMAL_COMMA.search(line))
    text = line.replace(",", ".") if has_decimal_comma else line
    fields = re.split(r"[;,\s]+", text.strip().strip(",;"))
    try:
        row = [float(field) for field in fields if field.strip()]
    except ValueError:
        return None
    return row if len(row) > 1 else None


def _checked(table: Array, line_numbers: list[int], called: str) -> PowderPattern:
    """Returns the pattern of a table. Raises UsageError for numbers that no diffractometer measures.

    table: a row for each point, with 2-theta, intensity and perhaps the uncertainty; it may fall or rise.
    line_numbers: number of each row's line in the file. called: what messages call the file.
    """
    for is_bad, fault in (
        (~np.isfinite(table).all(axis=1), "not a finite number"),
        ((table[:, 0] <= 0) | (table[:, 0] >= 180), "2-theta outside 0 to 180 degrees"),
        (np.abs(table[:, 1]) > MAX_INTENSITY, f"an intensity above {MAX_INTENSITY:g}"),
    ):
        if is_bad.any():
            raise UsageError(f"{called}:{line_numbers[int(is_bad.argmax())]}: {fault}")
    if table[0, 0] > table[-1, 0]:
        table = table[::-1]
        line_numbers = line_numbers[::-1]
    two_theta = np.ascontiguousarray(table[:, 0])
    intensity = np.ascontiguousarray(table[:, 1])
    does_not_rise = np.diff(two_theta) <= 0
    if does_not_rise.any():
        line_number = line_numbers[int(does_not_rise.argmax()) + 1]
        raise UsageError(f"{called}:{line_number}: 2-theta does not rise from line to line")
    if len(table) < MIN_POINTS or np.ptp(two_theta) < MIN_RANGE:
        measured = f"{len(table)} points over {np.ptp(two_theta):.3g} degrees"
        needed = f"at least {MIN_POINTS} points over {MIN_RANGE:g} degrees"
        raise UsageError(
            f"{called}: {measured}; {needed}. Is the first column 2-theta in degrees, and is it no list of peaks?"
        )
    if np.ptp(intensity) == 0 or intensity.max() <= 0:
        raise UsageError(f"{called}: all intensities are equal, or none is above 0")
    error = _errors(table[:, 2]) if table.shape[1] > 2 else None
    return PowderPattern(two_theta, intensity, error)


def _errors(column: Array) -> Array | None:
    """Returns the uncertainties; None if none is above 0.

    An uncertainty of 0, as of a point without a count, becomes the smallest one above 0."""
    positive = column[column > 0]
    return np.where(column > 0, column, positive.min()) if len(positive) else None


MAX_GRID = 5000
"""Largest number of points of the grid; finer patterns are averaged over several of their steps."""
NOISE_FACTOR = 1.4826 / np.sqrt(6)
"""Factor from the median of absolute second differences to the standard deviation of white noise."""


@dataclass(frozen=True)
class PreparedPattern:
    """A measured pattern on a uniform grid, and its background."""

    two_theta: Array
    """(n,) in degrees, evenly spaced."""
    intensity: Array
    """(n,) as measured."""
    background: Array
    """(n,) in the unit of the intensity."""
    error: Array
    """(n,) standard uncertainties: from the file, else the square root of the intensity, scaled to the noise."""

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

    window: width in degrees; features that are broader belong to the background, not to the peaks."""
    steps = np.diff(pattern.two_theta)
    span = float(np.ptp(pattern.two_theta))
    n_measured = round(span / float(np.median(steps))) + 1
    measured_per_grid_point = math.ceil(n_measured / MAX_GRID)
    n_grid = math.ceil(n_measured / measured_per_grid_point)
    grid = np.linspace(pattern.two_theta[0], pattern.two_theta[-1], n_grid)
    intensity, n_averaged = _averaged(pattern.two_theta, pattern.intensity, grid)
    if pattern.error is not None:
        mean_square, _ = _averaged(pattern.two_theta, pattern.error**2, grid)
        error = np.sqrt(mean_square / n_averaged)
    else:
        # no less than 1 % of the largest intensity, so that points without counts get an uncertainty, too
        counts = np.maximum(intensity, 0.01 * float(intensity.max()))
        relative_differences = np.abs(np.diff(intensity, 2)) / np.sqrt(counts[1:-1])
        noise = NOISE_FACTOR * float(np.median(relative_differences))
        error = np.sqrt(counts) * (noise or 1.0)  # the noise is 0 if most points are equal
    half_window = window / 2 / float(grid[1] - grid[0])  # in grid points
    background = background_of(intensity, error, max(1, round(half_window)))
    return PreparedPattern(grid, intensity, background, error)


def _averaged(x: Array, y: Array, grid: Array) -> tuple[Array, Array]:
    """Returns the means of y within half a step of each grid point, and the number of values in each mean.

    Where no value lies within half a step, the mean is interpolated and the number is 1."""
    step = grid[1] - grid[0]
    nearest = np.clip(np.rint((x - grid[0]) / step).astype(int), 0, len(grid) - 1)  # index of the grid point
    n_values = np.bincount(nearest, minlength=len(grid))
    sums = np.bincount(nearest, weights=y, minlength=len(grid))
    is_filled = n_values > 0
    centres = np.bincount(nearest, weights=x, minlength=len(grid))[is_filled] / n_values[is_filled]
    means = np.interp(grid, centres, sums[is_filled] / n_values[is_filled])
    return means, np.maximum(n_values, 1).astype(float)


def background_of(intensity: Array, error: Array, reach: int) -> Array:
    """Returns the background by SNIP, raised by the median of the noise between the peaks.

    SNIP clips the double logarithm of the square root of the smoothed intensity, with a window that shrinks from
    `reach` points to 1. Source: Morháč et al., Nucl. Instrum. Methods A 401, 113 (1997)."""
    lowest = float(intensity.min())
    n_smoothed = max(3, reach // 8 * 2 + 1)  # odd, about a quarter of `reach`
    smooth = smoothed(intensity - lowest, n_smoothed)
    level = np.log(np.log(np.sqrt(np.maximum(smooth, 0.0) + 1.0) + 1.0) + 1.0)
    for width in range(reach, 0, -1):
        padded = np.pad(level, width, mode="edge")
        mean_of_ends = (padded[: -2 * width] + padded[2 * width :]) / 2
        level = np.minimum(level, mean_of_ends)
    background = np.square(np.exp(np.exp(level) - 1.0) - 1.0) - 1.0 + lowest
    return _raised(intensity, error, background)


def _raised(intensity: Array, error: Array, background: Array) -> Array:
    """Returns the background raised to the median of the points between the peaks.

    It has to rise, since clipping follows the lowest points of the noise. It stays as it is if fewer than 1 of 20
    points lie between the peaks, or if it would rise by 3 standard uncertainties or more."""
    net = (intensity - background) / error
    is_between_peaks = net < np.median(net) + 1.0
    for _ in range(10):
        median = float(np.median(net[is_between_peaks]))
        is_between_peaks = np.abs(net - median) < 2.0
        if is_between_peaks.sum() < len(net) // 20:
            return background
    if median >= 3.0:
        return background
    return background + max(median, 0.0) * error


def smoothed(values: Array, n: int) -> Array:
    """Returns the running mean over n points; n is odd, and the ends are repeated."""
    if n <= 1:
        return values
    sums = np.cumsum(np.concatenate([[0.0], np.pad(values, n // 2, mode="edge")]))
    means: Array = (sums[n:] - sums[:-n]) / n
    return means
