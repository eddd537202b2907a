"""Brings a measured pattern onto a uniform grid and takes its background off, which no candidate influences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.powder.pattern import PowderPattern

Array = NDArray[np.float64]

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
    steps, span = np.diff(pattern.two_theta), float(np.ptp(pattern.two_theta))
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
