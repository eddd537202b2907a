"""Priced: buys the evidence with the highest value per cost, by a law that learns what each rung tells.

1. Rungs that are very cheap compared with the terminal one are bought for every candidate, as features.
2. A few candidates, from both ends of the features' range, run the whole ladder, so that the law has data.
3. The law (a chain of Gaussian processes, with and without structure, stacked by their leave-one-out record) predicts
   the terminal answer of every open candidate. `scheduling.dynamic_programme` converts each prediction to an index and
   the rung to buy. The largest indices are bought, the law is updated, and so on.

A lesson is a purchase of a rung that the programme would skip. It is made just before a terminal purchase, only so that
the law learns how well the rung predicts. Otherwise a rung for which few candidates have both its answer and a terminal
one seems to tell nothing, and would never be tried.

Words: an aim is one objective with the columns of answers that predict it. The last column of an aim is the deciding
one: the answer that the objective is about. The law's unit is the transform of the deciding answers in which the law is
fitted. A hint is prior knowledge of how two columns relate; it enters the law as artificial rows behind the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.objectives import Valuation
from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.aims_and_payoff import Aims, Errors, Fit, data_for_law, expected_answers
from sciagent.scheduling.array_types import Array, Mask, RowIndices
from sciagent.scheduling.candidate_indices import CandidateGroup, Plans, groups
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase
from sciagent.scheduling.dynamic_programme import PRICES, solve_price
from sciagent.scheduling.indices_to_recompute import (
    Evaluated,
    candidates_near_top,
    draw_sample,
    is_near_top,
    predict_indices,
    select_best_predicted,
)
from sciagent.scheduling.law.answer_transforms import TruthTransform
from sciagent.scheduling.law.rung_hints import Padded, hint_rows, with_hint_rows
from sciagent.scheduling.law.similarity import Order, Similarity
from sciagent.scheduling.law.stacked_laws_with_and_without_structure import Law, Stack
from sciagent.scheduling.rules.warm_up import MIN_WARM_UP, first_candidates, whole_ladders, with_unfinished_ladders

# largest fraction of the spend for lessons: on a rung with few common answers, and on other rungs; common answers are
# those of candidates that have both the rung's answer and a terminal one
EARLY_LESSON_SHARE = 0.04
LATER_LESSON_SHARE = 0.01
# a rung has few common answers if they are fewer than FEW_ANSWERS, and if together they have cost less than
# FEW_ANSWERS_COST, a fraction of a terminal verification
FEW_ANSWERS = 6
FEW_ANSWERS_COST = 0.3


@dataclass
class Lessons:
    """The lessons of a campaign."""

    spent: float = 0.0
    """Their cost so far, in the unit of the pool's costs."""

    def with_lessons(
        self, pool: CandidatePool, batch: Sequence[Purchase], rungs: Sequence[PaidIndex]
    ) -> list[Purchase]:
        """Returns the batch with lessons added before its terminal purchases.

        The rung with the fewest common answers gets a lesson first. No lesson is added to a candidate that already has
        an answer of a higher rung: only good candidates have one, so the lessons would be biased.
        """
        terminal = pool.paid[-1]
        n_answers = {j: int((pool.answered(j) & pool.answered(terminal)).sum()) for j in rungs}
        purchases: list[Purchase] = []
        for purchase in batch:
            if purchase.rung == terminal:
                lessons = self._lessons_before(purchase, pool, rungs, n_answers)
                purchases += sorted(lessons, key=lambda lesson: lesson.rung)
            purchases.append(purchase)
        return purchases

    def _lessons_before(
        self, purchase: Purchase, pool: CandidatePool, rungs: Sequence[PaidIndex], n_answers: dict[PaidIndex, int]
    ) -> list[Purchase]:
        """Returns the lessons before one terminal purchase, and counts their cost and answers.

        n_answers: number of common answers by rung.
        """
        row = purchase.row
        terminal_cost = float(pool.costs[row, -1])
        lessons = []
        fewest_first = sorted(rungs, key=lambda rung: n_answers[rung])
        for j in fewest_first:
            cost = float(pool.costs[row, j])
            has_few = n_answers[j] < FEW_ANSWERS and n_answers[j] * cost < FEW_ANSWERS_COST * terminal_cost
            share = EARLY_LESSON_SHARE if has_few else LATER_LESSON_SHARE
            # closed: answered, failed, running or passed over
            is_open_from_here = not pool.closed[row, j:].any()
            if self.spent + cost <= share * pool.spent and is_open_from_here:
                self.spent += cost
                n_answers[j] += 1
                lessons.append(replace(purchase, rung=j))
        return lessons


