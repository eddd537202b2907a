"""The conformal guard: a score below which candidates may be dropped, so that few hits are lost.

alpha is the fraction of hits that may be lost. Given the scores s of n known hits, each at the time when it would have
been dropped, the threshold t is the largest of these scores with (#{s < t} + 1) / (n + 1) <= alpha. If the next hit is
exchangeable with them, its score is below t with a probability of at most alpha, however wrong the model behind the
score is. This needs n >= 1/alpha - 1 hits. With fewer hits, the guard is not armed and allows no drop.

An audit verifies a random sample of candidates that would be dropped. It finds hit i with a probability π_i, which is
not the same for all hits. Each hit therefore has the weight 1/π_i, and the next hit, whose π is unknown, the largest
weight, 1/least: (Σ_{s < t} 1/π_i + 1/least) / (Σ 1/π_i + 1/least) <= alpha. The guarantee is exact for independent hits
from one distribution. In a campaign it is approximate, because the model and the proposer change. It holds on average,
not for each kind of candidate.

Sources: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2005); Tibshirani, Foygel Barber, Candès
and Ramdas, NeurIPS 2019, arXiv 1904.06019.
"""

from __future__ import annotations

import math

import numpy as np

from sciagent.domain.answers.status import GuardState
from sciagent.scheduling.arrays import Array

_SLACK = 1e-9  # tolerance for rounding, since 1/alpha - 1 is often a whole number


def guard(scores: Array, alpha: float, pi: Array, least: float) -> GuardState:
    """Computes the guard. scores: (n,) of hits, higher for more promising ones. alpha: fraction of hits that may be
    dropped, in (0, 1). pi: (n,) probability that each hit became known, 1 if the scheduler chose it. least: smallest pi
    that the next hit may have. The hits that are still missing count as hits of the propensity `least`."""
    weights = least / pi  # the next hit has weight 1
    total = float(weights.sum())
    lacking = 1 / alpha - 1 - total
    if lacking > _SLACK:
        missing = math.ceil(lacking - _SLACK)
        counted = "" if (weights == 1).all() else f", which count as {total:.1f} by their propensities"
        words = f"not armed: n = {len(scores)} hits{counted}; {missing} more are needed for {alpha:.0%}"
        return GuardState(threshold=None, missing=missing, words=words)
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    lighter = np.concatenate([[0.0], np.cumsum(weights[order])])[np.searchsorted(ranked, ranked)]
    threshold = float(ranked[lighter + 1 <= alpha * (total + 1) + _SLACK][-1])
    words = (
        f"armed: a hit has a score below {threshold:.4g} with a probability of at most {alpha:.0%} (n = {len(scores)})"
    )
    return GuardState(threshold=threshold, missing=0, words=words)
