"""What a scheduler sees of all candidates, as arrays; and what it wants to buy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Places = NDArray[np.intp]


@dataclass
class Board:
    """n candidates, k rungs, the terminal one last.

    scores: (n, k) in each rung's own unit, NaN where not seen. closed: (n, k) where a purchase is not possible: seen,
    failed, pending. costs: (n, k) expected. out: (n,) candidates that cannot be verified any more or have been.
    """

    scores: Array
    closed: NDArray[np.bool_]
    costs: Array
    out: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.out = np.zeros(len(self.scores), dtype=bool)

    @property
    def spent(self) -> float:
        """Expected cost of all that was bought."""
        return float(self.costs[self.closed].sum())

    def add(self, costs: Array) -> None:
        """Candidates that have arrived; costs: (m, k)."""
        m, k = costs.shape
        self.scores = np.vstack([self.scores, np.full((m, k), np.nan)])
        self.closed = np.vstack([self.closed, np.zeros((m, k), dtype=bool)])
        self.costs = np.vstack([self.costs, costs])
        self.out = np.concatenate([self.out, np.zeros(m, dtype=bool)])


@dataclass(frozen=True)
class Purchase:
    """Rung `rung` for candidate `of`, bought at `index` (hits a unit of cost; infinite for what is bought unasked)."""

    of: int
    rung: int
    index: float
