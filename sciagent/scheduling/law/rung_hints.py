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

from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.law.similarity import Similarity

UNTIL = 24  # real answers at which the rows are removed
QUANTILES = (0.1, 0.5, 0.9)
FEWEST = 8  # answers of the lower rung that its quantiles need


@dataclass(frozen=True)
class Hint:
    """A linear relation between the answers of a lower rung and of the deciding rung."""

    column: int
    """Column of the lower rung in the pool."""
    decides: int
    """Column of the deciding rung in the pool."""
    slope: float
    intercept: float
    """In the deciding rung's unit."""
    residual: float
    """Standard deviation about the line, in the deciding rung's unit."""


def hint_rows(hints: Sequence[Hint], scores: Array) -> Array:
    """Returns (6, c) artificial rows to append to `scores`, (n, c); no rows while a rung has too few answers."""
    if not hints:
        return np.empty((0, scores.shape[1]))
    rows = np.full((2 * len(QUANTILES), scores.shape[1]), np.nan)
    for number, hint in enumerate(hints):
        answers = scores[:, hint.column]
        answers = answers[~np.isnan(answers)]
        if len(answers) < FEWEST:
            return np.empty((0, scores.shape[1]))
        # shifted and with alternating signs per hint, so that the rows do not correlate the properties of two hints
        inputs = np.roll(np.quantile(answers, QUANTILES), number)
        signs = np.array([1.0, -1.0]) if number % 2 == 0 else np.array([-1.0, 1.0])
        rows[:, hint.column] = np.repeat(inputs, 2)
        line = hint.slope * rows[:, hint.column] + hint.intercept
        rows[:, hint.decides] = line + np.tile(signs, len(QUANTILES)) * hint.residual
    return rows


def with_hint_rows(
    hints: Sequence[Hint], scores: Array, errors: NDArray[np.float32] | None, decided: int
) -> tuple[Array, NDArray[np.float32] | None]:
    """Returns scores and errors, (n, c), with the artificial rows appended while real answers are few.

    decided: number of candidates with an answer of every deciding rung.
    """
    if not hints or decided >= UNTIL:
        return scores, errors
    rows = hint_rows(hints, scores)
    all_scores = np.vstack([scores, rows])
    if errors is None:
        return all_scores, None
    return all_scores, np.vstack([errors, np.zeros(rows.shape, dtype=np.float32)])


class Padded:
    """A similarity in which the rows from `n_real_rows` on, which are artificial, are similar only to themselves."""

    def __init__(self, of: Similarity) -> None:
        self._of = of
        self.n_real_rows = 0
        """Number of real rows; whoever uses the similarity sets it."""

    def between(self, rows: RowIndices, columns: RowIndices) -> Array:
        """Returns (n, m) similarities, as `Similarity.between`."""
        real_rows = rows < self.n_real_rows
        real_columns = columns < self.n_real_rows
        if real_rows.all() and real_columns.all():
            return self._of.between(rows, columns)
        likeness: Array = (rows[:, None] == columns[None, :]).astype(np.float64)
        likeness[np.ix_(real_rows, real_columns)] = self._of.between(rows[real_rows], columns[real_columns])
        return likeness
