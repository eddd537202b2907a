"""How a baseline opens: cheap rungs for everyone, whole ladders for a few.

`rules.priced` opens in its own way; the rest of the bench shares this one, so that they differ in their idea alone.
"""

from __future__ import annotations

import math

import numpy as np

from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.scheduling.arrays import Places
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase

CHEAP = 0.011  # of the terminal rung's cost: a rung up to here is a feature
SHARE = 0.3  # of what is left to spend, at most, for features
SHARE_OF_ONLY = 0.7  # the same where nothing else would tell candidates apart


def features(pool: CandidatePool, left: float, structure: bool) -> list[Purchase]:
    """Rungs that cost next to nothing, for all who lack them; where none does and nothing is known of the structure,
    the cheapest rung, or there would be nothing to tell candidates apart by. left: what may still be spent."""
    last = PaidIndex(pool.costs.shape[1] - 1)
    relative = np.median(pool.costs[:, :last] / pool.costs[:, last:], axis=0)
    rungs, share = [j for j in pool.paid[:-1] if relative[j] <= CHEAP], SHARE
    if not rungs and not structure and last:
        rungs, share = [PaidIndex(int(np.argmin(relative)))], SHARE_OF_ONLY
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
    """Features, then terminal verifications until there are so many answers; empty once there are."""
    if purchases := features(pool, left, structure):
        return purchases
    lacking = answers - int((~np.isnan(pool.scores[:, -1])).sum())
    last = pool.paid[-1]
    return [Purchase(int(i), last, math.inf) for i in tails(pool, lacking, sign, rng)] if lacking > 0 else []


def ladders(pool: CandidatePool, left: float, n: int, rng: np.random.Generator) -> list[Purchase]:
    """All rungs of n candidates that have seen none, drawn at random, or of as many as `left` affords."""
    fresh = np.flatnonzero(~pool.out & ~pool.closed.any(1))
    chosen = rng.permutation(fresh)[: max(n, 0)]
    chosen = chosen[np.cumsum(pool.costs[chosen].sum(1)) <= left]
    return [Purchase(int(i), j, math.inf) for i in chosen for j in pool.paid]


def tails(pool: CandidatePool, n: int, sign: int, rng: np.random.Generator) -> Places:
    """n open candidates: half the best and a quarter the worst by the mean rank of what is known of all, the rest
    drawn; all drawn where nothing is known. sign: 1 where more is better."""
    open_ = rng.permutation(np.flatnonzero(~pool.out & ~pool.closed[:, -1]))
    z = sign * pool.scores[open_, :-1]
    z = z[:, ~np.isnan(z).any(0)]
    if not z.shape[1]:
        return open_[:n]
    order = np.argsort(-z.argsort(axis=0).argsort(axis=0).mean(1), kind="stable")
    half, quarter = math.ceil(n / 2), n // 4
    ends = np.concatenate([order[:half], order[len(order) - quarter :]])
    middle = np.setdiff1d(np.arange(len(open_)), ends)[: n - half - quarter]
    chosen: Places = open_[np.unique(np.concatenate([ends, middle]))]
    return chosen
