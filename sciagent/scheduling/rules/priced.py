"""Priced: buys the evidence with the highest value per cost, by a law that learns what each rung tells.

1. Rungs that are very cheap compared with the terminal one are bought for every candidate, as features.
2. A few candidates, from both ends of the features' range, run the whole ladder, so that the law has data.
3. The law (a chain of Gaussian processes, with and without structure, stacked by their leave-one-out record) predicts
   the terminal answer of every open candidate. `scheduling.dynamic_programme` converts each prediction to an index and
   the rung to buy. The largest indices are bought, the law is updated, and so on.

Lessons are rungs that some candidates run before their verification although they would skip them. Without lessons the
law stops learning how well these rungs predict. A rung that has few answers beside a terminal one seems to tell
nothing, and would never be tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.ladder import PaidIndex
from sciagent.domain.objectives import Valuation
from sciagent.scheduling.aims import Aims, Errors, Fit, expected_answers, questions
from sciagent.scheduling.arrays import Array, Mask, RowIndices
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase
from sciagent.scheduling.dynamic_programme import PRICES, solve_price
from sciagent.scheduling.indices import (
    CandidateGroup,
    Evaluated,
    Plans,
    ahead,
    drawn,
    first,
    groups,
    guessed,
    promising,
)
from sciagent.scheduling.law.hints import Padded, hinted, made_up
from sciagent.scheduling.law.similarity import Order, Similarity
from sciagent.scheduling.law.stack import Law, Stack
from sciagent.scheduling.law.transforms import TruthTransform
from sciagent.scheduling.rules.warm_up import WARM_UP, first_candidates, still_learning, whole_ladders

EARLY = 0.04  # largest fraction of the spend for a rung with few answers beside a terminal one,
LATER = 0.01  # and for others
FEW = 6
WORTH = 0.3  # few: fewer answers than this, which cost less than this fraction of a verification together


@dataclass
class Lessons:
    """The lessons of a campaign."""

    spent: float = 0.0
    """Their cost so far, in the unit of the pool's costs."""

    def added(self, pool: CandidatePool, batch: Sequence[Purchase], rungs: Sequence[PaidIndex]) -> list[Purchase]:
        """Returns the batch, with rungs added before terminal ones: first the rung with the fewest answers beside a
        terminal one. None is added after a higher rung: the law would learn that only good candidates have its
        answer."""
        last = pool.paid[-1]
        known = {j: int((pool.answered(j) & pool.answered(last)).sum()) for j in rungs}
        purchases: list[Purchase] = []
        for purchase in batch:
            lessons = []
            for j in sorted(rungs, key=lambda j: known[j]) if purchase.rung == last else ():
                cost, terminal = (float(pool.costs[purchase.of, rung]) for rung in (j, last))
                has_few = known[j] < FEW and known[j] * cost < WORTH * terminal
                share = EARLY if has_few else LATER
                if self.spent + cost <= share * pool.spent and not pool.closed[purchase.of, j:].any():
                    self.spent += cost
                    known[j] += 1
                    lessons.append(replace(purchase, rung=j))
            purchases += [*sorted(lessons, key=lambda one: one.rung), purchase]
        return purchases


_ByLaw = tuple[Law, CandidateGroup]

# a feature costs at most these fractions: of the terminal rung's cost, and of the budget for all candidates
FREE = 0.001, 0.03
FIRST = 0.011, 0.03  # the same limits for the lowest rung if no rung is that cheap, since nothing else tells them apart
TRUSTED = 0.05, 0.25  # the same limits for a rung that measures the wanted property at another level
SETTLED = 12  # terminal answers from which the law's unit stays the same
# spend before the law is updated: fewest and most terminal verifications, and between these half as many as there are
# answers, since early ones change the law most, or a fraction of the candidates; or a fraction of the spend so far
BATCH = (2, 8)
BATCH_OF = 0.01
BATCH_SHARE = 0.04
# largest spend of a batch on rungs below the terminal one, as a fraction of the spend so far, since the first answers
# of a rung say whether more of them pay
BATCH_BELOW = 0.04
BATCH_LEFT = 0.125  # largest fraction of the remaining budget, if that does not buy everything
JUDGED = 500  # best candidates that are used to value a rung
AT_ONCE = 1 << 14  # features bought at a time, since a million candidates may need them
SOME = 10_000  # candidates whose costs represent all


