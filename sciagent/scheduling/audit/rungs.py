"""How well each rung agrees with the next one up and with the terminal one.

Only candidates that were thought promising have seen a dear rung, so what they show is not what the rung does: the mean
of a noisy rung over those that it promoted lies too high. Weighted by 1 / π of the dearer rung, audited candidates
speak for those that were dropped, and bias and RMSE are those over all candidates (exactly, in expectation over the
draw, but for the weights' sum in the denominator: Hájek).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sciagent.scheduling.arrays import Array, Mask

FEWEST = 3  # for a rank correlation


@dataclass(frozen=True)
class Agreement:
    """Rung `lower` against rung `upper`. n: candidates that have seen both. effective: as many equally weighted ones
    would tell as much (Kish). bias: mean of lower less upper; rmse: of the same difference; both in the scores' unit.
    spearman: None with fewer than three or where one of them is constant."""

    lower: int
    upper: int
    n: int
    effective: float
    bias: float | None
    rmse: float | None
    spearman: float | None


def agreements(scores: Array, comparable: Mask, propensity: Array | None = None) -> tuple[Agreement, ...]:
    """scores: (n, k), the terminal rung last, NaN where not seen. comparable: (k, k) where two rungs give the same
    property in the same unit. propensity: (n, k) probability that a candidate came to see a rung; read where it has.

    Each rung against the next comparable one above it and, if another, the terminal one; by rung.
    """
    k = scores.shape[1]
    weights = np.ones(scores.shape) if propensity is None else 1 / np.where(np.isnan(scores), 1.0, propensity)
    agreements: list[Agreement] = []
    for lower in range(k - 1):
        above = [j for j in range(lower + 1, k) if comparable[lower, j]]
        for upper in dict.fromkeys([*above[:1], *(j for j in above if j == k - 1)]):
            both = ~np.isnan(scores[:, [lower, upper]]).any(1)
            agreements.append(_agreement(lower, upper, scores[both][:, [lower, upper]], weights[both, upper]))
    return tuple(agreements)


def _agreement(lower: int, upper: int, pairs: Array, weights: Array) -> Agreement:
    """pairs: (n, 2); weights: (n,)."""
    n = len(pairs)
    if not n:
        return Agreement(lower, upper, 0, 0.0, None, None, None)
    share = weights / weights.sum()
    off = pairs[:, 0] - pairs[:, 1]
    return Agreement(
        lower,
        upper,
        n,
        float(1 / (share**2).sum()),
        float(share @ off),
        float(np.sqrt(share @ off**2)),
        spearman(pairs[:, 0], pairs[:, 1], share) if n >= FEWEST else None,
    )


def spearman(x: Array, y: Array, share: Array) -> float | None:
    """Correlation of ranks among all that the (n,) candidates stand for. share: (n,), of sum 1."""
    a, b = (ranks - share @ ranks for ranks in (_ranks(x, share), _ranks(y, share)))
    spread = float(np.sqrt((share @ a**2) * (share @ b**2)))
    return float(share @ (a * b)) / spread if spread > 1e-12 else None


def _ranks(x: Array, share: Array) -> Array:
    """(n,) in [0, 1]: the share that lies below, and half of the share that is equal."""
    _, place = np.unique(x, return_inverse=True)
    at = np.bincount(place, share)
    return (np.cumsum(at) - at / 2)[place]
