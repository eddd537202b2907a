"""Measures how well each rung agrees with the next higher rung and with the terminal rung.

Only promising candidates were run on an expensive rung, so the raw pairs are biased: among the promoted candidates, the
mean of a noisy rung is too high. With weights 1 / π of the higher rung, audited candidates represent the dropped ones.
Bias and RMSE are then those over all candidates: exact on average over the draw, except for the sum of weights in the
denominator (Hájek).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sciagent.scheduling.arrays import Array, Mask

FEWEST = 3  # pairs that a rank correlation needs


@dataclass(frozen=True)
class Agreement:
    """Rung `lower` against rung `upper`. n: candidates with both answers. effective: equivalent number with equal
    weights (Kish). bias: mean of lower minus upper; rmse: of the same difference; both in the scores' unit. spearman:
    None with fewer than three pairs or a constant rung."""

    lower: int
    upper: int
    n: int
    effective: float
    bias: float | None
    rmse: float | None
    spearman: float | None


def agreements(scores: Array, comparable: Mask, propensity: Array | None = None) -> tuple[Agreement, ...]:
    """Compares each rung with the next comparable higher rung and, if that is another, the terminal rung.

    scores: (n, k), terminal rung last, NaN if unknown. comparable: (k, k) whether two rungs give the same property in
    the same unit. propensity: (n, k) probability that a rung was run on a candidate; read where it was. Sorted by rung.
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
    """Returns the agreement of pairs (n, 2) with weights (n,)."""
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
    """Returns the rank correlation over all represented candidates; None if undefined. share: (n,) of sum 1."""
    a, b = (ranks - share @ ranks for ranks in (_ranks(x, share), _ranks(y, share)))
    spread = float(np.sqrt((share @ a**2) * (share @ b**2)))
    return float(share @ (a * b)) / spread if spread > 1e-12 else None


def _ranks(x: Array, share: Array) -> Array:
    """Returns (n,) weighted ranks in [0, 1]: the share below, and half of the equal share."""
    _, place = np.unique(x, return_inverse=True)
    at = np.bincount(place, share)
    return (np.cumsum(at) - at / 2)[place]
