"""Measures how well each rung agrees with the next higher rung and with the terminal rung.

Only promising candidates were run on an expensive rung, so the raw pairs are biased: among the promoted candidates, the
mean of a noisy rung is too high. With weights 1 / π of the higher rung, audited candidates represent the dropped ones.
Bias and RMSE are then those over all candidates: exact on average over the draw, except for the sum of weights in the
denominator (Hájek).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sciagent.domain.answers.status import RungAgreement
from sciagent.scheduling.arrays import Array

FEWEST = 3  # pairs that a rank correlation needs


def agreements(
    name: str, labels: Sequence[str], scores: Array, propensity: Array, has_one_scale: bool = True
) -> Iterator[RungAgreement]:
    """Compares each rung with the next and, if that is another, the terminal rung.

    name: the property. labels: of k rungs, terminal rung last. scores: (n, k), NaN if unknown. propensity: (n, k)
    probability that a rung was run on a candidate. has_one_scale: whether the rungs' values may be subtracted.
    """
    last = len(labels) - 1
    for lower, upper in dict.fromkeys((j, above) for j in range(last) for above in (j + 1, last)):
        both = ~np.isnan(scores[:, [lower, upper]]).any(1)
        x, y, weights = scores[both, lower], scores[both, upper], 1 / propensity[both, upper]
        n, share, off = len(x), weights / weights.sum(), x - y
        yield RungAgreement(
            property=name,
            lower=labels[lower],
            upper=labels[upper],
            n=n,
            effective=float(1 / (share**2).sum()) if n else 0.0,
            bias=float(share @ off) if n and has_one_scale else None,
            rmse=float(np.sqrt(share @ off**2)) if n and has_one_scale else None,
            spearman=spearman(x, y, share) if n >= FEWEST else None,
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
