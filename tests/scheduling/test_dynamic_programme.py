"""The programme of a priced ladder agrees with decisions worked out by integration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from sciagent.scheduling.dynamic_programme import (
    NEVER,
    PRICES,
    STOP,
    TERMINAL,
    Programme,
    U,
    _move,
    nearest,
    solve_left,
    solve_price,
    variances_left,
)

Array = NDArray[np.float64]

STARTS = np.array([-3.0, -2.0, -1.0, -0.4, 0.0, 0.8, 2.0])
X = np.linspace(-8.0, 8.0, 641)  # of a standard normal
DENSITY = np.exp(-(X**2) / 2) / np.exp(-(X**2) / 2).sum()
TWO = np.array([[1.0, 0.3, 0.5], [0.3, 1.0, 0.8], [0.5, 0.8, 1.0]])


def solve(covariance: Array, costs: Sequence[float], failures: Sequence[float] | None = None) -> Programme:
    """covariance: (m + 1, m + 1) of what the m missing rungs and, last, the terminal one will say."""
    return solve_left(variances_left(covariance, [[j] for j in range(len(costs))]), costs, failures)


def one(correlation: float) -> Array:
    return np.array([[1.0, correlation], [correlation, 1.0]])


def after_one(correlation: Array, j: int, u: Array, x: Array) -> tuple[Array, float]:
    """Mean and standard deviation of the terminal answer, itself of mean u and variance 1, once rung j said x."""
    told = correlation[j, -1]
    return u + told * x, float(np.sqrt(1 - told**2))


def buy_one(correlation: Array, j: int, u: Array, price: float, cost: float) -> Array:
    """What it is worth to buy rung j and then to verify, or to stop."""
    mean, sd = after_one(correlation, j, u[:, None], X)
    worth: Array = np.maximum(ndtr(mean / sd) - price, 0) @ DENSITY - price * cost
    return worth


def buy_two(correlation: Array, j: int, u: float, price: float, costs: list[float]) -> float:
    """What it is worth to buy rung j of two, and then whatever is best."""
    other = 1 - j
    mean, sd = after_one(correlation, j, np.array(u), X)
    shared = correlation[other, -1] - correlation[other, j] * correlation[j, -1]
    told = shared / np.sqrt(1 - correlation[other, j] ** 2)
    later = np.maximum(ndtr((mean[:, None] + told * X) / np.sqrt(sd**2 - told**2)) - price, 0) @ DENSITY
    best = np.maximum(np.maximum(ndtr(mean / sd) - price, 0), later - price * costs[other])
    return float(best @ DENSITY - price * costs[j])


def at_price(place: int, programme: Programme, u: Array) -> Array:
    value: Array = programme.value[nearest(u), place]
    return value


# Without rungs


def test_without_rungs_the_index_is_the_probability_of_a_hit() -> None:
    programme = solve(np.eye(1), [])
    u = np.linspace(-5, 5, 501)
    off = np.abs(np.log(programme.index(u) / ndtr(u)))
    assert off.max() < np.log(PRICES[1] / PRICES[0])
    assert off[u < ndtri(PRICES[-2])].max() < 0.02  # between two prices
    assert (programme.at_index(u) == TERMINAL).all()


def test_without_rungs_a_terminal_rung_that_fails_halves_the_index() -> None:
    u = np.linspace(-4, 0, 9)
    assert solve(np.eye(1), [], [0.5]).index(u) == pytest.approx(ndtr(u) / 2, rel=0.01)


def test_where_nothing_pays_nothing_is_bought() -> None:
    programme = solve(np.eye(1), [])
    assert programme.action(np.array([-3.0, 1.0]), 0.1).tolist() == [STOP, TERMINAL]
    assert programme.value[programme.best == STOP].max() == 0
    assert programme.spend[programme.best == STOP].max() == 0


# Worthless rungs


@pytest.mark.parametrize("cost", [0.0, 1e-4, 0.1])
def test_a_worthless_rung_changes_nothing_and_is_never_bought(cost: float) -> None:
    without, programme = solve(one(0.7)[:1, :1], []), solve(one(0.0), [cost])
    assert np.array_equal(programme.value, without.value)
    assert np.array_equal(programme.spend, without.spend)
    assert np.array_equal(programme.index(U), without.index(U))
    assert not (programme.best == 0).any()


def test_a_worthless_rung_beside_a_good_one_changes_nothing() -> None:
    law = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.8], [0.0, 0.8, 1.0]])
    alone, both = solve(one(0.8), [0.05]), solve(law, [0.01, 0.05])
    assert both.value == pytest.approx(alone.value, abs=1e-12)
    assert both.index(U) == pytest.approx(alone.index(U), rel=1e-9)
    assert not (both.best == 0).any()


def test_a_rung_that_repeats_a_seen_one_is_not_bought_after_it() -> None:
    """Two copies of one rung are worth what the cheaper is."""
    law = np.array([[1.0, 1.0, 0.8], [1.0, 1.0, 0.8], [0.8, 0.8, 1.0]])
    alone, both = solve(one(0.8), [0.05]), solve(law, [0.2, 0.05])
    assert both.value == pytest.approx(alone.value, abs=1e-12)


def test_a_free_rung_is_always_worth_running_where_it_can_change_the_decision() -> None:
    programme = solve(one(0.8), [0.0])
    assert (programme.value >= solve(np.eye(1), []).value - 1e-12).all()
    assert programme.action(np.array([-1.0, 0.0]), 0.1).tolist() == [0, 0]


# Against integration


@pytest.mark.parametrize("correlation", [0.3, 0.8, 0.95])
@pytest.mark.parametrize("cost", [0.01, 0.2])
def test_with_one_rung_the_value_is_that_of_the_two_stage_decision(correlation: float, cost: float) -> None:
    programme = solve(one(correlation), [cost])
    for place in (24, 36, 44, 50):
        price = PRICES[place]
        stop_or_verify = np.maximum(ndtr(STARTS) - price, 0)
        expected = np.maximum(stop_or_verify, buy_one(one(correlation), 0, STARTS, price, cost))
        assert at_price(place, programme, STARTS) == pytest.approx(expected, abs=1e-3)
        # relative, too, where hits are rare
        assert at_price(place, programme, STARTS) == pytest.approx(expected, rel=0.02, abs=1e-7)


def test_a_scaled_ladder_has_the_same_programme() -> None:
    """Only what a rung narrows matters: neither its unit nor that of the terminal answer does."""
    units = np.diag([100.0, 0.01, 7.0])
    plain, scaled = solve(TWO, [0.05, 0.2]), solve(units @ TWO @ units, [0.05, 0.2])
    assert scaled.value == pytest.approx(plain.value, abs=1e-9)


@pytest.mark.parametrize("place", [32, 44, 50])
def test_with_two_rungs_the_value_is_that_of_the_nested_decisions(place: int) -> None:
    costs, price = [0.02, 0.2], float(PRICES[place])
    programme = solve(TWO, costs)
    bought = np.array([[buy_two(TWO, j, u, price, costs) for j in (0, 1)] for u in STARTS])
    expected = np.maximum(np.maximum(ndtr(STARTS) - price, 0), bought.max(1))
    assert at_price(place, programme, STARTS) == pytest.approx(expected, abs=1e-3)
    assert at_price(place, programme, STARTS) == pytest.approx(expected, rel=0.02, abs=1e-7)
    assert (expected > np.maximum(ndtr(STARTS) - price, 0) + 1e-4).any()  # the rungs matter here


def test_a_rung_may_be_skipped() -> None:
    """A dear rung that tells little is passed over for the one above it."""
    assert solve(TWO, [0.5, 0.05]).action(np.array([-1.0]), 0.1).tolist() == [1]


def test_the_index_is_the_price_at_which_the_best_plan_breaks_even() -> None:
    costs, law = [0.05], one(0.8)
    index = solve(law, costs).index(STARTS[:4])
    for u, price in zip(STARTS[:4], index, strict=True):
        worth = [
            max(float(ndtr(u)) - p, float(buy_one(law, 0, np.array([u]), p, costs[0])[0]))
            for p in (0.95 * price, 1.05 * price)
        ]
        assert worth[0] > 0 > worth[1]


# Failures


def test_a_rung_that_always_fails_is_as_if_it_were_absent() -> None:
    alone = solve(one(0.8), [0.1])
    for place, law in [(0, TWO), (1, TWO[[1, 0, 2]][:, [1, 0, 2]])]:
        fails, costs = np.zeros(3), [0.1, 0.1]
        fails[place] = 1.0
        costs[place] = 0.01
        found = solve(law, costs, fails.tolist())
        assert found.value == pytest.approx(alone.value, abs=1e-12)
        assert found.spend == pytest.approx(alone.spend, abs=1e-12)
        assert not (found.best == place).any()


def test_a_rung_that_fails_half_the_time_is_worth_the_mean_of_both_outcomes() -> None:
    """After a failure its cost is gone, and the candidate can be verified or left, but not asked again."""
    law, cost, place = one(0.8), 0.05, 44
    price = PRICES[place]
    left = np.maximum(ndtr(STARTS) - price, 0)
    told = buy_one(law, 0, STARTS, price, 0.0)
    expected = np.maximum(left, 0.5 * told + 0.5 * left - price * cost)
    assert at_price(place, solve(law, [cost], [0.5, 0.0]), STARTS) == pytest.approx(expected, abs=1e-3)


def test_where_the_terminal_rung_always_fails_nothing_is_bought() -> None:
    programme = solve(one(0.8), [0.1], [0.0, 1.0])
    assert (programme.best == STOP).all()
    assert programme.value.max() == 0


# Played out


@dataclass(frozen=True)
class Played:
    """n candidates that followed a programme. hits, bought: (n,), (n, m + 1)."""

    hits: Array
    bought: Array

    def check(self, programme: Programme, start: float, place: int, costs: Array) -> None:
        """Value, spend and purchases agree with what happened, within four standard errors and 1 % or, where the grid
        of u is what limits it, 0.002."""
        price, u = float(PRICES[place]), np.array([start])
        spent = self.bought @ np.append(costs, 1.0)
        for foretold, found in [
            (programme.worth(u, price)[0], self.hits - price * spent),
            (programme.spend[nearest(u)[0], place], spent),
            *zip(programme.purchases(u, price)[0], self.bought.T, strict=True),
        ]:
            allowed = 4 * found.std() / np.sqrt(len(found)) + 0.01 * abs(foretold) + 0.002
            assert abs(foretold - found.mean()) < allowed


def play(
    programme: Programme, law: Array, fails: list[float], start: float, place: int, n: int = 60_000, needed: int = 0
) -> Played:
    """Candidates whose rungs and, last, terminal answer are N((0, ..., 0, start), law) with law[-1, -1] = 1."""
    rng = np.random.default_rng(0)
    m = len(law) - 1
    said = rng.multivariate_normal(np.append(np.zeros(m), start), law, n)
    answers = rng.random((n, m + 1)) >= np.array(fails)
    hits, bought = np.zeros(n), np.zeros((n, m + 1))
    waiting = {(0, 0): np.arange(n)}
    while waiting:
        (seen, gone), of = waiting.popitem()
        places = [j for j in range(m) if seen >> j & 1]
        weights = np.linalg.solve(law[np.ix_(places, places)], law[places, -1])
        left = 1 - law[-1, places] @ weights
        u = (start + said[np.ix_(of, places)] @ weights) / np.sqrt(left)
        action = programme.policy.actions[seen, gone][nearest(u), place]
        last = of[action == TERMINAL]
        assert not len(last) or not needed & ~seen
        bought[last, -1] += 1
        hits[last] = answers[last, -1] & (said[last, -1] > 0)
        for j in range(m):
            mine = of[action == j]
            bought[mine, j] += 1
            if len(told := mine[answers[mine, j] | (gone > 0)]):  # after one failure there is no other
                waiting[seen | 1 << j, gone] = np.append(waiting.get((seen | 1 << j, gone), np.array([], int)), told)
            if len(silent := mine[~answers[mine, j] & (gone == 0)]):
                waiting[seen, 1 << j] = silent
    return Played(hits, bought)


THREE = np.array([[1.0, 0.4, 0.5, 0.5], [0.4, 1.0, 0.6, 0.7], [0.5, 0.6, 1.0, 0.9], [0.5, 0.7, 0.9, 1.0]])


@pytest.mark.parametrize("fails", [[0.0] * 4, [0.1, 0.3, 0.2, 0.15]])
@pytest.mark.parametrize(("start", "place"), [(-2.0, 36), (-1.5, 42), (-0.5, 48), (0.7, 54)])
def test_value_spend_and_purchases_are_those_of_candidates_that_follow_the_programme(
    fails: list[float], start: float, place: int
) -> None:
    costs = [0.01, 0.05, 0.2]
    programme = solve(THREE, costs, fails)
    played = play(programme, THREE, fails, start, place)
    assert played.bought[:, :-1].sum() > 0
    played.check(programme, start, place, np.array(costs))


@pytest.mark.parametrize("needed", [0b001, 0b100, 0b011])
def test_a_needed_rung_is_bought_before_the_terminal_one_and_its_price_is_in_the_value(needed: int) -> None:
    """Even where it tells nothing of the terminal answer."""
    law = THREE.copy()
    law[0, 1:] = law[1:, 0] = 0.0
    costs, fails, start, place = [0.1, 0.05, 0.2], [0.1, 0.05, 0.2, 0.1], -0.3, 46
    programme = solve_left(variances_left(law, [[0], [1], [2]]), costs, fails, needed)
    played = play(programme, law, fails, start, place, needed=needed)
    assert played.bought[:, -1].sum() > 0
    played.check(programme, start, place, np.array(costs))
    assert programme.worth(np.array([start]), float(PRICES[place])) < solve(law, costs, fails).worth(
        np.array([start]), float(PRICES[place])
    )


def test_with_a_needed_rung_nothing_but_rungs_is_bought_first_whatever_the_price() -> None:
    left = variances_left(TWO, [[0], [1]])
    programme = solve_left(left, [0.3, 0.1], [0.1, 0.1, 0.1], needed=0b10)
    u = np.linspace(-8, 8, 50)
    assert (programme.at_index(u) >= 0).all()
    assert not any((programme.action(u, price) == TERMINAL).any() for price in (0.0, 0.01, 0.5, 0.99))


def test_a_needed_rung_that_always_fails_leaves_nothing_to_gain() -> None:
    programme = solve_left(variances_left(TWO, [[0], [1]]), [0.1, 0.1], [0.0, 1.0, 0.0], needed=0b10)
    assert programme.value.max() == 0
    assert programme.index(np.array([3.0]))[0] < 1e-6


@pytest.mark.parametrize("fails", [None, [0.1, 0.05, 0.2, 0.1]])
def test_purchases_at_their_costs_are_the_spend(fails: list[float] | None) -> None:
    costs = np.array([0.01, 0.05, 0.2])
    programme = solve(THREE, costs.tolist(), fails)
    for place in (0, 30, 45, 60):
        bought = programme.purchases(U, float(PRICES[place]))
        assert bought @ np.append(costs, 1.0) == pytest.approx(programme.spend[:, place], abs=1e-9)
        assert (bought[:, -1] <= 1 + 1e-9).all()
        assert (bought.sum(1) > 0).tolist() == (programme.best[:, place] != STOP).tolist()


def test_each_candidate_may_have_its_own_price() -> None:
    programme = solve(TWO, [0.02, 0.2], [0.1, 0.1, 0.1])
    u, prices = np.repeat(STARTS, 3), np.tile([0.001, 0.05, 0.5], len(STARTS))
    for name in ("action", "worth", "purchases"):
        whole = getattr(programme, name)(u, prices)
        alone = np.array([getattr(programme, name)(u[i : i + 1], float(prices[i]))[0] for i in range(len(u))])
        assert whole == pytest.approx(alone)


# At other costs


@pytest.mark.parametrize(("factors", "least"), [((1.3, 0.8), 0.97), ((0.6, 1.5), 0.9)])
def test_a_plan_at_other_costs_is_worth_almost_what_a_plan_of_their_own_is_and_no_more(
    factors: tuple[float, float], least: float
) -> None:
    """Above by no more than the grids make of it: 1 % of the index. The value within 5 % of the best one there is,
    beside a tenth of the price."""
    costs = np.array([0.02, 0.2])
    u, own = np.linspace(-3, 1.5, 40), costs * factors
    plan, best = solve(TWO, costs.tolist(), [0.1] * 3), solve(TWO, own.tolist(), [0.1] * 3)
    dearer = plan.cost_factors(u, np.tile(own, (len(u), 1)))
    ratio = plan.index(u) / dearer / best.index(u)
    assert least < ratio.min() <= ratio.max() < 1.01
    price = float(PRICES[40])
    assert plan.worth(u, price * dearer) == pytest.approx(best.worth(u, price), rel=0.05, abs=0.1 * price)


def test_a_plan_at_its_own_costs_is_what_it_is() -> None:
    assert solve(TWO, [0.02, 0.2]).cost_factors(STARTS, np.tile([0.02, 0.2], (len(STARTS), 1))) == pytest.approx(1.0)


def test_a_rung_dearer_than_the_terminal_one_is_never_bought_and_changes_nothing() -> None:
    without, programme = solve(one(0.8), [0.05]), solve(TWO[[1, 0, 2]][:, [1, 0, 2]], [0.05, NEVER])
    assert programme.value == pytest.approx(without.value, abs=1e-12)
    almost = solve(TWO[[1, 0, 2]][:, [1, 0, 2]], [0.05, 0.99 * NEVER])
    assert not (almost.best == 1)[:, PRICES > 1e-4].any(), "what is not weighed at all would not have been bought"


# Order


@pytest.mark.parametrize(("law", "costs"), [(np.eye(1), []), (one(0.8), [0.05]), (TWO, [0.02, 0.2])])
def test_uncertainty_alone_can_promote(law: Array, costs: list[float]) -> None:
    """Of two candidates whose mean is equally far below the threshold the less certain one comes first."""
    mean, narrow, wide = -1.0, 0.5, 1.5
    low, high = solve(law, costs).index(np.array([mean / narrow, mean / wide]))
    assert high > 2 * low


@pytest.mark.parametrize(("law", "costs"), [(np.eye(1), []), (one(0.8), [0.05]), (TWO, [0.02, 0.2])])
def test_the_index_rises_with_the_mean(law: Array, costs: list[float]) -> None:
    assert (np.diff(solve(law, costs).index(np.linspace(-4, 3, 200))) > 0).all()


def test_a_rung_to_buy_never_lowers_the_index() -> None:
    u = np.linspace(-4, 3, 200)
    without, one_rung, two = (
        solve(law, costs).index(u) for law, costs in ((np.eye(1), []), (one(0.8), [0.2]), (TWO, [0.02, 0.2]))
    )
    assert (one_rung >= without * (1 - 1e-9)).all()
    assert (two >= one_rung * (1 - 1e-3)).all()


@pytest.mark.parametrize(("law", "costs"), [(np.eye(1), []), (one(0.8), [0.05]), (TWO, [0.02, 0.2])])
def test_value_and_spend_fall_as_the_price_rises(law: Array, costs: list[float]) -> None:
    programme = solve(law, costs)
    assert np.diff(programme.value, axis=1).max() <= 1e-12
    assert np.diff(programme.spend, axis=1).max() <= 1e-9


def test_what_a_dearer_price_takes_away_is_what_is_spent() -> None:
    """The envelope theorem: V is the hits found less price x spend, so it falls by the spend between both ends'."""
    programme = solve(TWO, [0.02, 0.2])
    lost = -np.diff(programme.value, axis=1) / np.diff(PRICES)
    assert (lost <= programme.spend[:, :-1] + 1e-6).all()
    assert (lost >= programme.spend[:, 1:] - 1e-6).all()


