"""The opening of the baselines: cheap rungs for all candidates, whole ladders for a few.

The baselines share this opening, so that they differ only in their main idea. `rules.priced` has its own opening.
"""

from __future__ import annotations

import math

import numpy as np

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.array_types import RowIndices
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase

CHEAP = 0.011  # a rung is a feature if it costs at most this fraction of the terminal rung
SHARE = 0.3  # largest fraction of the remaining budget for features
SHARE_OF_ONLY = 0.7  # the same fraction for a rung that is the only information about the candidates


def features(pool: CandidatePool, left: float, structure: bool) -> list[Purchase]:
    """Returns purchases of very cheap rungs for all candidates without them. If there is no such rung and no structure,
    the cheapest rung is bought, since it alone distinguishes candidates. left: remaining budget."""
    last = PaidIndex(pool.costs.shape[1] - 1)
    relative = np.median(pool.costs[:, :last] / pool.costs[:, last:], axis=0)
    rungs = [j for j in pool.paid[:-1] if relative[j] <= CHEAP]
    share = SHARE
    if not rungs and not structure and last:
        rungs = [PaidIndex(int(np.argmin(relative)))]
        share = SHARE_OF_ONLY
    total = 0.0
    purchases: list[Purchase] = []
    for j in rungs:
        places = np.flatnonzero(~pool.out & ~pool.closed[:, j])
        total += float(pool.costs[places, j].sum())
        if total > share * left:
            break
        purchases += [Purchase(int(i), j, math.inf) for i in places]
    return purchases


def warm_up(
    pool: CandidatePool, left: float, structure: bool, answers: int, sign: int, rng: np.random.Generator
) -> list[Purchase]:
    """Returns features first, then terminal verifications until `answers` of them have answered; then an empty list."""
    if purchases := features(pool, left, structure):
        return purchases
    lacking = answers - int((~np.isnan(pool.scores[:, -1])).sum())
    last = pool.paid[-1]
    return [Purchase(int(i), last, math.inf) for i in tails(pool, lacking, sign, rng)] if lacking > 0 else []


def ladders(pool: CandidatePool, left: float, n: int, rng: np.random.Generator) -> list[Purchase]:
    """Returns all rungs for n random candidates without any answer, or for as many as `left` pays for."""
    fresh = np.flatnonzero(~pool.out & ~pool.closed.any(1))
    chosen = rng.permutation(fresh)[: max(n, 0)]
    chosen = chosen[np.cumsum(pool.costs[chosen].sum(1)) <= left]
    purchases = []
    for i in chosen:
        for j in pool.paid:
            purchases.append(Purchase(int(i), j, math.inf))
    return purchases


def tails(pool: CandidatePool, n: int, sign: int, rng: np.random.Generator) -> RowIndices:
    """Returns n open candidates: half from the best and a quarter from the worst by mean rank, the rest random. All are
    random if no rung has answered for all. sign: 1 if higher is better, else -1."""
    open_ = rng.permutation(np.flatnonzero(~pool.out & ~pool.closed[:, -1]))
    z = sign * pool.scores[open_, :-1]
    z = z[:, ~np.isnan(z).any(0)]
    if not z.shape[1]:
        return open_[:n]
    order = np.argsort(-z.argsort(axis=0).argsort(axis=0).mean(1), kind="stable")
    half = math.ceil(n / 2)
    quarter = n // 4
    ends = np.concatenate([order[:half], order[len(order) - quarter :]])
    middle = np.setdiff1d(np.arange(len(open_)), ends)[: n - half - quarter]
    chosen: RowIndices = open_[np.unique(np.concatenate([ends, middle]))]
    return chosen
