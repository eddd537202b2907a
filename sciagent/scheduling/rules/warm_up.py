"""Selects the candidates that run the whole ladder before there is a law.

They are few, and from both ends of what is known. Where two are enough, and a lower rung measures the wanted property
or has a gate with one limit, they are the most promising two: a small campaign cannot afford a sure miss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.candidate_pool import CandidatePool

# number of terminal answers before the first law: a fraction of the candidates, between two limits
MIN_WARM_UP = 2
MAX_WARM_UP = 4
EXTRA_PER_PAID_RUNG = 8  # added to MAX_WARM_UP for each paid rung, whose value must be learned
WARM_UP_SHARE_OF_CANDIDATES = 0.005  # small, since a small campaign cannot waste any
MAX_BUDGET_SHARE = 0.1  # largest fraction of the budget for more than MAX_WARM_UP whole ladders


def whole_ladders(candidates: float, paid: int, affordable: float) -> int:
    """Returns the number of candidates that run the whole ladder.

    paid: rungs below the last one that are no features. affordable: whole ladders that the budget holds.
    """
    with_extra = min(MAX_WARM_UP + EXTRA_PER_PAID_RUNG * paid, int(MAX_BUDGET_SHARE * affordable))
    largest = max(MAX_WARM_UP, with_extra)
    n_ladders = math.ceil(min(WARM_UP_SHARE_OF_CANDIDATES * candidates, largest))
    return max(MIN_WARM_UP, n_ladders)


def with_unfinished_ladders(pool: CandidatePool, left: float, chosen: Sequence[int]) -> list[int]:
    """Returns the chosen candidates whose ladder is not at its end and costs no more than what is left."""
    unfinished = []
    for row in chosen:
        is_affordable = not pool.out[row] and _missing_cost(pool, row) <= left
        if pool.pending[row] or is_affordable:
            unfinished.append(row)
    return unfinished


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
    """Returns rows of at most n candidates whose missing rungs cost no more than what is left.

    besides: rows chosen before. features: columns that are known of all candidates. promise: (all rows,) values, of
    which the largest known ones are chosen; None: see `_select_spread`. one_sided: whether hits lie at one end of the
    wanted property.
    """
    undecided = pool.open[~pool.closed[pool.open, -1]]
    rows = np.setdiff1d(undecided, np.array(besides, dtype=np.intp))
    rows = rows[_missing_cost(pool, rows) <= left]
    if not len(rows):
        return rows
    if promise is not None and not np.isnan(promise[rows]).all():
        known = rows[~np.isnan(promise[rows])]
        best_first: RowIndices = known[np.argsort(-promise[known], kind="stable")]
        return best_first[:n]
    return _select_spread(pool.scores[rows][:, list(features)], rows, n, rng, one_sided)


def _missing_cost(pool: CandidatePool, rows: RowIndices | int) -> Array:
    """Returns the cost of the rungs that each candidate lacks, (n,), or () for one row."""
    return np.asarray(np.where(pool.closed[rows], 0.0, pool.costs[rows]).sum(-1))


def _select_spread(answers: Array, rows: RowIndices, n: int, rng: np.random.Generator, one_sided: bool) -> RowIndices:
    """Selects n of the rows by the leading principal component of the ranks of their answers, (rows, d). Half of them
    come from each end or, if hits may lie in the middle, they are spread evenly. Without an answer they are drawn."""
    answers = answers[:, ~np.isnan(answers).all(0)]
    if not answers.shape[1]:
        drawn: RowIndices = rng.permutation(rows)[:n]
        return drawn
    filled = np.where(np.isnan(answers), np.nanmedian(answers, axis=0), answers)
    order_of_answers = np.argsort(filled, axis=0)
    ranks = np.argsort(order_of_answers, axis=0)
    centred = ranks - ranks.mean(0)
    _, _, components = np.linalg.svd(centred, full_matrices=False)
    order = np.argsort(centred @ components[0], kind="stable")
    if one_sided:
        n_low = math.ceil(n / 2)
        n_high = n // 2
        places = np.concatenate([order[:n_low], order[len(order) - n_high :]])
    else:
        evenly = (np.arange(n) + 0.5) / n * len(order)
        places = order[evenly.astype(np.intp)]
    chosen: RowIndices = rows[np.unique(places)]
    return chosen
