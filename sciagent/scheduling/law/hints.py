"""What is known of a rung before any answer: rows that stand for a declared relation until there are real ones.

A hint says that the property that decides is about slope x + intercept, x being what a lower rung says, with a scatter.
It enters as six made-up candidates, alike to nobody: at three quantiles of what the rung has said, one scatter above
the line and one below. So the law begins with that line and that noise, and forgets them as real answers outnumber
the six; from `UNTIL` answers on they are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.arrays import Array, Places
from sciagent.scheduling.law.similarity import Similarity

UNTIL = 24  # real answers
QUANTILES = (0.1, 0.5, 0.9)
FEWEST = 8  # candidates that must have the rung, for its quantiles to say anything


@dataclass(frozen=True)
class Hint:
    """column: of the lower rung; decides: of the rung that decides; both on the pool. residual: standard deviation
    about the line, in the unit of what decides."""

    column: int
    decides: int
    slope: float
    intercept: float
    residual: float


def made_up(hints: Sequence[Hint], scores: Array) -> Array:
    """(6, c) rows to put below `scores`, (n, c); none where a rung has said too little yet."""
    if not hints:
        return np.empty((0, scores.shape[1]))
    rows = np.full((2 * len(QUANTILES), scores.shape[1]), np.nan)
    for number, hint in enumerate(hints):
        seen = scores[:, hint.column]
        seen = seen[~np.isnan(seen)]
        if len(seen) < FEWEST:
            return np.empty((0, scores.shape[1]))
        at = np.roll(np.quantile(seen, QUANTILES), number)  # properties do not rise together because we say so
        sign = np.array([1.0, -1.0]) if number % 2 == 0 else np.array([-1.0, 1.0])
        rows[:, hint.column] = np.repeat(at, 2)
        rows[:, hint.decides] = hint.slope * rows[:, hint.column] + hint.intercept + np.tile(sign, 3) * hint.residual
    return rows


def hinted(
    hints: Sequence[Hint], scores: Array, errors: NDArray[np.float32] | None, decided: int
) -> tuple[Array, NDArray[np.float32] | None]:
    """Scores and errors, (n, c), with the made-up rows below them as long as there are few real answers, (decided)."""
    if not hints or decided >= UNTIL:
        return scores, errors
    rows = made_up(hints, scores)
    below = None if errors is None else np.vstack([errors, np.zeros(rows.shape, dtype=np.float32)])
    return np.vstack([scores, rows]), below


class Padded:
    """A similarity in which places from `n` on are alike to themselves alone."""

    def __init__(self, of: Similarity) -> None:
        self._of, self.n = of, 0

    def between(self, rows: Places, columns: Places) -> Array:
        real, also = rows < self.n, columns < self.n
        if real.all() and also.all():
            return self._of.between(rows, columns)
        likeness: Array = (rows[:, None] == columns[None, :]).astype(np.float64)
        likeness[np.ix_(real, also)] = self._of.between(rows[real], columns[also])
        return likeness