# The price of a budget


def test_a_budget_is_met_on_average_by_those_who_play_the_programme() -> None:
    rng = np.random.default_rng(0)
    cost, correlation, place = 0.05, 0.8, 42
    first, last = solve(one(correlation), [cost]), solve(np.eye(1), [])
    u = np.round(rng.normal(-1.5, 0.7, 20_000) / 0.05) * 0.05
    left = float(first.to_go(u, np.full(len(u), 3.0))[place])
    price = solve_price(first.to_go(u, np.full(len(u), 3.0)), left)
    assert price == pytest.approx(PRICES[place], rel=1e-6)
    bought = first.action(u, price)
    told = (u + correlation * rng.standard_normal(len(u))) / np.sqrt(1 - correlation**2)
    verified = (bought == TERMINAL) | ((bought == 0) & (last.action(told, price) == TERMINAL))
    assert (bought == 0).any()
    assert 3.0 * (verified.sum() + cost * (bought == 0).sum()) == pytest.approx(left, rel=0.03)


def test_a_price_between_two_of_the_grid_lies_where_the_cost_to_go_meets_what_is_left() -> None:
    to_go = solve(one(0.8), [0.05]).to_go(np.linspace(-3, 1, 300), np.ones(300))
    prices = [solve_price(to_go, share * float(to_go[0])) for share in (0.9, 0.5, 0.1)]
    assert all(low < high for low, high in pairwise(prices))
    for share, price in zip((0.9, 0.5, 0.1), prices, strict=True):
        assert np.interp(np.log(price), np.log(PRICES), to_go) == pytest.approx(share * to_go[0], rel=1e-6)


