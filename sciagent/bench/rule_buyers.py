"""Rules of campaigns in the bench: as they are, or helped as far as they can be.

A candidate's score is the rank of its last answer towards the goal: a rung is taken to estimate the terminal property.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.stats import multivariate_normal, norm, spearmanr

from sciagent.bench.opening import ladders
from sciagent.bench.simulate import SLOTS
from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.scheduling.arrays import Array
from sciagent.scheduling.candidate_pool import Buyer, CandidatePool, Purchase
from sciagent.scheduling.rules.best_rung import BestRung
from sciagent.scheduling.rules.halving import Halving
from sciagent.scheduling.rules.rung_by_rung import RungRule

PILOT, PILOT_SHARE = 20, 0.1  # whole ladders from which `best_rung` learns, and what they may cost of the budget
MIN_ETA, MAX_ETA, FALL = 1.01, 30.0, 0.97
ENTRANCE = 0.5  # of the budget, at most, for the first rung: what nobody follows up is lost
ENOUGH, LESS = 0.95, 0.8  # of all hits; the steps in which a budget is brought down to what finds so many
ENTERED = np.linspace(0.05, 1.0, 20)


class Ordered:
    """A rule or another buyer without an index of its own, with one that compares its purchases between budgets.

    The index is minus what was spent since candidates last arrived, so that the batches of a stream, each with its
    share of the budget, are read as if all had been stopped at the same share. Infinite indices stay as they are.
    """

    def __init__(self, buyer: Buyer, sign: int) -> None:
        """sign: 1 where more is better."""
        self._buyer = buyer
        if isinstance(buyer, RungRule):
            buyer.sign = sign
        self._arrived, self._spent = 0, 0.0

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        if len(pool.out) > self._arrived:
            self._arrived, self._spent = len(pool.out), 0.0
        ordered = []
        for purchase in self._buyer.choose(pool, left):
            if math.isfinite(purchase.index):
                self._spent += float(pool.costs[purchase.of, purchase.rung])
                purchase = Purchase(purchase.of, purchase.rung, -self._spent)
            ordered.append(purchase)
        return ordered


def _bought(rule: RungRule, sign: int, pool: CandidatePool, room: Mapping[int, int], slots: int) -> list[Purchase]:
    """room: jobs that a rung may still start, for rungs that are limited by count."""
    rule.sign = sign
    pool.room, pool.slots = tuple(room.get(j) for j in pool.paid), slots
    return rule.choose(pool, math.inf)


class FallingHalving:
    """Halving whose eta falls until the budget is spent: at first very few go on, and whenever no rung has a place, a
    few more. So every budget sees the funnel of equal shares that it affords, sum_j n c_j / eta^j, which is the most
    that halving can find, and no budget has to be known ahead. A rung is answered for all before any goes on."""

    def __init__(self, sign: int) -> None:
        self._sign = sign
        self._eta, self._arrived = MAX_ETA, 0

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        n = len(pool.out)
        if n > self._arrived:
            self._arrived, self._eta = n, min(MAX_ETA, 1 + 2 * (self._eta - 1))
        entrance = math.ceil(ENTRANCE * (left + pool.spent) / float(pool.costs[:, 0].mean()))
        entrance = max(entrance - int(pool.closed[:, 0].sum()), 0)
        while self._eta > MIN_ETA:
            if purchases := _bought(Halving(self._eta), self._sign, pool, {0: entrance}, n):
                return purchases
            self._eta = 1 + FALL * (self._eta - 1)
        return []


class FittedBestRung:
    """Best rung, the rung chosen by its rank correlation in a small pilot of whole ladders.

    A rung that ranks well may cost too much to rank all: chosen is the rung, and the share of candidates that it ranks,
    that lead to most hits under the budget if answers are jointly normal.
    """

    def __init__(self, threshold: float, sign: int, seed: int, budget: float) -> None:
        self._threshold, self._sign, self._budget = threshold, sign, budget
        self._rng = np.random.default_rng(seed)
        self._plan: tuple[int, float] | None = None

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        last = pool.scores.shape[1] - 1
        if self._plan is None:
            price = float(pool.costs.sum(1).mean())
            affordable = self._budget / price
            wanted = int(min(max(PILOT_SHARE * affordable, min(4.0, affordable / 2)), PILOT, len(pool.out)))
            whole = pool.closed.all(1)
            if whole.sum() < wanted:
                return ladders(pool, left, wanted - int(whole.sum()), self._rng)
            each = (left + pool.spent) / len(pool.out) * (1 - pool.spent / self._budget)
            self._plan = choose_rung(self._sign * pool.scores[whole], self._sign * self._threshold, pool.costs, each)
        rung, share = self._plan
        places = round(share * len(pool.out)) - int(pool.closed[:, rung].sum())
        places = min(places, int((~pool.out & ~pool.closed[:, rung]).sum()))
        rule = BestRung(PaidIndex(rung), PaidIndex(last))
        if rung == last or places <= 0:
            return _bought(rule, self._sign, pool, {} if rung == last else {rung: 0}, SLOTS)
        return _bought(rule, self._sign, pool, {rung: places}, places)


def choose_rung(pilot: Array, threshold: float, costs: Array, budget: float) -> tuple[int, float]:
    """The rung to rank by and the share of candidates to rank.

    pilot: (m, k) answers, hits above `threshold`. costs: (n, k). budget: of one candidate.
    """
    pilot = pilot[~np.isnan(pilot).any(1)]
    price, last = costs.mean(0), pilot.shape[1] - 1
    if len(pilot) < 3:
        return last, 1.0
    spread = float(pilot[:, -1].std(ddof=1)) or 1.0
    level = float(np.clip((threshold - pilot[:, -1].mean()) / spread, -3.5, 3.5))
    laws = []
    for j in range(last):
        rank = float(np.nan_to_num(spearmanr(pilot[:, j], pilot[:, -1]).statistic))
        rho = float(np.clip(2 * np.sin(np.pi * rank / 6), -0.99, 0.99))
        laws.append(multivariate_normal(cov=[[1.0, rho], [rho, 1.0]]))

    def best(budget: float) -> tuple[float, int, float]:
        plan = (min(budget / float(price[-1]), 1.0) * float(norm.sf(level)), last, 1.0)
        for j, law in enumerate(laws):
            for entered in ENTERED:
                through = min((budget - entered * price[j]) / price[-1], entered)
                if through > 0:
                    # above both: P(score > a, answer > b) = P(-score < -a, -answer < -b)
                    hits = float(law.cdf([norm.ppf(min(through / entered, 1 - 1e-9)), -level])) * entered
                    plan = max(plan, (hits, j, float(entered)))
        return plan

    plan = best(budget)
    while (tighter := best(LESS * budget))[0] >= ENOUGH * float(norm.sf(level)):  # more than enough: what suffices
        plan, budget = tighter, LESS * budget
    return plan[1], plan[2]
