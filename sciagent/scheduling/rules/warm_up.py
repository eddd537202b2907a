"""Selects the candidates that run the whole ladder before there is a law.

They are few, and from both ends of what is known. Where two are enough, and a lower rung measures the wanted property
or has a gate with one limit, they are the most promising two: a small campaign cannot afford a sure miss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sciagent.scheduling.arrays import Array, RowIndices
from sciagent.scheduling.candidate_pool import CandidatePool

WARM_UP = 2, 4  # fewest and most terminal answers before the first law,
WARM_UP_RUNG = 8  # where the most are so many more for each paid rung, whose value must be learned;
WARM_UP_OF = 0.005  # and between these, of the candidates: a small campaign cannot waste any
WARM_UP_SHARE = 0.1  # largest fraction of the budget for more than `WARM_UP` of them


def whole_ladders(candidates: float, paid: int, affordable: float) -> int:
    """Returns the number of candidates that run the whole ladder.

    paid: rungs below the last one that are no features. affordable: whole ladders that the budget holds.
    """
    fewest, most = WARM_UP
    most = max(most, min(most + WARM_UP_RUNG * paid, int(WARM_UP_SHARE * affordable)))
    return max(fewest, math.ceil(min(WARM_UP_OF * candidates, most)))


def still_learning(pool: CandidatePool, left: float, chosen: Sequence[int]) -> list[int]:
    """Returns the chosen candidates whose ladder is not at its end and costs no more than what is left."""
    return [i for i in chosen if pool.pending[i] or (not pool.out[i] and _to_pay(pool, i) <= left)]


def first_candidates(
    pool: CandidatePool,
    left: float,
    n: int,
    besides: Sequence[int],
    features: Sequence[int],
    promise: Array | None,
    one_sided: bool,
    rng: np.random.Generator,
) -> RowIndices:
    """Returns at most n candidates whose ladder costs no more than what is left. besides: candidates chosen before.
    features: columns that are known of all. promise: (all,) values of which the largest known are chosen; None: see
    `_spread`. one_sided: whether hits lie at one end of the wanted property."""
    open_ = np.setdiff1d(pool.open[~pool.closed[pool.open, -1]], np.array(besides, dtype=np.intp))
    open_ = open_[_to_pay(pool, open_) <= left]
    if not len(open_):
        return open_
    if promise is not None and not np.isnan(promise[open_]).all():
        known = open_[~np.isnan(promise[open_])]
        best: RowIndices = known[np.argsort(-promise[known], kind="stable")[:n]]
        return best
    return _spread(pool.scores[open_][:, list(features)], open_, n, rng, one_sided)


def _to_pay(pool: CandidatePool, of: RowIndices | int) -> Array:
    """Returns the cost of the rungs that each candidate lacks, (n,)."""
    return np.asarray(np.where(pool.closed[of], 0.0, pool.costs[of]).sum(-1))


def _spread(z: Array, open_: RowIndices, n: int, rng: np.random.Generator, ends: bool) -> RowIndices:
    """Selects n of `open_` by the leading component of their known answers, (len(open_), d): half from each end or, if
    hits may lie in the middle, evenly along it."""
    z = z[:, ~np.isnan(z).all(0)]
    if not z.shape[1]:
        drawn: RowIndices = rng.permutation(open_)[:n]
        return drawn
    ranks = np.argsort(np.argsort(np.where(np.isnan(z), np.nanmedian(z, axis=0), z), axis=0), axis=0)
    centred = ranks - ranks.mean(0)
    order = np.argsort(centred @ np.linalg.svd(centred, full_matrices=False)[2][0], kind="stable")
    places = np.concatenate([order[: math.ceil(n / 2)], order[len(order) - n // 2 :]])
    if not ends:
        places = order[((np.arange(n) + 0.5) / n * len(order)).astype(np.intp)]
    chosen: RowIndices = open_[np.unique(places)]
    return chosen
