"""The conformal guard: a score below which a candidate may be dropped, so that few true hits are.

Of n hits whose scores are known, at the time when they would have been dropped, it takes the largest of these scores t
with (#{s < t} + 1) / (n + 1) <= alpha. If the next hit is exchangeable with them, it lies below t with a probability of
at most alpha, whatever the distribution and however wrong the law behind the score. That needs n >= 1/alpha - 1 hits;
with fewer the guard is not armed and nothing may be dropped on its word.

Hits known from an audit were not all equally likely to become known. Each then stands for 1 / π, and the next one for
as much as the least likely: (Σ_{s < t} 1/π_i + 1/least) / (Σ 1/π_i + 1/least) <= alpha. Exact if hits come one by one
from one distribution, each kept with a π that its features decide. A campaign's hits, with a law that learns and a
proposer that improves, only come near that; no promise is made of each kind of candidate by itself.

Sources: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2005); Tibshirani, Foygel Barber, Candès
and Ramdas, NeurIPS 2019, arXiv 1904.06019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sciagent.scheduling.arrays import Array

_SLACK = 1e-9  # 1/alpha - 1 is often meant to be a whole number


@dataclass(frozen=True)
class Guard:
    """threshold: candidates with a score below it may be dropped; None: not armed. missing: so many more hits, as
    unlikely to become known as the next one may be, would arm it; of likelier ones more are needed."""

    threshold: float | None
    missing: int
    words: str


def guard(scores: Array, alpha: float = 0.1, pi: Array | None = None, least: float | None = None) -> Guard:
    """scores: (n,) of true hits, higher for the more promising. alpha: the share of true hits that may be dropped.
    pi: (n,) probability that each became known, 1 for those that the scheduler found by its own choice; default: equal.
    least: the smallest pi that the next hit may have; default: the smallest given.

    Raises ValueError if alpha is not in (0, 1) or a pi not in (0, 1].
    """
    known = np.ones(len(scores)) if pi is None else pi
    lowest = float(known.min(initial=1.0)) if least is None else least
    if not 0 < alpha < 1 or not ((known > 0) & (known <= 1)).all() or not 0 < lowest <= 1:
        raise ValueError("a guard needs alpha between 0 and 1, and propensities above 0 and at most 1")
    weights = lowest / known  # the next hit weighs 1
    total = float(weights.sum())
    lacking = 1 / alpha - 1 - total
    if lacking > _SLACK:
        missing = math.ceil(lacking - _SLACK)
        counted = "" if (weights == 1).all() else f", which count as {total:.1f} by their propensities"
        words = f"not armed: n = {len(scores)} hits{counted}; {missing} more are needed for {alpha:.0%}"
        return Guard(None, missing, words)
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    lighter = np.concatenate([[0.0], np.cumsum(weights[order])])[np.searchsorted(ranked, ranked)]
    threshold = float(ranked[lighter + 1 <= alpha * (total + 1) + _SLACK][-1])
    words = (
        f"armed: a hit has a score below {threshold:.4g} with a probability of at most {alpha:.0%} (n = {len(scores)})"
    )
    return Guard(threshold, 0, words)
