"""What a scheduler sees of all candidates, as arrays; and what it wants to buy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]

FAILED, TRIED = 0.2, 10.0  # failures that a rung is taken to have seen, in so many tries, before the first


@dataclass
class Board:
    """n candidates, k rungs, the terminal one last, c columns of answers.

    scores: (n, c) each in its own unit, NaN where not seen. closed: (n, k) where a purchase is not possible: seen,
    failed, pending, passed over. costs: (n, k) expected. rungs: (c,) the rung of each column, ascending; default: one
    column a rung. out: (n,) candidates that cannot be verified any more or have been. pending: (n,) that are at work.
    tried, failed: (k,) how often each rung has answered or failed to, and failed to.
    """

    scores: Array
    closed: Mask
    costs: Array
    rungs: tuple[int, ...] = ()
    out: Mask = field(init=False)
    pending: Mask = field(init=False)
    tried: NDArray[np.int64] = field(init=False)
    failed: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.rungs = self.rungs or tuple(range(self.costs.shape[1]))
        self.out = np.zeros(len(self.scores), dtype=bool)
        self.pending = np.zeros(len(self.scores), dtype=bool)
        self.tried = np.zeros(self.costs.shape[1], dtype=np.int64)
        self.failed = np.zeros(self.costs.shape[1], dtype=np.int64)

    @property
    def spent(self) -> float:
        """Expected cost of all that was bought."""
        return float(self.costs[self.closed].sum())

    @property
    def open(self) -> Places:
        """Candidates that something may be bought for now."""
        found: Places = np.flatnonzero(~(self.out | self.pending))
        return found

    @property
    def in_play(self) -> Mask:
        """(n,) whether anything was or can be bought for it."""
        found: Mask = ~self.out | np.any(self.closed, axis=1)
        return found

    def columns(self, rung: int) -> list[int]:
        return [c for c, j in enumerate(self.rungs) if j == rung]

    def answered(self, rung: int) -> Mask:
        """(n,) whether the rung has said anything."""
        found: Mask = np.any(~np.isnan(self.scores[:, self.columns(rung)]), axis=1)
        return found

    def failures(self) -> Array:
        """(k,) probability that a rung gives no answer."""
        found: Array = (self.failed + FAILED) / (self.tried + TRIED)
        return found

    def add(self, costs: Array) -> None:
        """Candidates that have arrived; costs: (m, k)."""
        m, k = costs.shape
        self.scores = np.vstack([self.scores, np.full((m, self.scores.shape[1]), np.nan)])
        self.closed = np.vstack([self.closed, np.zeros((m, k), dtype=bool)])
        self.costs = np.vstack([self.costs, costs])
        self.out = np.concatenate([self.out, np.zeros(m, dtype=bool)])
        self.pending = np.concatenate([self.pending, np.zeros(m, dtype=bool)])


@dataclass(frozen=True)
class Purchase:
    """Rung `rung` for candidate `of`, bought at `index` (hits a unit of cost; infinite for what is bought unasked)."""

    of: int
    rung: int
    index: float
