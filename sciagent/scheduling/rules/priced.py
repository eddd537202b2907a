"""Priced: evidence is bought where it is worth most per unit of cost, by a law that learns what each rung tells.

1. Rungs that cost next to nothing beside the terminal one are bought for every candidate: they are features.
2. A few candidates, from both ends of what those say, go up the whole ladder, so that there is something to learn.
3. The law (a chain of Gaussian processes, with and without structure, stacked by their leave-one-out record) predicts
   the terminal answer of every open candidate; the dynamic programme of `scheduling.value` turns that into an index
   and the rung to buy. The largest indices are bought, the law takes in what they say, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.domain.valuation import Valuation
from sciagent.scheduling.aims import Aims, questions
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase
from sciagent.scheduling.indices import CandidateGroup, Plans, groups
from sciagent.scheduling.law.censoring import expected_answers
from sciagent.scheduling.law.hints import Padded, hinted, made_up
from sciagent.scheduling.law.similarity import Similarity
from sciagent.scheduling.law.stack import Law, Stack
from sciagent.scheduling.law.transforms import TruthTransform
from sciagent.scheduling.subsampling import Evaluated, ahead, drawn, first, guessed, promising
from sciagent.scheduling.value import PRICES, solve_price

Array = NDArray[np.float64]
Places = NDArray[np.intp]
_Found = tuple[Law, CandidateGroup]

# a rung is a feature up to this share of the terminal one's cost and, for all candidates, of the budget
FREE = 0.011, 0.03
TRUSTED = 0.05, 0.25  # the same for a rung that measures what is wanted, if at another level
WARM_UP = 4  # terminal answers before there is a law
WARM_UP_RUNG = 8  # more of them for each paid rung whose worth has to be learned
WARM_UP_SHARE = 0.1  # of the budget, at most
# spent before the law takes in what it brought: terminal verifications, or a share of what was spent so far
BATCH, BATCH_SHARE = 8, 0.04
BATCH_LEFT = 0.125  # of what is left, at most, where that does not buy everything
JUDGED = 500  # of the best, that say what a rung brings
LESSONS = 0.03  # of the spend, for rungs that would be skipped on the way to the terminal one: to go on learning
AT_ONCE = 1 << 14  # features, which may be wanted for a million candidates
SOME = 10_000  # candidates whose costs stand for all


@dataclass(frozen=True)
class Patience:
    """A look takes time in which nobody decides anything. seconds: (k,) that a purchase of each rung lasts on all
    workers together; lasts: seconds that a batch has to last at least."""

    seconds: Array
    lasts: float

    def count(self, rungs: NDArray[np.int64]) -> int:
        """How many of these purchases, in their order, last so long."""
        return int(np.searchsorted(self.seconds[rungs].cumsum(), self.lasts))


class Priced:
    """The law, the programme and the price together, as a scheduler."""

    name = "priced"

    def __init__(
        self,
        aims: Aims,
        similarity: Similarity | None = None,
        seed: int = 0,
        budget: float = math.inf,
        trusted: frozenset[PaidIndex] = frozenset(),
    ) -> None:
        """similarity: of the candidates' structures, by their row in the pool, if they have any. budget: in the unit of
        the pool's costs. trusted: rungs that measure what is wanted, if at another level: known to tell."""
        self.aims, self.budget, self._trusted = aims, budget, trusted
        self._rng = np.random.default_rng(seed)
        self._looks = np.random.default_rng([seed, 1])  # its own: the law must not depend on who is drawn
        self.truths: tuple[TruthTransform, ...] | None = None
        self._padded = None if similarity is None else Padded(similarity)
        self._stack = Stack(self._padded, self._rng)
        self.laws: list[Law] = []
        self._lessons = 0.0
        self._rest = np.zeros(len(PRICES))  # cost to go of those that were not evaluated, by price of a verification
        self._base = 1.0  # what one costs
        self._pupils: list[int] = []  # those that go up the whole ladder

        self.price = 0.0
        """Payoff a unit of cost at which the budget would just be spent, as of the last choice; 0 where it buys all."""

        self.patience: Patience | None = None
        """How long a batch has to last; set by who knows how long a choice takes."""

        self.index = np.empty(0)
        """(n,) payoff a unit of cost, as of when each candidate was last evaluated, or predicted (see `subsampling`);
        NaN before."""

        self.expected = np.empty(0)
        """(n,) expected payoff of a terminal verification, as of when each candidate was last evaluated."""

        self.value = np.empty(0)
        """(n,) value at the price, as of when each candidate was last evaluated."""

        self.purchases: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)
        """(n, k) expected purchases to come, at the price."""

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """The next batch, most urgent first; empty when nothing can be bought. left: what may still be spent."""
        return self.for_everyone(pool, left) or self._first(pool, left) or self._best(pool, left)

    def for_everyone(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """Rungs that cost next to nothing, for those who lack them: at most `AT_ONCE`, the rest when asked again."""
        found: list[Purchase] = []
        for j in self.free(pool):
            of = pool.open[~pool.closed[pool.open, j] & (pool.costs[pool.open, j] <= left)]
            found += [Purchase(i, j, math.inf) for i in of[: AT_ONCE - len(found)].tolist()]
        return found

    def valuation(self, pool: CandidatePool, row: int) -> Valuation | None:
        """What a candidate is worth, as of when it was last evaluated; None before."""
        if row >= len(self.index) or math.isnan(self.expected[row]):
            return None
        payoff, cost = float(self.expected[row]), float(self.purchases[row] @ pool.costs[row])
        p_hit = payoff if self.aims.kind == "hits" else None
        return Valuation(payoff, p_hit, cost, float(self.value[row]), float(self.index[row]))

    def free(self, pool: CandidatePool) -> list[PaidIndex]:
        """Rungs that cost next to nothing, none above a dearer one that decides an objective, which it would skip."""
        rows = np.flatnonzero(pool.in_play)
        if not len(rows):
            return []
        trusted = self._trusted | {pool.rungs[hint.column] for hint in self.aims.hints}
        limits = np.array([TRUSTED if j in trusted else FREE for j in range(pool.costs.shape[1])])
        some = pool.costs[rows[:: math.ceil(len(rows) / SOME)]]
        cheap = np.flatnonzero(np.median(some / some[:, -1:], axis=0) <= limits[:, 0])
        free = [PaidIndex(int(j)) for j in cheap if pool.costs[rows, j].sum() <= limits[j, 1] * self.budget]
        dearer = {pool.rungs[aim.columns[-1]] for aim in self.aims.aims} - {*free}
        return [j for j in free if not any(0 <= decides < j for decides in dearer)]

    def _first(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """Whole ladders for some, until there are enough terminal answers to learn from."""
        if self.truths is not None or len(made_up(self.aims.hints, pool.scores)):
            self._pupils = []  # what they lack is bought, or not, as for all others
            return []
        free, last = self.free(pool), pool.costs.shape[1] - 1
        paid = [j for j in pool.paid[:-1] if j not in free]
        rows = np.flatnonzero(pool.in_play)
        some = pool.costs[rows[:: math.ceil(len(rows) / SOME) or 1]]
        price = float(np.median(some.sum(1))) if len(some) else 1.0
        wanted = WARM_UP + WARM_UP_RUNG * len(paid)
        wanted = max(WARM_UP, min(wanted, int(WARM_UP_SHARE * min(self.budget, len(rows) * price) / price)))
        self._pupils = [i for i in self._pupils if not pool.out[i]]
        lacking = wanted - int(self._decided(pool).sum()) - len(self._pupils)
        open_ = np.setdiff1d(pool.open[~pool.closed[pool.open, last]], self._pupils)
        if lacking > 0 and len(open_):
            columns = [c for j in free for c in pool.columns(j)]
            z = pool.scores[open_][:, columns]
            one_sided = all(math.isinf(aim.low) != math.isinf(aim.high) for aim in self.aims.aims)
            self._pupils += [int(i) for i in _spread(z, open_, lacking, self._rng, one_sided)]
        return [
            Purchase(i, j, math.inf)
            for i in self._pupils
            if not pool.pending[i]
            for j in pool.paid
            if not pool.closed[i, j]
        ]

    def _decided(self, pool: CandidatePool) -> NDArray[np.bool_]:
        """(n,) whether every aim is decided."""
        found = np.ones(len(pool.scores), dtype=bool)
        for aim in self.aims.aims:
            found &= ~np.isnan(pool.scores[:, aim.columns[-1]])
        return found

    def _best(self, pool: CandidatePool, left: float) -> list[Purchase]:
        decided = int(self._decided(pool).sum())
        observed = self._observed(pool, decided)
        scores, errors = hinted(self.aims.hints, *observed, decided)
        if not len(pool.open) or not (decided or len(scores) > len(pool.scores)):
            return []
        if self.truths is None:
            if decided < len(self._pupils):
                return []  # most of those that are to be learned from are still at work
            self.truths = self.aims.truths(scores)
        if self._padded is not None:
            self._padded.n = len(pool.scores)
        free = self.free(pool)
        paid = [j for j in pool.paid if j not in free]
        known = sum(int(pool.answered(j).sum()) for j in paid)
        fitted = self._stack.is_due(known)
        self.laws = self._stack.fit(questions(self.aims, self.truths, scores, errors), known)
        self._grow(pool)
        look, found = self._look(pool, fitted)
        rung = self._price(pool, look, found, left)
        of, index = look.of, self.index[look.of]
        order = np.argsort(-index, kind="stable")
        one = float(np.median(pool.costs[of, -1]))
        worth = max(BATCH * one, BATCH_SHARE * pool.spent)
        if self.price > 0:  # near the end of what may be spent a batch must not be all that is left
            worth = max(min(worth, BATCH_LEFT * left), one)
        count = int(np.searchsorted(pool.costs[of[order], rung[order]].cumsum(), worth, side="right"))
        if self.patience is not None:
            count = max(count, self.patience.count(rung[order]))
        batch = [
            Purchase(int(of[i]), PaidIndex(int(rung[i])), float(index[i]), valuation=self.valuation(pool, int(of[i])))
            for i in order[: max(1, count)]
        ]
        return self._with_lessons(pool, batch, paid[:-1])

    def _observed(self, pool: CandidatePool, decided: int) -> tuple[Array, NDArray[np.float32] | None]:
        """Scores and errors, with censored answers as they are expected."""
        if pool.bounds is None or not decided:
            return pool.scores, pool.errors
        if self._padded is not None:
            self._padded.n = len(pool.scores)
        truths = self.truths or self.aims.truths(pool.scores)

        def fit(scores: Array, errors: NDArray[np.float32] | None) -> list[Law]:
            scratch = Stack(self._padded, np.random.default_rng(0))  # the law's own draws stay as they are
            scratch.restore(self._stack.state())
            exact = hinted(self.aims.hints, scores, errors, decided)
            return scratch.fit(questions(self.aims, truths, *exact), 0)

        return expected_answers(pool.scores, pool.errors, pool.bounds, self.aims, truths, fit)

    def _grow(self, pool: CandidatePool) -> None:
        """Nothing is known of candidates that have arrived."""
        if more := len(pool.out) - len(self.index):
            k = pool.costs.shape[1]
            self.purchases = np.concatenate([self.purchases.reshape(-1, k), np.zeros((more, k), dtype=np.float32)])
            self.index, self.expected, self.value = (
                np.concatenate([known, np.full(more, np.nan)]) for known in (self.index, self.expected, self.value)
            )

    def _look(self, pool: CandidatePool, fitted: bool) -> tuple[Evaluated, list[_Found]]:
        """What the laws say of open candidates: see `looking`. fitted: the law was fitted anew."""
        of = pool.open
        if not fitted:
            look = ahead(of, self.index[of])
            return look, self._say(pool, look.of)
        seen = drawn(self.index[of], self._looks)
        plans = [Plans() for _ in self.laws]
        found = self._say(pool, of[seen], plans)
        if seen.all():
            return Evaluated(of, True), found
        guess = guessed(pool, of, self.index[of], seen, _mixed(found, int(seen.sum())))
        chosen, others = promising(guess, seen)
        more = self._say(pool, of[chosen], plans)
        found += [(law, replace(group, places=group.places + seen.sum())) for law, group in more]
        rest = ~(seen | chosen)
        self.index[of[rest]] = guess[rest]
        order = np.concatenate([np.flatnonzero(seen), np.flatnonzero(chosen)])
        return Evaluated(of[order], True, others[order]), found

    def _say(self, pool: CandidatePool, of: Places, plans: Sequence[Plans] | None = None) -> list[_Found]:
        """plans: by law, that are to be kept, or were."""
        assert self.truths is not None
        payoff = self.aims.payoff(self.truths, pool.scores)
        return [
            (law, group)
            for law, kept in zip(self.laws, plans or [Plans() for _ in self.laws], strict=True)
            for group in groups(pool, of, self.aims, self.truths, payoff, law.chains, plans=kept)
        ]

    @property
    def is_learnt(self) -> bool:
        """Whether there is a law yet."""
        return self.truths is not None

    @property
    def fits(self) -> int:
        """How often hyper-parameters were looked for."""
        return self._stack.fits

    def state(self) -> Mapping[str, Any]:
        """What was learnt, as JSON; with the evidence of the time it makes the same law again."""
        truths = None if self.truths is None else [one.state() for one in self.truths]
        return {"stack": self._stack.state(), "truths": truths, "lessons": self._lessons, "price": self.price}

    def learn_from(self, state: Mapping[str, Any]) -> None:
        """Begin with the hyper-parameters of another campaign's law, to be looked for again at the first fit."""
        self._stack.restore(state["stack"] | {"fitted_at": 0})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Begin where another left off."""
        self._stack.restore(state["stack"])
        self._lessons, self.price = float(state["lessons"]), float(state["price"])
        if state["truths"] is not None:
            self.truths = tuple(TruthTransform.restored(one) for one in state["truths"])

    def _with_lessons(self, pool: CandidatePool, batch: list[Purchase], rungs: list[PaidIndex]) -> list[Purchase]:
        """The batch, and for some that skip `rungs` on their way to the terminal one those too."""
        last = pool.costs.shape[1] - 1
        afford = LESSONS * pool.spent - self._lessons
        found: list[Purchase] = []
        for one in batch:
            for j in rungs if one.rung == last else []:
                cost = float(pool.costs[one.of, j])
                if _above(pool, one.of, j) and cost <= afford:
                    afford -= cost
                    self._lessons += cost
                    found.append(replace(one, rung=j))
            found.append(one)
        return found

    def _price(self, pool: CandidatePool, look: Evaluated, found: list[_Found], left: float) -> NDArray[np.int64]:
        """The rung to buy, (n,); sets price, index, expected payoff and value. The index puts candidates in order; the
        price that the budget affords says what to buy for them."""
        of, index = look.of, _mixed(found, len(look.of))
        heaviest = max(self.laws, key=lambda law: law.weight)
        self.price = self._solved(pool, look, index, [group for law, group in found if law is heaviest], left)
        last = pool.costs.shape[1] - 1
        rung = np.full(len(of), last)
        expected, value = np.zeros(len(of)), np.zeros(len(of))
        for law, group in found:
            places = group.places
            expected[places] += law.weight * group.expected
            value[places] += law.weight * group.worth(self.price)
            if law is heaviest:
                bought = np.zeros((len(places), last + 1))
                bought[:, [*group.rungs, last]] = group.purchases(self.price)
                self.purchases[of[places]] = bought
                action = group.action(self.price)
                buys = np.array([*group.rungs, last])
                rung[places] = buys[np.where(action < 0, len(buys) - 1, action)]
        self.index[of], self.expected[of], self.value[of] = index, expected, value
        return rung

    def worth_without(self, pool: CandidatePool) -> tuple[float, dict[PaidIndex, float]]:
        """What those near the top are worth at the price, payoff less what it pays for; and by rung that some of them
        could still be bought, what they would be worth if it could not. The difference is what the rung brings."""
        if self.truths is None or not self.laws:
            return 0.0, {}
        of = pool.open[pool.open < len(self.index)]
        order = np.argsort(-np.nan_to_num(self.index[of], nan=-np.inf), kind="stable")
        of = np.sort(of[order[:JUDGED]])
        payoff = self.aims.payoff(self.truths, pool.scores)
        chains = max(self.laws, key=lambda law: law.weight).chains

        def worth(*barred: PaidIndex) -> float:
            assert self.truths is not None
            found = groups(pool, of, self.aims, self.truths, payoff, chains, frozenset(barred))
            return float(sum(group.worth(self.price).sum() for group in found))

        deciding = {pool.rungs[aim.columns[-1]] for aim in self.aims.aims}
        asked = [j for j in pool.paid[:-1] if j not in deciding and not pool.closed[of, j].all()]
        return worth(), {j: worth(j) for j in asked}

    def _solved(
        self, pool: CandidatePool, look: Evaluated, index: Array, found: list[CandidateGroup], left: float
    ) -> float:
        """The price at which what is left is just spent on all who are open. What those would spend who are far from
        the top, and are not looked at again, is remembered from when they were, or others like them."""
        near = np.ones(len(look.of), dtype=bool)
        if look.anew:
            self._base = float(np.median(pool.costs[pool.open, -1]))
            near = first(index)
            self._rest = self._to_go(found, ~near)
            if look.others is not None:
                stand = look.others > 0
                self._rest = self._rest + look.others.max() * self._to_go(found, stand)
        return solve_price(self._rest + self._to_go(found, near), left) / self._base

    def _to_go(self, found: list[CandidateGroup], of: NDArray[np.bool_]) -> Array:
        return sum((group.to_go(PRICES / self._base, of[group.places]) for group in found), np.zeros(len(PRICES)))


def _mixed(found: Sequence[_Found], n: int) -> Array:
    """(n,) index, the laws' together."""
    index = np.zeros(n)
    for law, group in found:
        index[group.places] += law.weight * group.index
    return index


def _above(pool: CandidatePool, of: int, j: PaidIndex) -> bool:
    """Whether rung j can still be bought for a candidate: only while no dearer rung has been tried. Buying a cheap rung
    after a good dearer result would teach the law that having its result is a sign of a good candidate."""
    return not pool.closed[of, j:].any()


def _spread(z: Array, open_: Places, n: int, rng: np.random.Generator, ends: bool) -> Places:
    """n of `open_` by the leading component of what is known of all of them, (len(open_), d): half from each end of it,
    or, where what is wanted may lie in the middle, all along it."""
    z = z[:, ~np.isnan(z).all(0)]
    if not z.shape[1]:
        drawn: Places = rng.permutation(open_)[:n]
        return drawn
    ranks = np.argsort(np.argsort(np.where(np.isnan(z), np.nanmedian(z, axis=0), z), axis=0), axis=0)
    centred = ranks - ranks.mean(0)
    order = np.argsort(centred @ np.linalg.svd(centred, full_matrices=False)[2][0], kind="stable")
    places = np.concatenate([order[: math.ceil(n / 2)], order[len(order) - n // 2 :]])
    if not ends:
        places = order[((np.arange(n) + 0.5) / n * len(order)).astype(np.intp)]
    chosen: Places = open_[np.unique(places)]
    return chosen