_ByLaw = tuple[Law, CandidateGroup]
"""A law, and a group of candidates as the law values it."""

# largest cost of a feature: as a fraction of the terminal rung's cost, and for all candidates, of the budget
FREE_LIMITS = 0.001, 0.03
LOWEST_RUNG_LIMITS = 0.011, 0.03  # for the lowest rung if no rung is that cheap: nothing else tells candidates apart
TRUSTED_LIMITS = 0.05, 0.25  # for a rung that measures the wanted property at another level
MIN_DECIDED_FOR_UNIT = 12  # number of terminal answers from which the law's unit stays the same
# The law is updated after a spend of max(n * cost of a verification, BATCH_SHARE_OF_SPEND * spend so far), where
# n = max(terminal answers / 2, BATCH_SHARE_OF_CANDIDATES * candidates), within the two limits.
# Half of the answers, since early answers change the law most.
MIN_BATCH_VERIFICATIONS = 2
MAX_BATCH_VERIFICATIONS = 8
BATCH_SHARE_OF_CANDIDATES = 0.01
BATCH_SHARE_OF_SPEND = 0.04
# largest spend of a batch on rungs below the terminal one, as a fraction of the spend so far: the first answers of a
# rung say whether more of them pay
BATCH_SHARE_BELOW_TERMINAL = 0.04
BATCH_SHARE_OF_REMAINING = 0.125  # largest fraction of the remaining budget, if that does not buy everything
N_JUDGED = 500  # best candidates that are used to value a rung
MAX_FEATURES_AT_ONCE = 1 << 14  # features bought at a time, since a million candidates may need them
COST_SAMPLE = 10_000  # candidates whose costs represent all


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
        """similarity: similarity of the structures, by row of the pool; None: not known. budget: in the unit of the
        pool's costs. trusted: rungs that measure the wanted property at another level, and are therefore known to be
        informative. earlier: number of first rows of the pool that belong to an earlier campaign."""
        self.aims = aims
        self.budget = budget
        self._trusted = trusted
        self._earlier = earlier
        self._rng = np.random.default_rng(seed)
        self._sample_rng = np.random.default_rng([seed, 1])  # separate, so that samples do not change the law
        self.truths: tuple[TruthTransform, ...] | None = None
        self._padded = None if similarity is None else Padded(similarity)  # has room for the artificial rows of hints
        self._stack = Stack(self._padded, earlier)
        self.laws: list[Law] = []
        self._lessons = Lessons()
        # (p,) expected cost to go of the candidates far from the top together, at each of PRICES
        self._cost_to_go_of_far = np.zeros(len(PRICES))
        self._verification_cost = 1.0  # of the median candidate, in the unit of the pool's costs
        self._warm_up_rows: list[int] = []  # candidates that run the whole ladder before there is a law
        self._ranked = np.empty((2, 0), dtype=np.int64)  # rows and rungs of the last ranking, best first
        self._n_taken = 0  # purchases taken from the last ranking
        # the last column of an aim is the answer that its objective is about
        self._deciding_columns = [aim.columns[-1] for aim in aims.aims]

        self.price = 0.0
        """Payoff per unit of cost at which the budget is just spent, at the last choice; 0 if it buys everything."""
        self.full: frozenset[PaidIndex] = frozenset()
        """Rungs that may start no more jobs; candidates skip them, but for rungs that decide an objective."""
        self.seconds: Array | None = None
        """(k,) seconds that a job of each rung keeps all workers busy: its duration divided by the number of workers.

        None if unknown."""
        self.lasts = 0.0
        """Minimum duration of a batch, in seconds; set by the campaign, since computing the next batch takes time."""
        self.index = np.empty(0)
        """(n,) payoff per unit of cost when last evaluated, or predicted (see `candidate_indices`); NaN if never."""
        self.expected = np.empty(0)
        """(n,) expected payoff of a terminal verification, when last evaluated."""
        self.valued: RowIndices = np.empty(0, dtype=np.intp)
        """(m,) rows of the candidates that the last update evaluated."""
        self.utility = np.empty(0)
        """(m,) their expected utility; NaN unless the goal is to count hits."""
        self.value: NDArray[np.float32] = np.empty(0, dtype=np.float32)
        """(n,) value at the current price, when last evaluated."""
        self.purchases: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)
        """(n, k) expected future purchases, at the current price."""

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """Returns the next batch, most urgent first; empty if nothing can be bought. left: remaining budget."""
        self.valued = np.empty(0, dtype=np.intp)
        self.utility = np.empty(0)
        purchases = self.for_everyone(pool, left)
        if not purchases:
            purchases = self._whole_ladder_purchases(pool, left)
        if not purchases:
            purchases = self._best_purchases(pool, left)
        return purchases

    def for_everyone(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """Returns very cheap rungs for candidates without them: at most `MAX_FEATURES_AT_ONCE`, the others in later
        calls."""
        purchases: list[Purchase] = []
        open_rows = pool.open
        for j in self.rungs_for_everyone(pool):
            if j in self.full:
                continue
            lacking = open_rows[~pool.closed[open_rows, j] & (pool.costs[open_rows, j] <= left)]
            n_places = MAX_FEATURES_AT_ONCE - len(purchases)
            purchases += [Purchase(row, j, math.inf) for row in lacking[:n_places].tolist()]
        return purchases

    def valuation(self, pool: CandidatePool, row: int) -> Valuation:
        """Returns the value of a candidate when it was last evaluated."""
        payoff = float(self.expected[row])
        cost = float(self.purchases[row] @ pool.costs[row])
        p_hit = payoff if self.aims.kind == "hits" else None
        return Valuation(
            payoff=payoff, p_hit=p_hit, cost=cost, value=float(self.value[row]), index=float(self.index[row])
        )

    def rungs_for_everyone(self, pool: CandidatePool) -> list[PaidIndex]:
        """Returns the very cheap rungs, without the rungs above a more expensive deciding rung, since a candidate that
        runs them would skip the deciding rung."""
        rows = np.flatnonzero(pool.in_play)
        if not len(rows):
            return []
        # pool.rungs: the rung of each column of answers
        trusted = self._trusted | {pool.rungs[hint.column] for hint in self.aims.hints}
        sample_costs = pool.costs[rows[:: math.ceil(len(rows) / COST_SAMPLE)]]
        relative_costs = np.median(sample_costs / sample_costs[:, -1:], axis=0)
        budget_shares = pool.costs[rows].sum(0) / self.budget

        def is_within(j: PaidIndex, limits: tuple[float, float]) -> bool:
            max_relative_cost, max_budget_share = limits
            return bool(relative_costs[j] <= max_relative_cost and budget_shares[j] <= max_budget_share)

        free = [j for j in pool.paid if is_within(j, TRUSTED_LIMITS if j in trusted else FREE_LIMITS)]
        if not free and is_within(pool.paid[0], LOWEST_RUNG_LIMITS):
            free = [pool.paid[0]]
        deciding = {pool.rungs[column] for column in self._deciding_columns}
        # a rung with the index -1 is not bought, since its answers are known of every candidate
        expensive_deciding = [rung for rung in deciding if rung >= 0 and rung not in free]
        lowest_deciding = min(expensive_deciding, default=pool.paid[-1])
        return [j for j in free if j <= lowest_deciding]

    def _whole_ladder_purchases(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """Returns whole ladders for some candidates, until there are enough terminal answers for a law.

        A candidate whose ladder costs more than what is left makes room for another. Answers of an earlier campaign
        count for at most MIN_WARM_UP whole ladders, since they may all be good or all be bad.
        """
        if self.truths is not None or len(hint_rows(self.aims.hints, pool.scores)):
            self._warm_up_rows = []  # from now on their missing rungs are valued like any others
            return []
        self._warm_up_rows = with_unfinished_ladders(pool, left, self._warm_up_rows)
        free = self.rungs_for_everyone(pool)
        rows = np.flatnonzero(pool.in_play)
        n_affordable = 0.0
        if len(rows):
            ladder_costs = pool.costs[rows[:: math.ceil(len(rows) / COST_SAMPLE)]].sum(1)
            n_affordable = min(self.budget / float(np.median(ladder_costs)), len(rows))
        n_paid_below = len(pool.paid) - 1 - len(free)
        n_wanted = whole_ladders(candidates=len(rows), paid=n_paid_below, affordable=n_affordable)
        n_earlier = min(self._n_decided(pool.scores[: self._earlier]), MIN_WARM_UP)
        n_own = self._n_decided(pool.scores[self._earlier :])
        n_lacking = n_wanted - n_own - n_earlier - len(self._warm_up_rows)
        if n_lacking > 0:
            # the fewest ladders go to the most promising candidates; more ladders also cover the range of the features
            uses_promise = n_wanted <= MIN_WARM_UP
            new_rows = first_candidates(
                pool,
                left,
                n_lacking,
                besides=self._warm_up_rows,
                features=[column for j in free for column in pool.columns(j)],
                promise=self.aims.promise(pool.scores) if uses_promise else None,
                one_sided=self.aims.one_sided,
                rng=self._rng,
            )
            self._warm_up_rows += new_rows.tolist()
        purchases = []
        for row in self._warm_up_rows:
            if not pool.pending[row]:
                purchases += [Purchase(row, j, math.inf) for j in pool.paid if not pool.closed[row, j]]
        return purchases

    def _n_decided(self, scores: Array) -> int:
        """Returns the number of candidates with an answer to every aim. scores: (n, c)."""
        return int((~np.isnan(scores[:, self._deciding_columns])).all(1).sum())

    def _best_purchases(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """Updates the laws and the ranking, and returns the first batch of the ranking with its lessons; empty without
        an open candidate or without a law."""
        n_decided = self._n_decided(pool.scores)
        known_scores, known_errors = self._expected_answers(pool, n_decided)
        scores, errors = with_hint_rows(self.aims.hints, known_scores, known_errors, n_decided)
        has_artificial_rows = len(scores) > len(pool.scores)
        can_fit = n_decided > 0 or has_artificial_rows
        if not len(pool.open) or not can_fit:
            return []
        n_own_decided = self._n_decided(pool.scores[self._earlier :])
        n_unfinished = len(self._warm_up_rows)  # candidates of the warm-up whose ladders still run
        if self.truths is None and n_own_decided < n_unfinished:
            return []
        truths = self._set_unit(scores, n_decided)
        if self._padded is not None:
            self._padded.n_real_rows = len(pool.scores)
        free = self.rungs_for_everyone(pool)
        paid = [j for j in pool.paid if j not in free]
        n_answers = sum(int(pool.answered(j).sum()) for j in paid)
        is_refitted = self._stack.is_due(n_answers)
        self.laws = self._stack.fit(
            data_for_law(self.aims, truths, scores, errors), answers=n_answers, order=pool.order
        )
        self._grow(pool)
        evaluated, by_law = self._evaluate_some(pool, is_refitted)
        self.price = self._solve_price(pool, evaluated, by_law, left)
        rungs = self._value(pool, evaluated.rows, by_law)
        order = np.argsort(-self.index[evaluated.rows], kind="stable")
        self._ranked = np.array([evaluated.rows[order], rungs[order]])
        self._n_taken = 0
        batch = self.next_in_ranking(pool, self._batch_size(pool, left))
        return self._lessons.with_lessons(pool, batch, [j for j in paid[:-1] if j not in self.full])

    def _batch_size(self, pool: CandidatePool, left: float) -> int:
        """Returns how many purchases of the ranking are made before the law is updated; at least 1."""
        rows, rungs = self._ranked
        verification_cost = float(np.median(pool.costs[rows, -1]))
        half_of_answers = self._n_decided(pool.scores[self._earlier :]) // 2
        part_of_candidates = math.ceil(BATCH_SHARE_OF_CANDIDATES * pool.in_play.sum())
        n_verifications = max(half_of_answers, part_of_candidates, MIN_BATCH_VERIFICATIONS)
        n_verifications = min(n_verifications, MAX_BATCH_VERIFICATIONS)
        max_spend = max(n_verifications * verification_cost, BATCH_SHARE_OF_SPEND * pool.spent)
        if self.price > 0:  # near the end of the budget, a batch must not use all of it
            max_spend = max(min(max_spend, BATCH_SHARE_OF_REMAINING * left), verification_cost)
        costs = pool.costs[rows, rungs]
        n_by_spend = int(np.searchsorted(costs.cumsum(), max_spend, side="right"))
        spend_below = np.where(rungs < pool.paid[-1], costs, 0.0).cumsum()  # on rungs below the terminal one
        max_spend_below = max(BATCH_SHARE_BELOW_TERMINAL * pool.spent, spend_below[0])
        n_by_spend_below = int(np.searchsorted(spend_below, max_spend_below, side="right"))
        n_purchases = min(n_by_spend, n_by_spend_below)
        if self.seconds is not None:
            n_by_duration = int(np.searchsorted(self.seconds[rungs].cumsum(), self.lasts))
            n_purchases = max(n_purchases, n_by_duration)
        return max(1, n_purchases)

    def next_in_ranking(self, pool: CandidatePool, n: int) -> list[Purchase]:
        """Returns the next n purchases of the last ranking, which replace purchases that the budget refuses."""
        end = self._n_taken + n
        rows, rungs = self._ranked[:, self._n_taken : end].tolist()
        self._n_taken = end
        return [
            Purchase(row, PaidIndex(rung), float(self.index[row]), valuation=self.valuation(pool, row))
            for row, rung in zip(rows, rungs, strict=True)
        ]

    def relearn(self, pool: CandidatePool) -> None:
        """Sets the laws from all answers with the current hyper-parameters; no law without an answer to each aim."""
        n_decided = self._n_decided(pool.scores)
        self.laws = []
        if n_decided or len(hint_rows(self.aims.hints, pool.scores)):
            scores, errors = self._expected_answers(pool, n_decided)
            # the unit is set from scores with the rows of hints; `fit` adds these rows itself
            hinted_scores, _ = with_hint_rows(self.aims.hints, scores, errors, n_decided)
            fit = self._fit_temporary(self._set_unit(hinted_scores, n_decided), n_decided, pool.order)
            self.laws = fit(scores, errors)

    def without_structure(self, scores: Array, order: Order | None = None) -> Law:
        """Returns the law without structure of these answers, (n, c), with the current hyper-parameters and unit."""
        assert self.truths is not None
        fit = self._fit_temporary(self.truths, self._n_decided(scores), order, structure=False)
        [law] = fit(scores, None)
        return law

    def _expected_answers(self, pool: CandidatePool, decided: int) -> tuple[Array, Errors | None]:
        """Returns the pool's scores and errors, (n, c), with expectations in place of censored answers. decided: number
        of candidates with an answer to every aim."""
        truths = self.truths
        if not truths or decided < MIN_DECIDED_FOR_UNIT:
            truths = self.aims.truths(pool.scores)
        bounds = pool.bounds if decided else None
        fit = self._fit_temporary(truths, decided, pool.order)
        return expected_answers(pool.scores, pool.errors, bounds, self.aims, truths, fit)

    def _set_unit(self, scores: Array, decided: int) -> tuple[TruthTransform, ...]:
        """Sets and returns the law's unit, which stays the same once enough is decided."""
        if self.truths is None or decided < MIN_DECIDED_FOR_UNIT:
            self.truths = self.aims.truths(scores)
        return self.truths

    def _fit_temporary(
        self, truths: Sequence[TruthTransform], decided: int, order: Order | None, structure: bool = True
    ) -> Fit:
        """Returns a function that fits temporary laws with the present hyper-parameters. structure: whether one of the
        laws has structure."""

        def fit(scores: Array, errors: Errors | None) -> list[Law]:
            if self._padded is not None:
                # `_best_purchases` sets it again before it fits the lasting laws
                self._padded.n_real_rows = len(scores)
            stack = Stack(self._padded if structure else None, self._earlier)
            stack.restore(self._stack.state())
            scores, errors = with_hint_rows(self.aims.hints, scores, errors, decided)
            lacks_answers = np.isnan(scores[:, self._deciding_columns]).all(0).any()
            if lacks_answers:
                return []
            # 0 answers: too few for a new fit of hyper-parameters
            return stack.fit(data_for_law(self.aims, truths, scores, errors), answers=0, order=order)

        return fit

    def _grow(self, pool: CandidatePool) -> None:
        """Extends the arrays for new candidates, with unknown values."""
        n_new = len(pool.out) - len(self.index)
        if not n_new:
            return
        k = pool.costs.shape[1]
        self.purchases = np.concatenate([self.purchases.reshape(-1, k), np.zeros((n_new, k), dtype=np.float32)])
        unknown = np.full(n_new, np.nan)
        self.index = np.concatenate([self.index, unknown])
        self.expected = np.concatenate([self.expected, unknown])
        self.value = np.concatenate([self.value, unknown.astype(np.float32)])

    def _evaluate_some(self, pool: CandidatePool, is_refitted: bool) -> tuple[Evaluated, list[_ByLaw]]:
        """Evaluates the open candidates that `scheduling.candidate_indices` selects, and predicts the others' index.

        Returns the selection and its groups by law. is_refitted: whether hyper-parameters were refitted."""
        open_rows = pool.open
        old_index = self.index[open_rows]
        if not is_refitted:
            evaluated = candidates_near_top(open_rows, old_index)
            return evaluated, self._groups(pool, evaluated.rows)
        # after a refit: a random sample, and the best of the others by an index that is regressed on the sample
        is_sampled = draw_sample(old_index, self._sample_rng)
        plans = [Plans() for _ in self.laws]
        by_law = self._groups(pool, open_rows[is_sampled], plans)
        if is_sampled.all():
            return Evaluated(open_rows, covers_all=True), by_law
        n_sampled = int(is_sampled.sum())
        predicted = predict_indices(pool, open_rows, old_index, is_sampled, _mean_index(by_law, n_sampled))
        # n_represented: number of candidates left out for which each sampled one stands
        is_selected, n_represented = select_best_predicted(predicted, is_sampled)
        for law, group in self._groups(pool, open_rows[is_selected], plans):
            by_law.append((law, replace(group, places=n_sampled + group.places)))  # these rows follow the sample
        is_left_out = ~(is_sampled | is_selected)
        self.index[open_rows[is_left_out]] = predicted[is_left_out]
        order = np.concatenate([np.flatnonzero(is_sampled), np.flatnonzero(is_selected)])
        return Evaluated(open_rows[order], covers_all=True, n_represented=n_represented[order]), by_law

    def _groups(self, pool: CandidatePool, rows: RowIndices, plans: Sequence[Plans] | None = None) -> list[_ByLaw]:
        """Returns the groups of the candidates in `rows` under each law. plans: for each law, solved plans to use and
        to add to; None: no plan is solved yet."""
        assert self.truths is not None
        payoff = self.aims.payoff(self.truths, pool.deciding_scores)
        if plans is None:
            plans = [Plans() for _ in self.laws]
        by_law: list[_ByLaw] = []
        for law, law_plans in zip(self.laws, plans, strict=True):
            for group in groups(
                pool, rows, self.aims, self.truths, payoff, law.chains, barred=self._skipped(pool), plans=law_plans
            ):
                by_law.append((law, group))
        return by_law

    def _skipped(self, pool: CandidatePool) -> frozenset[PaidIndex]:
        """Returns the full rungs that candidates skip: those below the terminal one that decide no objective."""
        return self.full - {pool.rungs[column] for column in self._deciding_columns} - {pool.paid[-1]}

    def evaluate(self, pool: CandidatePool, of: RowIndices) -> list[CandidateGroup]:
        """Values open candidates at the current price. Returns their groups under the law with the largest weight."""
        self._grow(pool)
        by_law = self._groups(pool, of)
        self._value(pool, of, by_law)
        return [group for law, group in by_law if law is self._heaviest]

    @property
    def _heaviest(self) -> Law:
        return max(self.laws, key=lambda law: law.weight)

    def _value(self, pool: CandidatePool, of: RowIndices, by_law: list[_ByLaw]) -> NDArray[np.int64]:
        """Sets index, payoff, utility, value and purchases of the candidates in `of`, (n,). Returns the rungs to buy,
        (n,). The index orders the candidates; the price that the budget affords decides the rung."""
        terminal = pool.paid[-1]
        rungs_to_buy = np.full(len(of), terminal)
        expected = np.zeros(len(of))
        utility = np.zeros(len(of))
        value = np.zeros(len(of))
        for law, group in by_law:
            places = group.places
            expected[places] += law.weight * group.expected
            utility[places] += law.weight * group.utility
            value[places] += law.weight * group.worth(self.price)
            if law is self._heaviest:
                # an action is a place in group.rungs, or TERMINAL = -1, which picks the terminal rung at the end
                group_rungs = np.array([*group.rungs, terminal])
                purchases = np.zeros((len(places), terminal + 1))
                purchases[:, group_rungs] = group.purchases(self.price)
                self.purchases[of[places]] = purchases
                rungs_to_buy[places] = group_rungs[group.action(self.price)]
        self.index[of] = _mean_index(by_law, len(of))
        self.valued = of
        self.utility = utility
        self.expected[of] = expected
        self.value[of] = value
        return rungs_to_buy

    def worth_without(self, pool: CandidatePool) -> tuple[float, dict[PaidIndex, float]]:
        """Returns the value of the best candidates at the current price, payoff minus cost, and their value without
        each rung that some of them lack. The difference is the value of the rung."""
        if self.truths is None or not self.laws:
            return 0.0, {}
        known_rows = pool.open[pool.open < len(self.index)]  # later rows have not been evaluated yet
        best_first = np.argsort(-np.nan_to_num(self.index[known_rows], nan=-np.inf), kind="stable")
        best_rows = np.sort(known_rows[best_first[:N_JUDGED]])
        truths = self.truths
        payoff = self.aims.payoff(self.truths, pool.deciding_scores)

        def worth(*barred: PaidIndex) -> float:
            """Returns the value of the best candidates if these rungs cannot be bought."""
            chains = self._heaviest.chains
            left_out = self._skipped(pool).union(barred)
            valued = groups(pool, best_rows, self.aims, truths, payoff, chains, barred=left_out)
            return float(sum(group.worth(self.price).sum() for group in valued))

        unvalued = {pool.rungs[column] for column in self._deciding_columns} | self.full
        lacking = [j for j in pool.paid[:-1] if j not in unvalued and not pool.closed[best_rows, j].all()]
        return worth(), {j: worth(j) for j in lacking}

    def _solve_price(self, pool: CandidatePool, evaluated: Evaluated, by_law: list[_ByLaw], left: float) -> float:
        """Returns the price at which the remaining budget is just spent on all open candidates. The spend on the
        candidates far from the top is kept from the last update that covered all candidates."""
        groups_of_heaviest = [group for law, group in by_law if law is self._heaviest]
        is_near = np.ones(len(evaluated.rows), dtype=bool)
        if evaluated.covers_all:
            self._verification_cost = float(np.median(pool.costs[pool.open, -1]))
            is_near = is_near_top(_mean_index(by_law, len(evaluated.rows)))
            self._cost_to_go_of_far = self._cost_to_go(groups_of_heaviest, ~is_near)
            n_represented = evaluated.n_represented
            if n_represented is not None:
                # each sampled candidate that represents others represents the same number of them
                represents_others = n_represented > 0
                n_each = n_represented.max()
                cost_of_represented = n_each * self._cost_to_go(groups_of_heaviest, represents_others)
                self._cost_to_go_of_far = self._cost_to_go_of_far + cost_of_represented
        to_go = self._cost_to_go_of_far + self._cost_to_go(groups_of_heaviest, is_near)
        return solve_price(to_go, left) / self._verification_cost

    def _cost_to_go(self, candidate_groups: list[CandidateGroup], selected: Mask) -> Array:
        """Returns the expected cost to go of the selected candidates together, at each of PRICES. selected: (n,)."""
        prices = PRICES / self._verification_cost
        total = np.zeros(len(PRICES))
        for group in candidate_groups:
            total += group.to_go(prices, selected[group.places])
        return total

    @property
    def is_learnt(self) -> bool:
        """Whether there has been a law."""
        return self.truths is not None

    @property
    def fits(self) -> int:
        """Number of hyper-parameter fits."""
        return self._stack.fits

    def state(self) -> Mapping[str, Any]:
        """Returns what was learned as JSON. With the same evidence, the state gives the same law again."""
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


def _mean_index(by_law: Sequence[_ByLaw], n: int) -> Array:
    """Returns the index of n candidates, (n,), averaged over the laws with their weights."""
    index = np.zeros(n)
    for law, group in by_law:
        index[group.places] += law.weight * group.index
    return index