def test_where_all_can_be_afforded_nothing_has_a_price() -> None:
    to_go = solve(one(0.8), [0.05]).to_go(np.linspace(-3, 1, 300), np.ones(300))
    assert solve_price(to_go, float(to_go[0])) == 0.0


def test_without_a_budget_the_price_is_the_highest() -> None:
    to_go = solve(np.eye(1), []).to_go(np.linspace(-3, 1, 300), np.ones(300))
    assert solve_price(to_go, 0.0) >= PRICES[-2]


# One move


@pytest.mark.parametrize("ratio", [1.001, 1.05, 1.4, 2.2])
def test_a_move_is_a_law_of_the_right_mean_and_variance(ratio: float) -> None:
    move = _move(ratio)
    assert move.sum(1) == pytest.approx(1.0, abs=1e-9)
    assert move.min() > -1e-9
    sd = np.sqrt(ratio**2 - 1)
    inside = np.abs(ratio * U) + 5 * sd < U[-1]
    if ratio == 2.2:  # too wide to lie inside: at 0 only what is beyond ±3 standard deviations is cut
        assert move[len(U) // 2] @ U == pytest.approx(0.0, abs=1e-9)
        assert move[len(U) // 2] @ U**2 == pytest.approx(sd**2, rel=0.03)
        return
    mean = move @ U
    assert mean[inside] == pytest.approx(ratio * U[inside], abs=1e-4)
    # between its points a function is linear, which widens a law by at most a quarter of their distance squared
    step = U[1] - U[0]
    wider = (move @ U**2 - mean**2)[inside] - sd**2
    assert wider.min() > -1e-3 * sd**2
    assert wider.max() < step**2 / 4 + 1e-6


def test_the_probability_of_a_hit_is_the_mean_of_what_it_will_be() -> None:
    """No rung can be expected to raise or lower the probability of a hit: Φ is a martingale."""
    middle = np.abs(U) < 3
    for ratio in (1.05, 1.4, 3.0):
        assert (_move(ratio) @ ndtr(U))[middle] == pytest.approx(ndtr(U)[middle], abs=2e-4)
