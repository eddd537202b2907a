"""The rules of campaigns, replayed unmodified on a board: what they would have bought.

A candidate waits for the rung after the last one it has seen, with the rank of what that one said, towards the goal,
as its score in [0, 1]: a rung is taken to estimate the terminal property, as a rung of a campaign does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, norm, spearmanr

from sciagent.domain.ports import OpenCandidates, RungRoom, Scheduler
from sciagent.scheduling.candidate_pool import Board, Purchase
from sciagent.scheduling.opening import Pace, ladders
from sciagent.scheduling.rules.best_rung import BestRung
from sciagent.scheduling.rules.halving import Halving

Array = NDArray[np.float64]

WINDOW = 512  # waiting candidates of a rung that a rule is shown at once, as in a campaign
SLOTS = 16  # places that are free at once
PILOT, PILOT_SHARE = 20, 0.1  # whole ladders from which `best_rung` learns, and what they may cost of the budget
MIN_ETA, MAX_ETA, FALL = 1.01, 30.0, 0.97
ENTRANCE = 0.5  # of the budget, at most, for the first rung: what nobody follows up is lost
ENOUGH, LESS = 0.95, 0.8  # of all hits; the steps in which a budget is brought down to what finds so many
ENTERED = np.linspace(0.05, 1.0, 20)


class Ruled:
    """sign: 1 where more is better. slots: places that are free at once; None: as many as there are candidates, and
    the rule is shown all of them."""

    def __init__(self, rule: Scheduler, sign: int, slots: int | None = SLOTS) -> None:
        self._rule, self._sign, self._slots = rule, sign, slots
        self._pace = Pace()

    def choose(self, board: Board, left: float) -> list[Purchase]:
        return self.replay(self._rule, board, {}, self._slots or len(board.out))

    def replay(self, rule: Scheduler, board: Board, remaining: Mapping[int, int], slots: int) -> list[Purchase]:
        """remaining: jobs that a rung may still start, of rungs that are limited by count."""
        k = board.scores.shape[1]
        position, score = standing(board, self._sign)
        waiting, room = [], []
        for j in range(k):
            ids = np.flatnonzero((position == j) & ~board.out)
            if self._slots is not None:
                shown = (
                    np.lexsort((ids, -np.nan_to_num(score[ids], nan=-1.0))) if rule.by_score else np.arange(len(ids))
                )
                ids = ids[shown[:WINDOW]]
            waiting.append(OpenCandidates(j, ids, ids, score[ids], board.costs[ids, j]))
            started = int(board.closed[:, j].sum())
            room.append(RungRoom(remaining.get(j), np.empty(0, dtype=np.int64), started))
        choices = rule.choose(waiting, room, slots)
        return self._pace.order(board, [(c.id, c.position) for c in choices])


def standing(board: Board, sign: int) -> tuple[NDArray[np.int64], Array]:
    """Of each candidate the rung it waits for, the one after the last it has tried, and its score, NaN where it has
    seen nothing; (n,) each."""
    n, k = board.scores.shape
    position, score = np.zeros(n, dtype=np.int64), np.full(n, np.nan)
    for j in range(k):
        position[board.closed[:, j]] = j + 1
        seen = np.flatnonzero(~np.isnan(board.scores[:, j]))
        score[seen[np.argsort(sign * board.scores[seen, j], kind="stable")]] = (np.arange(len(seen)) + 0.5) / len(seen)
    return position, score


class FallingHalving(Ruled):
    """Halving whose eta falls until the budget is spent: at first very few go on, and whenever no rung has a place, a
    few more. So every budget sees the funnel of equal shares that it affords, sum_j n c_j / eta^j, which is the most
    that halving can find, and no budget has to be known ahead. A rung is answered for all before any goes on."""

    def __init__(self, sign: int) -> None:
        super().__init__(Halving(MAX_ETA), sign, None)
        self._eta, self._arrived = MAX_ETA, 0

    def choose(self, board: Board, left: float) -> list[Purchase]:
        n = len(board.out)
        if n > self._arrived:
            self._arrived, self._eta = n, min(MAX_ETA, 1 + 2 * (self._eta - 1))
        entrance = math.ceil(ENTRANCE * (left + board.spent) / float(board.costs[:, 0].mean()))
        entrance = max(entrance - int(board.closed[:, 0].sum()), 0)
        while self._eta > MIN_ETA:
            if found := self.replay(Halving(self._eta), board, {0: entrance}, n):
                return found
            self._eta = 1 + FALL * (self._eta - 1)
        return []


class FittedBestRung(Ruled):
    """Best rung, the rung chosen by its rank correlation in a small pilot of whole ladders.

    A rung that ranks well may cost too much to rank all: chosen is the rung, and the share of candidates that it ranks,
    that lead to most hits under the budget if answers are jointly normal.
    """

    def __init__(self, threshold: float, sign: int, seed: int, budget: float) -> None:
        super().__init__(BestRung(0, 0), sign, None)
        self._threshold, self._budget = threshold, budget
        self._rng = np.random.default_rng(seed)
        self._plan: tuple[int, float] | None = None

    def choose(self, board: Board, left: float) -> list[Purchase]:
        last = board.scores.shape[1] - 1
        if self._plan is None:
            price = float(board.costs.sum(1).mean())
            affordable = self._budget / price
            wanted = int(min(max(PILOT_SHARE * affordable, min(4.0, affordable / 2)), PILOT, len(board.out)))
            whole = board.closed.all(1)
            if whole.sum() < wanted:
                return ladders(board, left, wanted - int(whole.sum()), self._rng)
            each = (left + board.spent) / len(board.out) * (1 - board.spent / self._budget)
            self._plan = choose_rung(self._sign * board.scores[whole], self._sign * self._threshold, board.costs, each)
        rung, share = self._plan
        places = round(share * len(board.out)) - int(board.closed[:, rung].sum())
        places = min(places, int((~board.out & ~board.closed[:, rung]).sum()))
        if rung == last or places <= 0:
            return self.replay(BestRung(rung, last), board, {} if rung == last else {rung: 0}, SLOTS)
        return self.replay(BestRung(rung, last), board, {rung: places}, places)


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
        found = (min(budget / float(price[-1]), 1.0) * float(norm.sf(level)), last, 1.0)
        for j, law in enumerate(laws):
            for entered in ENTERED:
                through = min((budget - entered * price[j]) / price[-1], entered)
                if through > 0:
                    # above both: P(score > a, answer > b) = P(-score < -a, -answer < -b)
                    hits = float(law.cdf([norm.ppf(min(through / entered, 1 - 1e-9)), -level])) * entered
                    found = max(found, (hits, j, float(entered)))
        return found

    plan = best(budget)
    while (tighter := best(LESS * budget))[0] >= ENOUGH * float(norm.sf(level)):  # more than enough: what suffices
        plan, budget = tighter, LESS * budget
    return plan[1], plan[2]
