"""One draw of an audit, as a campaign makes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.audit_of_dropped import propensities

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Draw:
    """pi: (n,) propensities. places: drawn in this call, the surest first. expected: cost of all draws so far."""

    pi: Array
    places: NDArray[np.intp]
    expected: float


def draw(p_hit: Array, cost: Array, budget: float, lot: Array, before: Array | None = None) -> Draw:
    was = np.zeros(len(cost)) if before is None else before
    pi = propensities(p_hit, cost, budget, was)
    new = np.flatnonzero((lot < pi) & (lot >= was))
    return Draw(pi, new[np.argsort(lot[new] / pi[new], kind="stable")], float(pi @ cost))