class Priced:
    """The scheduler with law, programme and price."""

    def __init__(
        self,
        aims: Aims,
        similarity: Similarity | None = None,
        seed: int = 0,
        budget: float = math.inf,
        trusted: frozenset[PaidIndex] = frozenset(),
        earlier: int = 0,
    ) -> None:
        """similarity: of the structures, by row of the pool, or None. budget: in the unit of the pool's costs. trusted:
        rungs that measure the wanted property at another level, and are therefore known to be informative. earlier:
        number of first rows of the pool that are of an earlier campaign."""
        self.aims = aims
        self.budget = budget
        self._trusted = trusted
        self._earlier = earlier
        self._rng = np.random.default_rng(seed)
        self._looks = np.random.default_rng([seed, 1])  # separate, so that draws do not change the law
        self.truths: tuple[TruthTransform, ...] | None = None
        self._padded = None if similarity is None else Padded(similarity)
        self._stack = Stack(self._padded, earlier)
        self.laws: list[Law] = []
        self._lessons = Lessons()
        self._rest = np.zeros(len(PRICES))  # cost to go of candidates not evaluated, by price of a verification
        self._base = 1.0  # cost of one verification
        self._pupils: list[int] = []  # rows of the candidates that run the whole ladder
        self._ranked = np.empty((2, 0), dtype=np.int64)
        self._taken = 0  # rows and rungs, best first
        self._decisive = [aim.columns[-1] for aim in aims.aims]

        self.price = 0.0
        """Payoff per unit of cost at which the budget is just spent, at the last choice; 0 if it buys everything."""
        self.seconds: Array | None = None
        """(k,) seconds that a purchase of each rung takes on all workers together; None if unknown."""
        self.lasts = 0.0
        """Minimum duration of a batch, in seconds; set by the campaign, since computing the next batch takes time."""
        self.index = np.empty(0)
        """(n,) payoff per unit of cost when last evaluated, or predicted (see `subsampling`); NaN if never."""
        self.expected = np.empty(0)
        """(n,) expected payoff of a terminal verification, when last evaluated."""
        self.value = np.empty(0)
        """(n,) value at the current price, when last evaluated."""
        self.purchases: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)
        """(n, k) expected future purchases, at the current price."""

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """Returns the next batch, most urgent first; empty if nothing can be bought. left: remaining budget."""
        return self.for_everyone(pool, left) or self._first(pool, left) or self._best(pool, left)

    def for_everyone(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """Returns very cheap rungs for candidates without them: at most `AT_ONCE`, the others in later calls."""
        purchases: list[Purchase] = []
        for j in self.free(pool):
            of = pool.open[~pool.closed[pool.open, j] & (pool.costs[pool.open, j] <= left)]
            purchases += [Purchase(i, j, math.inf) for i in of[: AT_ONCE - len(purchases)].tolist()]
        return purchases

    def valuation(self, pool: CandidatePool, row: int) -> Valuation:
        """Returns the value of a candidate when it was last evaluated."""
        payoff = float(self.expected[row])
        cost = float(self.purchases[row] @ pool.costs[row])
        p_hit = payoff if self.aims.kind == "hits" else None
        return Valuation(payoff, p_hit, cost, float(self.value[row]), float(self.index[row]))

    def free(self, pool: CandidatePool) -> list[PaidIndex]:
        """Returns the very cheap rungs, except those above a more expensive deciding rung, which they would skip."""
        rows = np.flatnonzero(pool.in_play)
        if not len(rows):
            return []
        trusted = self._trusted | {pool.rungs[hint.column] for hint in self.aims.hints}
        some = pool.costs[rows[:: math.ceil(len(rows) / SOME)]]
        costs = np.array([np.median(some / some[:, -1:], axis=0), pool.costs[rows].sum(0) / self.budget]).T
        free = [j for j in pool.paid if (costs[j] <= (TRUSTED if j in trusted else FREE)).all()]
        free = free or [j for j in pool.paid[:1] if (costs[j] <= FIRST).all()]
        dearer = {pool.rungs[column] for column in self._decisive} - {*free}
        return [j for j in free if not any(0 <= decides < j for decides in dearer)]

    def _first(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """Returns whole ladders for some candidates, until there are enough terminal answers for a law. A candidate
        whose ladder costs more than what is left makes room for another. Answers of an earlier campaign only replace
        the fewest, since they may all lie at one end."""
        if self.truths is not None or len(made_up(self.aims.hints, pool.scores)):
            self._pupils = []  # from now on their missing rungs are valued like any others
            return []
        self._pupils = still_learning(pool, left, self._pupils)
        free = self.free(pool)
        rows = np.flatnonzero(pool.in_play)
        ladders = pool.costs[rows[:: math.ceil(len(rows) / SOME) or 1]].sum(1)
        affordable = min(self.budget / float(np.median(ladders)), len(rows)) if len(rows) else 0.0
        wanted = whole_ladders(len(rows), len(pool.paid) - 1 - len(free), affordable)
        earlier, own = (self._decided(part) for part in np.split(pool.scores, [self._earlier]))
        lacking = wanted - own - min(earlier, WARM_UP[0]) - len(self._pupils)
        if lacking > 0:
            promise = self.aims.promise(pool.scores) if wanted <= WARM_UP[0] else None
            known = self._pupils, [c for j in free for c in pool.columns(j)], promise, self.aims.one_sided
            self._pupils += first_candidates(pool, left, lacking, *known, self._rng).tolist()
        ready = [i for i in self._pupils if not pool.pending[i]]
        return [Purchase(i, j, math.inf) for i in ready for j in pool.paid if not pool.closed[i, j]]

    def _decided(self, scores: Array) -> int:
        """Returns the number of candidates with an answer to every aim. scores: (n, c)."""
        return int((~np.isnan(scores[:, self._decisive])).all(1).sum())

    def _best(self, pool: CandidatePool, left: float) -> list[Purchase]:
        decided = self._decided(pool.scores)
        scores, errors = hinted(self.aims.hints, *self._expected(pool, decided), decided)
        if not len(pool.open) or not (decided or len(scores) > len(pool.scores)):
            return []
        if self.truths is None and self._decided(pool.scores[self._earlier :]) < len(self._pupils):
            return []  # most of the training candidates are still running
        truths = self._set_unit(scores, decided)
        if self._padded is not None:
            self._padded.n = len(pool.scores)
        free = self.free(pool)
        paid = [j for j in pool.paid if j not in free]
        known = sum(int(pool.answered(j).sum()) for j in paid)
        fitted = self._stack.is_due(known)
        self.laws = self._stack.fit(questions(self.aims, truths, scores, errors), known, pool.order)
        self._grow(pool)
        look, by_law = self._look(pool, fitted)
        self.price = self._solved(pool, look, by_law, left)
        rung = self._value(pool, look.of, by_law)
        order = np.argsort(-self.index[look.of], kind="stable")
        self._ranked = np.array([look.of[order], rung[order]])
        self._taken = 0
        return self._lessons.added(pool, self.further(pool, self._batch_size(pool, left)), paid[:-1])

    def _batch_size(self, pool: CandidatePool, left: float) -> int:
        of, rung = self._ranked
        each = float(np.median(pool.costs[of, -1]))
        verifications = max(self._decided(pool.scores[self._earlier :]) // 2, math.ceil(BATCH_OF * pool.in_play.sum()))
        worth = max(min(max(verifications, BATCH[0]), BATCH[1]) * each, BATCH_SHARE * pool.spent)
        if self.price > 0:  # near the end of the budget, a batch must not use all of it
            worth = max(min(worth, BATCH_LEFT * left), each)
        costs = pool.costs[of, rung]
        count = int(np.searchsorted(costs.cumsum(), worth, side="right"))
        below = np.where(rung < pool.paid[-1], costs, 0.0).cumsum()  # spend on rungs below the terminal one
        most = max(BATCH_BELOW * pool.spent, below[0])
        count = min(count, int(np.searchsorted(below, most, side="right")))
        if self.seconds is not None:
            count = max(count, int(np.searchsorted(self.seconds[rung].cumsum(), self.lasts)))
        return max(1, count)

    def further(self, pool: CandidatePool, n: int) -> list[Purchase]:
        """Returns the next n purchases of the last ranking, for purchases that the budget refuses."""
        of, rungs = self._ranked[:, self._taken : self._taken + n].tolist()
        self._taken += n
        return [
            Purchase(i, PaidIndex(rung), float(self.index[i]), valuation=self.valuation(pool, i))
            for i, rung in zip(of, rungs, strict=True)
        ]

    def relearn(self, pool: CandidatePool) -> None:
        """Sets the laws of all answers with the current hyper-parameters; none without an answer to each aim."""
        decided = self._decided(pool.scores)
        self.laws = []
        if decided or len(made_up(self.aims.hints, pool.scores)):
            answers = self._expected(pool, decided)
            truths = self._set_unit(hinted(self.aims.hints, *answers, decided)[0], decided)
            self.laws = self._scratch(truths, decided, pool.order)(*answers)

    def without_structure(self, scores: Array, order: Order | None = None) -> Law:
        """Returns the law without structure of these answers, (n, c), with the current hyper-parameters and unit."""
        assert self.truths is not None
        [law] = self._scratch(self.truths, self._decided(scores), order, structure=False)(scores, None)
        return law

    def _expected(self, pool: CandidatePool, decided: int) -> tuple[Array, Errors | None]:
        """Returns the pool's scores and errors, with expectations of what is only known as a bound."""
        truths = self.truths if self.truths and decided >= SETTLED else self.aims.truths(pool.scores)
        bounds = pool.bounds if decided else None
        fit = self._scratch(truths, decided, pool.order)
        return expected_answers(pool.scores, pool.errors, bounds, self.aims, truths, fit)

    def _set_unit(self, scores: Array, decided: int) -> tuple[TruthTransform, ...]:
        """Sets and returns the law's unit, which stays the same once enough is decided."""
        if self.truths is None or decided < SETTLED:
            self.truths = self.aims.truths(scores)
        return self.truths

    def _scratch(
        self, truths: Sequence[TruthTransform], decided: int, order: Order | None, structure: bool = True
    ) -> Fit:
        """Returns a function that fits temporary laws with the same hyper-parameters."""

        def fit(scores: Array, errors: Errors | None) -> list[Law]:
            if self._padded is not None:
                self._padded.n = len(scores)
            stack = Stack(self._padded if structure else None, self._earlier)
            stack.restore(self._stack.state())
            scores, errors = hinted(self.aims.hints, scores, errors, decided)
            known = not np.isnan(scores[:, self._decisive]).all(0).any()
            return stack.fit(questions(self.aims, truths, scores, errors), 0, order) if known else []

        return fit

    def _grow(self, pool: CandidatePool) -> None:
        """Extends the arrays for new candidates, with unknown values."""
        if more := len(pool.out) - len(self.index):
            k = pool.costs.shape[1]
            self.purchases = np.concatenate([self.purchases.reshape(-1, k), np.zeros((more, k), dtype=np.float32)])
            self.index, self.expected, self.value = (
                np.concatenate([known, np.full(more, np.nan)]) for known in (self.index, self.expected, self.value)
            )

    def _look(self, pool: CandidatePool, fitted: bool) -> tuple[Evaluated, list[_ByLaw]]:
        """Evaluates the open candidates that `subsampling` selects. fitted: whether hyper-parameters were refitted."""
        of = pool.open
        if not fitted:
            look = ahead(of, self.index[of])
            return look, self._groups(pool, look.of)
        seen = drawn(self.index[of], self._looks)
        plans = [Plans() for _ in self.laws]
        by_law = self._groups(pool, of[seen], plans)
        if seen.all():
            return Evaluated(of, True), by_law
        guess = guessed(pool, of, self.index[of], seen, _mixed(by_law, int(seen.sum())))
        chosen, others = promising(guess, seen)
        more = self._groups(pool, of[chosen], plans)
        by_law += [(law, replace(group, places=group.places + seen.sum())) for law, group in more]
        rest = ~(seen | chosen)
        self.index[of[rest]] = guess[rest]
        order = np.concatenate([np.flatnonzero(seen), np.flatnonzero(chosen)])
        return Evaluated(of[order], True, others[order]), by_law

    def _groups(self, pool: CandidatePool, of: RowIndices, plans: Sequence[Plans] | None = None) -> list[_ByLaw]:
        """Returns the candidates' groups under each law. plans: by law, to keep or reuse."""
        assert self.truths is not None
        payoff = self.aims.payoff(self.truths, pool.scores)
        return [
            (law, group)
            for law, kept in zip(self.laws, plans or [Plans() for _ in self.laws], strict=True)
            for group in groups(pool, of, self.aims, self.truths, payoff, law.chains, plans=kept)
        ]

    def evaluate(self, pool: CandidatePool, of: RowIndices) -> list[CandidateGroup]:
        """Values open candidates at the current price; returns their groups by the law with the largest weight."""
        self._grow(pool)
        by_law = self._groups(pool, of)
        self._value(pool, of, by_law)
        return [group for law, group in by_law if law is self._heaviest]

    @property
    def _heaviest(self) -> Law:
        return max(self.laws, key=lambda law: law.weight)

    def _value(self, pool: CandidatePool, of: RowIndices, by_law: list[_ByLaw]) -> NDArray[np.int64]:
        """Sets index, payoff, value and purchases of the candidates `of`; returns the rungs to buy, (n,). The index
        orders the candidates; the price that the budget affords decides the rung."""
        last = pool.paid[-1]
        rung = np.full(len(of), last)
        expected, value = np.zeros((2, len(of)))
        for law, group in by_law:
            places = group.places
            expected[places] += law.weight * group.expected
            value[places] += law.weight * group.worth(self.price)
            if law is self._heaviest:
                bought = np.zeros((len(places), last + 1))
                bought[:, [*group.rungs, last]] = group.purchases(self.price)
                self.purchases[of[places]] = bought
                rung[places] = np.array([*group.rungs, last])[group.action(self.price)]
        self.index[of] = _mixed(by_law, len(of))
        self.expected[of] = expected
        self.value[of] = value
        return rung

    def worth_without(self, pool: CandidatePool) -> tuple[float, dict[PaidIndex, float]]:
        """Returns the value of the best candidates at the current price, payoff minus cost; and, by rung that some of
        them lack, their value without that rung. The difference is the value of the rung."""
        if self.truths is None or not self.laws:
            return 0.0, {}
        of = pool.open[pool.open < len(self.index)]
        order = np.argsort(-np.nan_to_num(self.index[of], nan=-np.inf), kind="stable")
        of = np.sort(of[order[:JUDGED]])
        truths = self.truths
        payoff = self.aims.payoff(self.truths, pool.scores)

        def worth(*barred: PaidIndex) -> float:
            valued = groups(pool, of, self.aims, truths, payoff, self._heaviest.chains, frozenset(barred))
            return float(sum(group.worth(self.price).sum() for group in valued))

        deciding = {pool.rungs[column] for column in self._decisive}
        lacking = [j for j in pool.paid[:-1] if j not in deciding and not pool.closed[of, j].all()]
        return worth(), {j: worth(j) for j in lacking}

    def _solved(self, pool: CandidatePool, look: Evaluated, by_law: list[_ByLaw], left: float) -> float:
        """Returns the price at which the remaining budget is just spent on all open candidates. The spend on candidates
        that are far from the top is remembered from the last evaluation of these or similar ones."""
        heaviest = [group for law, group in by_law if law is self._heaviest]
        near = np.ones(len(look.of), dtype=bool)
        if look.anew:
            self._base = float(np.median(pool.costs[pool.open, -1]))
            near = first(_mixed(by_law, len(look.of)))
            self._rest = self._to_go(heaviest, ~near)
            if look.others is not None:
                self._rest = self._rest + look.others.max() * self._to_go(heaviest, look.others > 0)
        return solve_price(self._rest + self._to_go(heaviest, near), left) / self._base

    def _to_go(self, by_law: list[CandidateGroup], of: Mask) -> Array:
        return sum((group.to_go(PRICES / self._base, of[group.places]) for group in by_law), np.zeros(len(PRICES)))

    @property
    def is_learnt(self) -> bool:
        return self.truths is not None

    @property
    def fits(self) -> int:  # number of hyper-parameter fits
        return self._stack.fits

    def state(self) -> Mapping[str, Any]:
        """Returns what was learned as JSON; with the same evidence it gives the same law again."""
        truths = None if self.truths is None else [truth.state() for truth in self.truths]
        return {"stack": self._stack.state(), "truths": truths, "lessons": self._lessons.spent, "price": self.price}

    def learn_from(self, state: Mapping[str, Any]) -> None:
        """Starts with the hyper-parameters of another campaign's law, which are refitted at the first fit."""
        self._stack.restore(state["stack"] | {"fitted_at": 0})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores the state of an earlier run."""
        self._stack.restore(state["stack"])
        self._lessons.spent = float(state["lessons"])
        self.price = float(state["price"])
        if state["truths"] is not None:
            self.truths = tuple(TruthTransform.restored(truth) for truth in state["truths"])


def _mixed(by_law: Sequence[_ByLaw], n: int) -> Array:
    """Returns the (n,) index, averaged over the laws."""
    index = np.zeros(n)
    for law, group in by_law:
        index[group.places] += law.weight * group.index
    return index
