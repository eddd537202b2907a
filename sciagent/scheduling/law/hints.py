"""Hints: assumed relations between rungs, as artificial rows for the law until there are real answers.

A hint says that the deciding property is about slope x + intercept, with a scatter, where x is the answer of a lower
rung. It enters as six artificial candidates without similar ones: at three quantiles of the rung's answers, one scatter
above and one below the line. The law thus starts with this line and noise. Real answers soon outweigh the six rows,
which are removed at `UNTIL` answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.arrays import Array, RowIndices
from sciagent.scheduling.law.similarity import Similarity

UNTIL = 24  # real answers at which the rows are removed
QUANTILES = (0.1, 0.5, 0.9)
FEWEST = 8  # answers of the lower rung that its quantiles need


@dataclass(frozen=True)
class Hint:
    """A linear relation. column: of the lower rung; decides: of the deciding rung; both in the pool. residual: standard
    deviation about the line, in the deciding rung's unit."""

    column: int
    decides: int
    slope: float
    intercept: float
    residual: float


def made_up(hints: Sequence[Hint], scores: Array) -> Array:
    """Returns (6, c) rows to append to `scores`, (n, c); no rows while a rung has too few answers."""
    if not hints:
        return np.empty((0, scores.shape[1]))
    rows = np.full((2 * len(QUANTILES), scores.shape[1]), np.nan)
    for number, hint in enumerate(hints):
        seen = scores[:, hint.column]
        seen = seen[~np.isnan(seen)]
        if len(seen) < FEWEST:
            return np.empty((0, scores.shape[1]))
        at = np.roll(np.quantile(seen, QUANTILES), number)  # shifted per hint, so that the rows correlate no properties
        sign = np.array([1.0, -1.0]) if number % 2 == 0 else np.array([-1.0, 1.0])
        rows[:, hint.column] = np.repeat(at, 2)
        rows[:, hint.decides] = hint.slope * rows[:, hint.column] + hint.intercept + np.tile(sign, 3) * hint.residual
    return rows


def hinted(
    hints: Sequence[Hint], scores: Array, errors: NDArray[np.float32] | None, decided: int
) -> tuple[Array, NDArray[np.float32] | None]:
    """Returns scores and errors, (n, c), with the artificial rows appended while `decided`, real answers, is small."""
    if not hints or decided >= UNTIL:
        return scores, errors
    rows = made_up(hints, scores)
    below = None if errors is None else np.vstack([errors, np.zeros(rows.shape, dtype=np.float32)])
    return np.vstack([scores, rows]), below


class Padded:
    """A similarity in which rows from `n` on are similar only to themselves."""

    def __init__(self, of: Similarity) -> None:
        self._of = of
        self.n = 0

    def between(self, rows: RowIndices, columns: RowIndices) -> Array:
        real = rows < self.n
        also = columns < self.n
        if real.all() and also.all():
            return self._of.between(rows, columns)
        likeness: Array = (rows[:, None] == columns[None, :]).astype(np.float64)
        likeness[np.ix_(real, also)] = self._of.between(rows[real], columns[also])
        return likeness
