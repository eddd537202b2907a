"""Campaign thresholds: the optimal computational campaign, with one fixed gate for each rung.

1. A random pilot of candidates runs the whole ladder. Its transformed scores give a joint normal law.
2. For every subset of the rungs, a random local search on draws from that law finds the pass fractions with the most
   expected hits at the end of the ladder, under the budget.
3. The gates of the best subset are applied to all candidates in ladder order, by each rung's own score.
4. The remaining budget goes to the best rejected candidates, by the last rung that answered on them.

A gate is stored as the fraction of candidates that pass, not as a score. Both are the same if the law is known; the
fraction meets the budget even if the pilot misjudged the scores.

Source: Woo et al., Patterns 4, 100875 (2023), arXiv 2109.11683; subsets of the ladder as in their comparison of orders.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import ndtr

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase
from sciagent.scheduling.law.answer_transforms import ScoreTransform
from sciagent_bench.rivals.shared_first_purchases import ladders

PILOT_SIZE = 60  # candidates of the pilot
PILOT_SHARE = 0.05  # fraction of the budget that the pilot may cost
MIN_PILOT_SIZE = 20  # a smaller pilot may cost MIN_PILOT_SHARE of the budget
MIN_PILOT_SHARE = 0.1
SHRINK = 2.0  # weight, in rows, of the prior that rungs and terminal answer are uncorrelated
ENOUGH = 0.95  # fraction of all hits that a reduced budget still has to find
LESS = 0.8  # factor by which a budget is reduced
DRAWS = 4000  # candidates that are drawn from the law
STEPS = 150  # of the local search, for each subset of the rungs


@dataclass(frozen=True)
class Gates:
    """The fitted gates. rungs: those used, terminal rung last. shares: fraction of all candidates that enters each
    rung; never increases. hits: expected hits per candidate."""

    rungs: tuple[int, ...]
    shares: tuple[float, ...]
    hits: float


class CampaignThresholds:
    """The scheduler. threshold: in the terminal unit. sign: 1 if hits lie above it, else -1. budget: the total."""

    def __init__(self, threshold: float, sign: int, seed: int, budget: float) -> None:
        self._threshold = threshold
        self._sign = sign
        self._budget = budget
        self._rng = np.random.default_rng(seed)
        self._gates: Gates | None = None
        self._piloted = np.empty(0, dtype=np.intp)
        self._towards = np.empty(0)  # (k,) +1 or -1: whether higher or lower scores of a rung are better

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        if self._gates is None:
            pilot = self._pilot(pool, left)
            if pilot is not None:
                return pilot
            self._gates = self._fit(pool, left)
        return self._gated(pool, self._gates) or self._left_over(pool, self._gates, left)

    def _pilot(self, pool: CandidatePool, left: float) -> list[Purchase] | None:
        """Returns purchases for the pilot; None once it is complete."""
        affordable = self._budget / float(pool.costs.sum(1).mean())
        smallest = min(MIN_PILOT_SIZE, MIN_PILOT_SHARE * affordable)
        wanted = min(PILOT_SIZE, max(PILOT_SHARE * affordable, smallest), len(pool.out))
        missing = math.floor(wanted) - int(pool.closed.all(1).sum())
        if missing <= 0:
            return None
        return ladders(pool, left, missing, self._rng)

    def _fit(self, pool: CandidatePool, left: float) -> Gates:
        """Returns the gates by the law of the pilot's scores."""
        self._piloted = np.flatnonzero(pool.closed.all(1))
        rows = pool.scores[self._piloted]
        rows = rows[~np.isnan(rows).any(1)]
        last = pool.scores.shape[1] - 1
        self._towards = np.ones(last + 1)
        spent = pool.spent
        # In a stream, left + spent is the budget of the candidates that have arrived, and self._budget that of all. So
        # the pilot takes the same share from the budget of each candidate, whenever it arrives.
        per_candidate = (left + spent) / len(pool.out) * (1 - spent / self._budget)
        costs = pool.costs.mean(0)
        if len(rows) < 3:
            return Gates((last,), (min(per_candidate / costs[last], 1.0),), 0.0)
        z = np.column_stack([ScoreTransform.of(column)(column) for column in rows[:, :-1].T])
        y = self._sign * (rows[:, -1] - self._threshold)
        law = np.column_stack([(z - z.mean(0)) / z.std(0).clip(1e-9), (y - y.mean()) / max(y.std(), 1e-9)])
        correlation = (law.T @ law + SHRINK * np.eye(last + 1)) / (len(rows) + SHRINK)
        self._towards[:last] = np.where(correlation[:last, last] < 0, -1.0, 1.0)
        correlation = correlation * np.outer(self._towards, self._towards)
        level = float(np.clip(-y.mean() / max(y.std(), 1e-9), -3.5, 3.5))
        gates = find_gates(correlation, level, costs, per_candidate, self._rng)
        while True:  # a generous budget first pays the tightest gates that suffice
            per_candidate *= LESS
            tighter = find_gates(correlation, level, costs, per_candidate, self._rng)
            if tighter.hits < ENOUGH * float(ndtr(-level)):
                return gates
            gates = tighter

    def _gated(self, pool: CandidatePool, gates: Gates) -> list[Purchase]:
        """Returns purchases of the first used rung with free places, for the best candidates of the used rung below."""
        for place, (rung, share) in enumerate(zip(gates.rungs, gates.shares, strict=True)):
            # the pilot uses part of the budget, but no places
            started = int(pool.closed[:, rung].sum()) - len(self._piloted)
            free = math.floor(share * len(pool.out) + 1e-9) - started
            waiting = ~pool.out & ~pool.closed[:, rung]
            if place:
                waiting &= ~np.isnan(pool.scores[:, gates.rungs[place - 1]])
            ids = np.flatnonzero(waiting)
            if free > 0 and len(ids):
                score = self._score(pool, gates.rungs[place - 1])[ids] if place else self._rng.random(len(ids))
                order = np.argsort(-score, kind="stable")[:free]
                return [Purchase(int(ids[i]), PaidIndex(rung), index=-float(place)) for i in order]
        return []

    def _left_over(self, pool: CandidatePool, gates: Gates, left: float) -> list[Purchase]:
        """Returns purchases for the remaining budget: the best rejected candidates, then new ones.

        A rejected candidate has a score, and is not out: it was not verified.
        """
        last = gates.rungs[-1]
        after_all_gates = -float(len(gates.rungs))  # the index: these purchases come after those of the gates
        for place in range(len(gates.rungs) - 2, -1, -1):
            score = self._score(pool, gates.rungs[place])
            ids = np.flatnonzero(~pool.out & ~np.isnan(score))
            if len(ids):
                ids = ids[np.argsort(-score[ids], kind="stable")]
                ids = ids[np.cumsum(pool.costs[ids, last]) <= left]
                return [Purchase(int(i), PaidIndex(last), index=after_all_gates) for i in ids]
        # all scored candidates are verified; the first rung takes as many more as can then be verified
        first = gates.rungs[0]
        ids = self._rng.permutation(np.flatnonzero(~pool.out & ~pool.closed[:, first]))
        costs = pool.costs[ids, first] + (pool.costs[ids, last] if first != last else 0.0)
        affordable = ids[np.cumsum(costs) <= left]
        return [Purchase(int(i), PaidIndex(first), index=after_all_gates) for i in affordable]

    def _score(self, pool: CandidatePool, rung: int) -> Array:
        score: Array = self._towards[rung] * pool.scores[:, rung]
        return score


