"""Intervals by a hierarchical bootstrap: tasks are drawn with replacement, then seeds within each drawn task."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.answers.evaluation import Interval

RESAMPLES = 10_000
SEED = 20_261_123
LEVEL = 0.95

Figures = NDArray[np.float64]
Draws = tuple[NDArray[Any], NDArray[Any]]


def draws(n_tasks: int, n_seeds: int, resamples: int = RESAMPLES, seed: int = SEED) -> Draws:
    """Returns the drawn tasks, (b, t, 1), and the drawn seeds of each, (b, t, s). All arms share them, so that
    differences are paired."""
    rng = np.random.default_rng(seed)
    tasks = rng.integers(n_tasks, size=(resamples, n_tasks, 1))
    return tasks, rng.integers(n_seeds, size=(resamples, n_tasks, n_seeds))


def ratios(numerators: Figures, denominators: Figures, drawn: Draws) -> Figures:
    """Returns (b + 1,) the ratio of the sums: of the data themselves first, then of each resample.

    numerators, denominators: (t, s) by task and seed; nan where a campaign is missing, which then counts in neither.
    The ratio is nan if its denominator is 0.
    """
    present = ~(np.isnan(numerators) | np.isnan(denominators))
    up, down = np.where(present, numerators, 0.0), np.where(present, denominators, 0.0)
    tops = np.concatenate([[up.sum()], up[drawn].sum((1, 2))])
    bottoms = np.concatenate([[down.sum()], down[drawn].sum((1, 2))])
    found: Figures = np.divide(tops, bottoms, out=np.full_like(tops, np.nan), where=bottoms > 0)
    return found


def interval(values: Figures) -> Interval | None:
    """Returns the first value, and the percentiles of the others that enclose `LEVEL` of them; None without a value."""
    known = values[1:][~np.isnan(values[1:])]
    if np.isnan(values[0]) or not len(known):
        return None
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(values[0]), float(low), float(high)
