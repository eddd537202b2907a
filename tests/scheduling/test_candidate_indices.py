"""Forecasts become indices and purchases as if each candidate had a programme of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.aims_and_payoff import Aim, Aims
from sciagent.scheduling.candidate_indices import MAX_RUNGS, CandidateGroup, groups
from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.dynamic_programme import PRICES, TERMINAL, moves_of, solve_left, variances_left
from sciagent.scheduling.law.answer_transforms import TruthTransform
from sciagent.scheduling.law.gaussian_process_chain import Chain, Forecast

Array = NDArray[np.float64]
Places = NDArray[np.intp]

THREE = np.array([[1.0, 0.4, 0.5, 0.5], [0.4, 1.0, 0.6, 0.7], [0.5, 0.6, 1.0, 0.9], [0.5, 0.7, 0.9, 1.0]])
TWO = THREE[1:, 1:]
ABOVE = TruthTransform(0.0, 1.0)


@dataclass(frozen=True)
class Known:
    """A chain that knows the law: scores (n, c), the terminal one last, are N((0, ..., mean), law) in its own unit."""

    scores: Array
    mean: Array
    law: Array
    of: int = 10**15

    def forecast(self, of: Places) -> Iterator[tuple[Places, Forecast]]:
        gone = np.isnan(self.scores[of, :-1])
        last = len(self.law) - 1
        for pattern in np.unique(gone, axis=0):
            places = np.flatnonzero((gone == pattern).all(1))
            seen, missing = np.flatnonzero(~pattern), np.flatnonzero(pattern)
            asked = [*missing, last]
            weights = np.linalg.solve(self.law[np.ix_(seen, seen)], self.law[np.ix_(seen, asked)])
            covariance = self.law[np.ix_(asked, asked)] - self.law[np.ix_(asked, seen)] @ weights
            mean = self.mean[of[places]] + self.scores[np.ix_(of[places], seen)] @ weights[:, -1]
            yield places, Forecast(tuple(missing), mean, np.tile(covariance, (len(places), 1, 1)))

    def pairs(self, j: int) -> int:
        return self.of


def board_of(scores: Array, costs: Array, rungs: tuple[int, ...] = ()) -> CandidatePool:
    pool = CandidatePool(scores, np.zeros(costs.shape, dtype=bool), costs, rungs)
    for j in range(costs.shape[1]):
        pool.closed[:, j] = pool.answered(j)
    return pool


def look(
    pool: CandidatePool, aims: Aims, truths: Sequence[TruthTransform], chains: Sequence[Known]
) -> list[CandidateGroup]:
    payoff = aims.payoff(truths, pool.scores)
    return list(groups(pool, pool.open, aims, truths, payoff, cast("list[Chain]", chains)))


def one_ladder(law: Array, mean: Array, costs: Array) -> tuple[CandidatePool, list[CandidateGroup]]:
    """Candidates that have seen nothing; hits above 0."""
    pool = board_of(np.full((len(mean), len(law)), np.nan), costs)
    return pool, look(pool, Aims.with_threshold(len(law), 0.0, 1), (ABOVE,), [Known(pool.scores, mean, law)])


def by_candidate(found: Sequence[CandidateGroup], what: str, n: int) -> Array:
    """(n,) of an attribute of groups, which are to hold each candidate once."""
    values = np.full(n, np.nan)
    for group in found:
        assert np.isnan(values[group.places]).all()
        values[group.places] = getattr(group, what)
    assert not np.isnan(values).any()
    return values


def first_rung(found: Sequence[CandidateGroup], price: float, n: int, last: int) -> NDArray[np.int64]:
    """(n,) the rung to buy, by its place on the pool."""
    rung = np.full(n, -9)
    for group in found:
        action = group.action(price)
        rung[group.places] = np.where(action == TERMINAL, last, np.array([*group.rungs, last])[action])
    return rung


# One objective


def test_with_the_same_costs_for_all_there_is_one_programme_and_it_is_the_ladder_s_own() -> None:
    mean = np.linspace(-3, 1, 50)
    pool, found = one_ladder(TWO, mean, np.tile([1.0, 20.0, 100.0], (50, 1)))
    assert len(found) == 1
    fails = pool.failures().tolist()
    alone = solve_left(variances_left(TWO, [[0], [1]]), [0.01, 0.2], fails)
    assert by_candidate(found, "index", 50) == pytest.approx(alone.index(mean) / 100, rel=1e-9)
    assert by_candidate(found, "expected", 50) == pytest.approx(ndtr(mean))
    assert found[0].worth(0.001) == pytest.approx(alone.worth(mean, 0.1))
    assert found[0].purchases(0.001) == pytest.approx(alone.purchases(mean, 0.1))


def test_what_few_answers_show_of_a_rung_counts_for_less_and_for_nothing_if_it_may_be_chance() -> None:
    """The rung explains 0.3² of the variance: as much as unrelated numbers explain with ten answers."""
    law, costs, mean = np.array([[1.0, 0.3], [0.3, 1.0]]), np.tile([5.0, 100.0], (9, 1)), np.linspace(-3, 0, 9)
    indices = {}
    for n in (1, 10, 40, 10**15):
        pool = board_of(np.full((9, 2), np.nan), costs)
        known = Known(pool.scores, mean, law, n)
        indices[n] = by_candidate(look(pool, Aims.with_threshold(2, 0.0, 1), (ABOVE,), [known]), "index", 9)
    alone = ndtr(mean) * (1 - board_of(np.full((9, 2), np.nan), costs).failures()[-1]) / 100
    assert indices[1] == pytest.approx(alone, rel=0.02) and indices[10] == pytest.approx(alone, rel=0.02)
    assert (indices[40][:-2] > 1.05 * alone[:-2]).all()
    assert (indices[10**15][:-2] > indices[40][:-2]).all()


def test_a_rung_that_repeats_another_adds_nothing_however_few_the_answers_are() -> None:
    """The second rung is the first with noise. Both together would seem to tell more than the first, if each one's
    relation to the terminal answer were doubted but not that to each other."""
    told = np.array([[1.0, 0.7, 0.63], [0.7, 1.0, 0.7 * 0.63], [0.63, 0.7 * 0.63, 1.0]])
    mean, aims = np.linspace(-3, 0, 9), Aims.with_threshold(3, 0.0, 1)
    for n in (3, 5, 20):
        pool = board_of(np.full((9, 3), np.nan), np.tile([2.0, 2.0, 100.0], (9, 1)))
        chains = cast("list[Chain]", [Known(pool.scores, mean, told, n)])
        payoff = aims.payoff((ABOVE,), pool.scores)
        both, first = (
            by_candidate(list(groups(pool, pool.open, aims, (ABOVE,), payoff, chains, barred)), "index", 9)
            for barred in (frozenset(), frozenset({PaidIndex(1)}))
        )
        assert both == pytest.approx(first, rel=1e-6)


def test_candidates_that_have_seen_more_have_fewer_rungs_to_buy_and_less_to_doubt() -> None:
    scores = np.full((4, 4), np.nan)
    scores[1, 0] = scores[2, :2] = scores[3, 2] = 0.0
    pool = board_of(scores, np.tile([1.0, 10.0, 100.0, 1000.0], (4, 1)))
    found = look(pool, Aims.with_threshold(4, 0.0, 1), (ABOVE,), [Known(scores, np.full(4, -1.0), THREE)])
    rungs = {int(place): group.rungs for group in found for place in group.places}
    assert rungs == {0: (0, 1, 2), 1: (1, 2), 2: (2,), 3: ()}, "below a rung that answered nothing is bought"
    u = by_candidate(found, "u", 4)
    assert u[0] == pytest.approx(-1.0)
    assert (np.diff(u) < 0).all(), "the mean is as far below, the doubt is less"


@pytest.mark.parametrize("law", [TWO, THREE])
def test_uncertainty_alone_can_promote(law: Array) -> None:
    """Of two candidates whose mean lies as far below the threshold, the one that is less known has the larger index;
    here the other has seen a rung, which said what was to be expected."""
    scores = np.full((2, len(law)), np.nan)
    scores[1, len(law) - 2] = 0.0
    pool = board_of(scores, np.tile([1.0, 10.0, 100.0, 1000.0][-len(law) :], (2, 1)))
    found = look(pool, Aims.with_threshold(len(law), 0.0, 1), (ABOVE,), [Known(scores, np.full(2, -0.8), law)])
    wide, narrow = by_candidate(found, "index", 2)
    assert wide > 2 * narrow


def test_to_go_is_what_all_of_them_would_spend() -> None:
    rng = np.random.default_rng(0)
    mean, terminal = rng.normal(-1, 1, 200), 100 * 10 ** rng.uniform(-1, 1, 200)
    _, found = one_ladder(TWO, mean, terminal[:, None] * [0.01, 0.2, 1.0])
    prices = PRICES / 100
    total = sum((group.to_go(prices, np.ones(len(group.u), dtype=bool)) for group in found), np.zeros(len(prices)))
    for place in (20, 30, 40):
        spent = sum(float((group.purchases(prices[place]) @ [0.01, 0.2, 1.0]) @ group.weight) for group in found)
        assert total[place] == pytest.approx(spent, rel=0.05)
    assert (np.diff(total) <= 1e-9 * total[0]).all()
    for group in found:
        some = np.arange(len(group.u)) % 3 == 0
        assert group.to_go(prices, some) + group.to_go(prices, ~some) == pytest.approx(
            group.to_go(prices, some | ~some), rel=0.02
        )


# Costs of one's own

SPREADS = {
    "a rung by 100": lambda rng, n, k: np.where(np.arange(k) == k - 2, 10 ** rng.uniform(-1, 1, (n, 1)), 1.0),
    "the terminal rung by 100": lambda rng, n, k: np.where(np.arange(k) == k - 1, 10 ** rng.uniform(-1, 1, (n, 1)), 1),
    "all together by 100": lambda rng, n, k: np.tile(10 ** rng.uniform(-1, 1, (n, 1)), k),
    "each by itself, log-normal": lambda rng, n, k: np.exp(0.7 * rng.standard_normal((n, k))),
}


@pytest.mark.parametrize("law", [TWO[1:, 1:], TWO, THREE])
@pytest.mark.parametrize("spread", SPREADS)
def test_indices_agree_with_those_of_candidates_solved_alone(law: Array, spread: str) -> None:
    """Within 10 %, and within 2 % on average; never above by more than 4 %, which is the grid of prices near 1."""
    rng = np.random.default_rng(0)
    n, m = 40, len(law) - 1
    costs = np.array([10.0, 50.0, 200.0, 1000.0])[-m - 1 :] * SPREADS[spread](rng, n, m + 1)
    mean = rng.uniform(-3, 1, n)
    pool, found = one_ladder(law, mean, costs)
    left, fails = variances_left(law, [[j] for j in range(m)]), pool.failures().tolist()
    moves = moves_of(left)
    solved = [solve_left(left, (c[:-1] / c[-1]).tolist(), fails, moves=moves) for c in costs]
    alone = np.array([p.index(u)[0] / c[-1] for p, u, c in zip(solved, mean[:, None], costs, strict=True)])
    off = by_candidate(found, "index", n) / alone - 1
    assert -0.1 < off.min() <= off.max() < 0.04
    assert np.abs(off).mean() < 0.02


def test_a_rung_that_costs_more_than_it_tells_is_bought_only_by_those_for_whom_it_is_cheap() -> None:
    mean = np.full(40, -1.0)
    costs = np.column_stack([np.geomspace(1, 300, 40), np.full(40, 100.0)])
    _, found = one_ladder(TWO[1:, 1:], mean, costs)
    rung = first_rung(found, 0.0, 40, 1)
    assert rung[0] == 0
    assert rung[-1] == 1
    assert (np.diff(rung) >= 0).all()
    index = by_candidate(found, "index", 40)
    assert (np.diff(index) <= 1e-12).all()
    assert index[-1] == pytest.approx(ndtr(-1.0) / 100, rel=0.05)


# Several objectives


def two_objectives(scores: Array, first: Array, second: Array, costs: Array) -> list[CandidateGroup]:
    """Columns: a cheap rung that tells of both; a rung that decides the first; the terminal one decides the second."""
    aims = Aims((Aim((0, 1), 0.0, np.inf), Aim((0, 2), 0.0, np.inf)))
    chains = [
        Known(scores[:, [0, 1]], first, np.array([[1.0, 0.5], [0.5, 1.0]])),
        Known(scores[:, [0, 2]], second, np.array([[1.0, 0.6], [0.6, 1.0]])),
    ]
    return look(board_of(scores, costs), aims, (ABOVE, ABOVE), chains)


def test_the_terminal_rung_is_not_bought_before_a_lower_one_that_decides_an_objective() -> None:
    rng = np.random.default_rng(0)
    n = 200
    scores = np.full((n, 3), np.nan)
    scores[50:100, 0] = rng.standard_normal(50)
    scores[150:, 1] = np.abs(rng.standard_normal(50)) + 0.1
    means = rng.normal(-0.5, 1.0, (2, n))
    means[:, :5] = 4.0  # as good as certain
    for dear in (1.0, 30.0, 300.0):
        found = two_objectives(scores, *means, np.tile([1.0, dear, 100.0], (n, 1)))
        for price in (0.0, 1e-5, 1e-3, 1e-2, 1.0):
            rung = first_rung(found, price, n, 2)
            assert (rung[:150] < 2).all()
            assert (rung[150:] == 2).all()


def test_an_objective_that_is_known_to_be_missed_leaves_nothing_to_expect() -> None:
    scores = np.full((3, 3), np.nan)
    scores[:, 0] = 0.0
    scores[:, 1] = [-0.2, 0.2, np.nan]
    found = two_objectives(scores, np.zeros(3), np.zeros(3), np.tile([1.0, 10.0, 100.0], (3, 1)))
    missed, met, _ = by_candidate(found, "expected", 3)
    assert missed < 1e-9
    assert met == pytest.approx(0.5)
    index = by_candidate(found, "index", 3)
    assert index[0] < 1e-4 * index[1]
    assert all(group.worth(1e-3)[group.places == 0].sum() == 0 for group in found)


def test_an_objective_whose_rung_failed_cannot_be_met_any_more() -> None:
    scores = np.full((2, 3), np.nan)
    scores[:, 0] = 1.0
    costs = np.tile([1.0, 10.0, 100.0], (2, 1))
    pool = board_of(scores, costs)
    pool.closed[0, 1] = True  # without an answer
    aims = Aims((Aim((0, 1), 0.0, np.inf), Aim((0, 2), 0.0, np.inf)))
    chains = [Known(scores[:, [0, j]], np.ones(2), np.array([[1.0, 0.5], [0.5, 1.0]])) for j in (1, 2)]
    found = look(pool, aims, (ABOVE, ABOVE), chains)
    failed, open_ = by_candidate(found, "expected", 2)
    assert failed == 0
    assert open_ > 0.5
    index = by_candidate(found, "index", 2)
    assert index[0] < 1e-4 * index[1]


@pytest.mark.parametrize("dear", [5.0, 20.0, 60.0])
@pytest.mark.parametrize("means", [(-0.5, 0.3), (0.2, -0.4), (1.0, -1.0), (-1.0, 1.0)])
def test_independent_objectives_multiply_and_a_rung_that_decides_one_tells_of_both(
    means: tuple[float, float], dear: float
) -> None:
    """The index within 25 % of that of the plan worked out by hand: the rung that decides the first objective and, if
    it is met, the terminal one. A rung that says yes or no is put as one that tells a share of a normal answer."""
    scores = np.full((1, 3), np.nan)
    scores[:, 0] = 0.0  # said what was expected
    found = two_objectives(scores, *np.array(means)[:, None], np.array([[1.0, dear, 100.0]]))
    chances = ndtr(np.array(means) / np.sqrt(1 - np.array([0.5, 0.6]) ** 2))
    assert found[0].expected[0] == pytest.approx(chances.prod(), rel=1e-6)
    answers = 0.98  # so many of those asked
    by_hand = answers**2 * chances.prod() / (dear + answers * chances[0] * 100)
    assert found[0].index[0] == pytest.approx(by_hand, rel=0.25)
    assert first_rung(found, 0.0, 1, 2) == 1


def test_of_too_many_rungs_those_that_decide_an_objective_are_kept() -> None:
    k = MAX_RUNGS + 3
    scores = np.full((2, k), np.nan)
    pool = board_of(scores, np.tile(np.append(np.full(k - 1, 1.0), 100.0), (2, 1)))
    law = np.full((k, k), 0.3) + 0.7 * np.eye(k)
    aims = Aims((Aim((0,), 0.0, np.inf), Aim(tuple(range(k)), 0.0, np.inf)))
    chains = [Known(scores[:, :1], np.zeros(2), np.eye(1)), Known(scores, np.zeros(2), law)]
    found = look(pool, aims, (ABOVE, ABOVE), chains)
    assert found[0].rungs == (0, *range(k - MAX_RUNGS, k - 1))
    assert (first_rung(found, 0.0, 2, k - 1) < k - 1).all()


def test_an_objective_that_a_rung_before_the_paid_ones_decided_is_known() -> None:
    scores = np.full((2, 2), np.nan)
    scores[:, 0] = [0.3, -0.3]
    pool = board_of(scores, np.full((2, 1), 100.0), (-1, 0))
    aims = Aims((Aim((0,), 0.0, np.inf), Aim((1,), 0.0, np.inf)))
    chains = [Known(scores[:, :1], np.zeros(2), np.eye(1)), Known(scores[:, 1:], np.zeros(2), np.eye(1))]
    found = look(pool, aims, (ABOVE, ABOVE), chains)
    assert by_candidate(found, "expected", 2) == pytest.approx([0.5, 0.0], abs=1e-6)


@pytest.mark.parametrize("kind", ["graded", "best"])
def test_graded_payoffs_rise_with_the_mean_and_near_a_record_doubt_is_worth_more(kind: str) -> None:
    aims = Aims((Aim((0, 1), desirability=lambda v: np.clip((v + 3) / 6, 0, 1)),), kind)
    truth = TruthTransform(0.0, 1.0, 1, -np.inf, np.inf)
    scores = np.full((43, 2), np.nan)
    scores[-1] = 0.6  # the record
    scores[-2, 0] = 0.0
    mean = np.append(np.linspace(-2.5, 1.5, 41), [0.6, 0.6])
    pool = board_of(scores, np.tile([5.0, 100.0], (43, 1)))
    pool.out[-1] = True
    found = look(pool, aims, (truth,), [Known(scores, mean, TWO[1:, 1:])])
    index = by_candidate(found, "index", 42)
    assert (np.diff(index[:41]) > 0).all()
    wide = np.interp(0.6, mean[:41], index[:41])
    assert (wide > 1.3 * index[41]) == (kind == "best")


# Windows

X = np.linspace(-8, 8, 2001)  # of a standard normal
DENSITY = np.exp(-(X**2) / 2) / np.exp(-(X**2) / 2).sum()


def chance(mean: Array, sd: float, width: float) -> Array:
    found: Array = ndtr((width - mean) / sd) - ndtr((-width - mean) / sd)
    return found


def window_index(mean: float, share: float, width: float, cost: float, fails: float) -> float:
    """Of one candidate of variance 1 and one rung that tells `share` of it, by integration over what it may say."""

    def worth(log_price: float) -> float:
        price = float(np.exp(log_price))

        def verify(at: Array, sd: float) -> Array:
            return (1 - fails) * chance(at, sd, width) - price

        now = float(verify(np.array([mean]), 1.0)[0])
        told = float(np.maximum(verify(mean + np.sqrt(share) * X, np.sqrt(1 - share)), 0) @ DENSITY)
        return max(now, (1 - fails) * told + fails * max(now, 0.0) - price * cost)

    return float(np.exp(brentq(worth, -16, 1)))


@pytest.mark.parametrize("share", [0.3, 0.8, 0.95])
@pytest.mark.parametrize("cost", [0.02, 0.2])
@pytest.mark.parametrize(("width", "tolerance"), [(0.1, 0.35), (0.5, 0.15), (1.0, 0.08), (2.0, 0.05)])
def test_windows_have_about_the_index_of_a_programme_on_the_answer_itself(
    width: float, tolerance: float, share: float, cost: float
) -> None:
    """A programme knows the first two moments of what the rung will make of the chance, not its shape. A window of a
    tenth of what is unknown, on either side, may cost a third of the index: too much in its middle, too little outside.
    The order of candidates stays."""
    mean = np.linspace(0, 3, 60)
    costs = np.tile([100 * cost, 100.0], (60, 1))
    scores = np.full((60, 2), np.nan)
    law = np.array([[1.0, np.sqrt(share)], [np.sqrt(share), 1.0]])
    limits = TruthTransform(0.0, 1.0, 1, -width, width)
    pool = board_of(scores, costs)
    aims = Aims((Aim((0, 1), -width, width),))
    found = by_candidate(look(pool, aims, (limits,), [Known(scores, mean, law)]), "index", 60)
    fails = float(pool.failures()[0])
    places = np.arange(0, 60, 6)
    exact = np.array([window_index(mean[i], share, width, cost, fails) / 100 for i in places])
    off = found[places] / exact - 1
    assert np.abs(off).max() < tolerance
    assert (np.diff(found) < 0).all()


def test_outside_a_window_a_rung_is_bought_that_inside_it_is_not() -> None:
    mean = np.array([0.0, 1.4])
    scores, law = np.full((2, 2), np.nan), np.array([[1.0, 0.9], [0.9, 1.0]])
    limits = TruthTransform(0.0, 1.0, 1, -2.0, 2.0)
    pool = board_of(scores, np.tile([25.0, 100.0], (2, 1)))
    found = look(pool, Aims((Aim((0, 1), -2.0, 2.0),)), (limits,), [Known(scores, mean, law)])
    assert first_rung(found, 0.0, 2, 1).tolist() == [1, 0]
