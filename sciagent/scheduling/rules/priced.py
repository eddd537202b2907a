"""Priced: evidence is bought where it is worth most per unit of cost, by a law that learns what each rung tells.

1. Rungs that cost next to nothing beside the terminal one are bought for every candidate: they are features.
2. A few candidates, from both ends of what those say, go up the whole ladder, so that there is something to learn.
3. The law (a chain of Gaussian processes, with and without structure, stacked by their leave-one-out record) predicts
   the terminal answer of every open candidate; the dynamic programme of `scheduling.value` turns that into an index
   and the rung to buy. The largest indices are bought, the law takes in what they say, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.board import Board, Purchase
from sciagent.scheduling.law.chain import Chain, Forecast, Similarity
from sciagent.scheduling.law.stack import Stack
from sciagent.scheduling.law.transforms import TruthTransform
from sciagent.scheduling.value import PRICES, STOP, Programme, solve, solve_price

Array = NDArray[np.float64]
Places = NDArray[np.intp]

FREE = 0.011  # of the terminal rung's cost: a rung up to here is a feature
FREE_SHARE = 0.03  # of the budget: where a rung for all costs more, its worth is first learned
WARM_UP = 4  # terminal answers before there is a law
WARM_UP_RUNG = 8  # more of them for each paid rung whose worth has to be learned
WARM_UP_SHARE = 0.1  # of the budget, at most
# spent before the law takes in what it brought: terminal verifications, or a share of what was spent so far
BATCH, BATCH_SHARE = 8, 0.04
AHEAD = 3000  # candidates near the top that are looked at again between fits
# of the spend, for rungs that would be skipped, on candidates bound for the terminal one: to go on learning
LESSONS = 0.03
SAMPLE = 256  # candidates whose covariance stands for those of their group


class Priced:
    """threshold: of a hit, in the terminal rung's unit; sign: 1 where hits lie above it, -1 below.

    similarity: of the candidates' structures, by their place on the board, if they have any. budget: in the unit of
    the board's costs. Attribute: `price`, hits a terminal verification at which the budget would just be spent, as of
    the last fit; 0 where it buys everything.
    """

    def __init__(
        self, threshold: float, sign: int, similarity: Similarity | None = None, seed: int = 0, budget: float = math.inf
    ) -> None:
        self._threshold, self._sign = threshold, sign
        self._rng = np.random.default_rng(seed)
        self._budget = budget
        self._truth: TruthTransform | None = None
        self._stack = Stack(similarity, self._rng)
        self._lessons = 0.0
        self.price = 0.0
        self._index = np.empty(0)

    def choose(self, board: Board, left: float) -> list[Purchase]:
        """The next batch, most urgent first; empty when nothing can be bought. left: what may still be spent."""
        return self._features(board, left) or self._first(board, left) or self._best(board, left)

    def _features(self, board: Board, left: float) -> list[Purchase]:
        return [
            Purchase(int(i), j, math.inf)
            for j in self._free(board)
            for i in np.flatnonzero(~board.out & ~board.closed[:, j])
            if board.costs[i, j] <= left
        ]

    def _free(self, board: Board) -> list[int]:
        """The rungs that cost next to nothing beside the terminal one, and for all beside the budget."""
        cheap = np.median(board.costs / board.costs[:, -1:], axis=0) <= FREE
        return [int(j) for j in np.flatnonzero(cheap & (board.costs.sum(0) <= FREE_SHARE * self._budget))]

    def _first(self, board: Board, left: float) -> list[Purchase]:
        """Whole ladders for some, until there are enough terminal answers to learn from."""
        answered = ~np.isnan(board.scores[:, -1])
        paid = [j for j in range(board.costs.shape[1] - 1) if j not in self._free(board)]
        price = float(np.median(board.costs.sum(1)))
        wanted = WARM_UP + WARM_UP_RUNG * len(paid)
        wanted = max(WARM_UP, min(wanted, int(WARM_UP_SHARE * min(self._budget, len(board.out) * price) / price)))
        lacking = wanted - int(answered.sum())
        open_ = np.flatnonzero(~board.out & ~board.closed[:, -1])
        if lacking <= 0 or not len(open_) or (self._truth is not None):
            return []
        chosen = _tails(board.scores[open_][:, self._free(board)], open_, lacking, self._rng)
        return [
            Purchase(int(i), j, math.inf) for i in chosen for j in range(board.costs.shape[1]) if not board.closed[i, j]
        ]

    def _best(self, board: Board, left: float) -> list[Purchase]:
        answers = board.scores[~np.isnan(board.scores[:, -1]), -1]
        if not len(answers) or board.out.all():
            return []
        if self._truth is None:
            self._truth = TruthTransform.of(answers, self._threshold, self._sign)
        free = self._free(board)
        paid = [j for j in range(board.costs.shape[1]) if j not in free]
        known = int((~np.isnan(board.scores[:, paid])).sum())
        of = self._worth_a_look(board, self._stack.is_due(known))
        laws = self._stack.fit(board.scores, self._truth, known)
        index, rung = self._price(board, of, laws, left)
        self._index[of] = index
        order = np.argsort(-index, kind="stable")
        worth = max(BATCH * float(np.median(board.costs[:, -1])), BATCH_SHARE * board.spent)
        count = int(np.searchsorted(board.costs[of[order], rung[order]].cumsum(), worth, side="right"))
        batch = [Purchase(int(of[i]), int(rung[i]), float(index[i])) for i in order[: max(1, count)]]
        return self._with_lessons(board, batch, paid[:-1])

    def _worth_a_look(self, board: Board, whole: bool) -> Places:
        """Open candidates to forecast: all where the law is fitted anew; else, for the order changes slowly, those near
        its top and those that are new to it."""
        new = len(board.out) - len(self._index)
        self._index = np.concatenate([self._index, np.full(new, np.inf)])
        of = np.flatnonzero(~board.out)
        ahead = AHEAD + int(np.isinf(self._index[of]).sum())
        if whole or len(of) <= ahead:
            return of
        chosen: Places = np.sort(of[np.argpartition(-self._index[of], ahead)[:ahead]])
        return chosen

    def _with_lessons(self, board: Board, batch: list[Purchase], rungs: list[int]) -> list[Purchase]:
        """The batch, and for some that skip `rungs` on their way to the terminal one those too."""
        last = board.costs.shape[1] - 1
        afford = LESSONS * board.spent - self._lessons
        found: list[Purchase] = []
        for one in batch:
            for j in rungs if one.rung == last else []:
                cost = float(board.costs[one.of, j])
                if _above(board, one.of, j) and cost <= afford:
                    afford -= cost
                    self._lessons += cost
                    found.append(Purchase(one.of, j, one.index))
            found.append(one)
        return found

    def _price(
        self, board: Board, of: Places, laws: list[tuple[float, Chain]], left: float
    ) -> tuple[Array, NDArray[np.int64]]:
        """Index (hits a unit of cost) and the rung to buy, (n,) each. The index puts candidates in order; the price
        that the budget affords says what to buy for them."""
        last = board.costs.shape[1] - 1
        index, rung = np.zeros(len(of)), np.full(len(of), last)
        heaviest = max(weight for weight, _ in laws)
        plans: list[tuple[Places, Array, Array, Programme]] = []
        to_go = np.zeros(len(PRICES))
        for weight, law in laws:
            for places, rungs, forecast in _situations(board, of, law):
                keep = [*(forecast.missing.index(j) for j in rungs), len(forecast.missing)]
                some = forecast.covariance[:: max(1, len(places) // SAMPLE)]
                costs = board.costs[of[places]]
                relative = [float(np.median(costs[:, j] / costs[:, last])) for j in rungs]
                programme = solve(np.median(some[:, keep][:, :, keep], axis=0), relative)
                u = forecast.mean / np.sqrt(forecast.variance)
                index[places] += weight * programme.index(u) / costs[:, last]
                if weight == heaviest:
                    plans.append((places, u, np.array([*rungs, last]), programme))
                    to_go += programme.to_go(u, costs[:, last])
        if len(of) == int((~board.out).sum()):
            self.price = solve_price(to_go, left)
        for places, u, buys, programme in plans:
            action = programme.at_index(u)
            if self.price > 0:
                now = programme.action(u, self.price)
                action = np.where(now == STOP, action, now)
            rung[places] = buys[np.where(action < 0, len(buys) - 1, action)]
        return index, rung


def _above(board: Board, of: int, j: int) -> bool:
    """Whether rung j can still be bought for a candidate: nothing above it was. A rung bought in the light of a dearer
    one would teach the law that whoever has it is good."""
    return not board.closed[of, j:].any()


def _situations(board: Board, of: Places, law: Chain) -> Iterator[tuple[Places, list[int], Forecast]]:
    """Candidates that have seen the same rungs and can buy the same ones: places in `of`, those rungs, the forecast."""
    bits = 1 << np.arange(board.closed.shape[1] - 1)
    for places, forecast in law.forecast(of):
        # closed from above: a rung can be bought while it and all above it are open
        shut = np.logical_or.accumulate(board.closed[of[places]][:, -2::-1], axis=1)[:, ::-1]
        codes = shut @ bits
        for code in np.unique(codes):
            some = codes == code
            rungs = [j for j in forecast.missing if not int(code) >> j & 1]
            yield places[some], rungs, Forecast(forecast.missing, forecast.mean[some], forecast.covariance[some])


def _tails(z: Array, open_: Places, n: int, rng: np.random.Generator) -> Places:
    """n of `open_`, half from each end of the leading component of what is known of all of them, (len(open_), d)."""
    z = z[:, ~np.isnan(z).all(0)]
    if not z.shape[1]:
        drawn: Places = rng.permutation(open_)[:n]
        return drawn
    ranks = np.argsort(np.argsort(np.where(np.isnan(z), np.nanmedian(z, axis=0), z), axis=0), axis=0)
    centred = ranks - ranks.mean(0)
    leading = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
    order = np.argsort(leading, kind="stable")
    ends = np.unique(np.concatenate([order[: math.ceil(n / 2)], order[len(order) - n // 2 :]]))
    chosen: Places = open_[ends]
    return chosen
