"""The campaigns' rules as buyers of the bench, unchanged or with fitted parameters.

A candidate's expected utility is the rank of its last answer, worst to best: a rung is taken to estimate the terminal
property.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.stats import multivariate_normal, norm, spearmanr

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.candidate_pool import Buyer, CandidatePool, Purchase
from sciagent.scheduling.rules.halving import Halving
from sciagent.scheduling.rules.rank_by_one_rung import BestRung
from sciagent.scheduling.rules.rule_and_settings_bases import RungRule
from sciagent_bench.replay_once import SLOTS
from sciagent_bench.rivals.shared_first_purchases import ladders

PILOT = 20
PILOT_SHARE = 0.1  # size of the pilot, and the fraction of the budget that it may cost
MIN_ETA = 1.01
MAX_ETA = 30.0
FALL = 0.97
ENTRANCE = 0.5  # largest fraction of the budget for the first rung, to keep the rest for its best candidates
ENOUGH = 0.95
LESS = 0.8  # a budget is reduced by the factor LESS while this fraction of all hits is still found
ENTERED = np.linspace(0.05, 1.0, 20)


class Ordered:
    """Gives a buyer without an index one that makes its purchases comparable between budgets.

    The index is minus the spend since the last arrival of candidates. The batches of a stream, each with its share of
    the budget, are then read as if all had stopped at the same share. Infinite indices are kept.
    """

    def __init__(self, buyer: Buyer) -> None:
        self._buyer = buyer
        self._arrived = 0
        self._spent = 0.0

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        if len(pool.out) > self._arrived:
            self._arrived = len(pool.out)
            self._spent = 0.0
        ordered = []
        for purchase in self._buyer.choose(pool, left):
            if math.isfinite(purchase.index):
                self._spent += float(pool.costs[purchase.row, purchase.rung])
                purchase = Purchase(purchase.row, purchase.rung, -self._spent)
            ordered.append(purchase)
        return ordered


def _bought(rule: RungRule, sign: int, pool: CandidatePool, room: Mapping[int, int], slots: int) -> list[Purchase]:
    """Returns a rule's purchases. sign: 1 if a higher answer is better, else -1. room: jobs that a limited rung may
    still start."""
    ranked = ranks(pool.scores, sign)
    no_chance = np.where(np.isnan(ranked), np.nan, 0.0)
    p_hit = np.full(len(ranked), np.nan)
    pool.worth = np.column_stack((no_chance, ranked, ranked, p_hit))
    pool.room = tuple(room.get(j) for j in pool.paid)
    pool.slots = slots
    return rule.choose(pool, math.inf)


def ranks(scores: Array, sign: int) -> Array:
    """Returns (n,) ranks in (0, 1) of each candidate's last answer among those of its rung; NaN without an answer."""
    ranked = np.full(len(scores), np.nan)
    for column in scores.T:
        seen = np.flatnonzero(~np.isnan(column))
        ranked[seen[np.argsort(sign * column[seen], kind="stable")]] = (np.arange(len(seen)) + 0.5) / len(seen)
    return ranked


class FallingHalving:
    """Halving whose eta falls until the budget is spent: at first very few candidates are promoted, and a few more
    whenever no rung has a place. Every budget gets the funnel of equal shares that it pays for, sum_j n c_j / eta^j; no
    budget has to be known in advance. A rung answers on all candidates before any is promoted."""

    def __init__(self, sign: int) -> None:
        self._sign = sign
        self._eta = MAX_ETA
        self._arrived = 0

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        n = len(pool.out)
        if n > self._arrived:
            self._arrived = n
            self._eta = min(MAX_ETA, 1 + 2 * (self._eta - 1))
        entrance = math.ceil(ENTRANCE * (left + pool.spent) / float(pool.costs[:, 0].mean()))
        entrance = max(entrance - int(pool.closed[:, 0].sum()), 0)
        while self._eta > MIN_ETA:
            if purchases := _bought(Halving(self._eta), self._sign, pool, {0: entrance}, n):
                return purchases
            self._eta = 1 + FALL * (self._eta - 1)
        return []


class FittedBestRung:
    """Best rung, with the rung chosen by its rank correlation in a small pilot of whole ladders.

    A rung that ranks well may be too expensive for all candidates. The plan is the rung, and the fraction of candidates
    that it ranks, with the most expected hits under the budget, for jointly normal answers.
    """

    def __init__(self, threshold: float, sign: int, seed: int, budget: float) -> None:
        self._threshold = threshold
        self._sign = sign
        self._budget = budget
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
            if pool.pending[whole].any():
                return []  # people have not answered yet
            # In a stream, left + spent is the budget of the candidates that have arrived, and self._budget that of all.
            # So the pilot takes the same share from the budget of each candidate, whenever it arrives.
            per_candidate = (left + pool.spent) / len(pool.out) * (1 - pool.spent / self._budget)
            pilot_scores = self._sign * pool.scores[whole]
            self._plan = choose_rung(pilot_scores, self._sign * self._threshold, pool.costs, per_candidate)
        rung, share = self._plan
        places = round(share * len(pool.out)) - int(pool.closed[:, rung].sum())
        places = min(places, int((~pool.out & ~pool.closed[:, rung]).sum()))
        rule = BestRung(PaidIndex(rung), PaidIndex(last))
        if rung == last or places <= 0:
            return _bought(rule, self._sign, pool, {} if rung == last else {rung: 0}, SLOTS)
        return _bought(rule, self._sign, pool, {rung: places}, places)


def choose_rung(pilot: Array, threshold: float, costs: Array, budget: float) -> tuple[int, float]:
    """Returns the rung that ranks and the fraction of candidates that it ranks.

    pilot: (m, k) answers, hits above `threshold`. costs: (n, k). budget: per candidate.
    """
    pilot = pilot[~np.isnan(pilot).any(1)]
    price = costs.mean(0)
    last = pilot.shape[1] - 1
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
                    # P(score > a, answer > b) = P(-score < -a, -answer < -b)
                    hits = float(law.cdf([norm.ppf(min(through / entered, 1 - 1e-9)), -level])) * entered
                    plan = max(plan, (hits, j, float(entered)))
        return plan

    plan = best(budget)
    while (tighter := best(LESS * budget))[0] >= ENOUGH * float(norm.sf(level)):  # a smaller budget suffices
        plan = tighter
        budget = LESS * budget
    return plan[1], plan[2]