def find_gates(correlation: Array, level: float, costs: Array, budget: float, rng: np.random.Generator) -> Gates:
    """Returns the best subset of the rungs with its pass fractions.

    correlation: (k, k), terminal answer last. level: threshold of a hit, in standard deviations. costs: (k,). budget:
    per candidate, in the unit of the costs.
    """
    last = len(costs) - 1
    slope = np.linalg.solve(correlation[:last, :last], correlation[:last, last]) if last else np.empty(0)
    spread = math.sqrt(max(1 - float(slope @ correlation[:last, last]), 1e-6))
    z = rng.standard_normal((DRAWS, last)) @ np.linalg.cholesky(correlation[:last, :last]).T if last else None
    straight = min(budget / costs[last], 1.0)
    best = Gates((last,), (straight,), straight * float(ndtr(-level)))
    if z is None:
        return best
    hit = ndtr((z @ slope - level) / spread)
    for size in range(1, last + 1):
        for rungs in combinations(range(last), size):
            price = costs[[*rungs, last]]
            # the search starts from a funnel with equal spending on each rung
            now = np.minimum.accumulate(np.minimum(budget / len(price) / price, 1.0))[:size]
            reached = try_gates(z[:, rungs], hit, price, budget, now)
            width = 0.7
            for _ in range(STEPS):
                moved = np.minimum(now * np.exp(width * rng.standard_normal(size)), 1.0)
                tried = try_gates(z[:, rungs], hit, price, budget, moved)
                if tried[0] > reached[0]:
                    now = moved
                    reached = tried
                width = max(0.97 * width, 0.05)
            if reached[0] > best.hits:
                best = Gates((*rungs, last), tuple(reached[1]), reached[0])
    return best


def try_gates(z: Array, hit: Array, price: Array, budget: float, shares: Array) -> tuple[float, Sequence[float]]:
    """Returns expected hits per candidate, and the shares followed by the terminal one, which the rest of the budget
    sets. z: (draws, rungs) scores; hit: (draws,) hit probabilities; price: (rungs + 1,) costs, terminal rung last."""
    shares = np.minimum.accumulate(shares)
    through = min((budget - float(shares @ price[:-1])) / float(price[-1]), float(shares[-1]))
    if through <= 0:
        return -1.0, [*shares, 0.0]
    alive = np.arange(round(shares[0] * len(z)))
    for column, share in enumerate([*shares[1:], through]):
        keep = min(round(share * len(z)), len(alive))
        alive = alive[np.argpartition(-z[alive, column], keep - 1)[:keep]] if 0 < keep < len(alive) else alive[:keep]
    return float(hit[alive].sum() / len(z)), [*shares, through]
