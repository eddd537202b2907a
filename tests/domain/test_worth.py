"""The worth of a candidate: its order, and the numbers against independent ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from sciagent.domain.objectives import UTILITY_FLOOR, Direction, Objective, Window, utility
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.worth import (
    NOTHING,
    UNKNOWN_DESIRABILITY,
    Basis,
    Belief,
    KnownError,
    LimitedValue,
    LineToDecidingRung,
    Worth,
    answered,
    estimated,
    p_limits,
    percent_of,
    worth_of,
)
from sciagent.scheduling.aims_and_payoff import Aim, Aims, Graded, Hits, utility_payoff
from sciagent.scheduling.law.answer_transforms import TruthTransform

GAP = Objective("gap", Direction.WINDOW, Window(2.0, 3.0), scale=0.5)
DIPOLE = Objective("dipole", Direction.LIMIT, Window(None, 4.0), scale=1.0, weight=3.0)
YIELD = Objective("yield", Direction.MAXIMISE, ramp=(0.0, 100.0))
VALUES = st.floats(-50, 50)


def of(objectives: Sequence[Objective], *beliefs: Belief, hit: bool | None = None, is_over: bool = False) -> Worth:
    return worth_of(objectives, beliefs, hit, is_over)


def eV(value: float, **more: object) -> Quantity:
    return Quantity(value, "eV", **more)  # type: ignore[arg-type]


@given(VALUES, VALUES, VALUES, VALUES)
def test_hits_come_first_then_what_may_be_one_then_known_misses(a: float, b: float, c: float, d: float) -> None:
    both = (GAP, DIPOLE)
    hit = of(both, answered(GAP, eV(2 + a / 100 + 0.5)), answered(DIPOLE, eV(3 + b / 100)), hit=True)
    still_open = of(both, estimated(GAP, eV(c), None), NOTHING)
    miss = of(both, estimated(GAP, eV(2.5), None), answered(DIPOLE, eV(4.5 + abs(d))))
    assert hit.order > still_open.order > miss.order
    assert (hit.p_hit, still_open.p_hit, miss.p_hit) == (1.0, None, 0.0)


@given(VALUES, st.floats(0.01, 10))
def test_the_chance_is_that_of_a_normal(mean: float, sd: float) -> None:
    worth = of((GAP,), Belief(Basis.LINE, mean, sd))
    expected = float(norm.cdf(3.0, mean, sd) - norm.cdf(2.0, mean, sd))
    assert worth.p_hit == pytest.approx(expected, abs=1e-9)
    assert worth.chance == (0 if worth.p_hit == 0 else min(99, max(1, math.floor(100 * worth.p_hit + 0.5))))


@given(st.floats(0, 6), st.floats(0.05, 2), st.floats(0, 8), st.floats(0.05, 2))
def test_chance_and_expected_utility_are_those_of_the_schedulers_payoffs(
    gap: float, gap_sd: float, dipole: float, dipole_sd: float
) -> None:
    worth = of((GAP, DIPOLE), Belief(Basis.LAW, gap, gap_sd), Belief(Basis.LAW, dipole, dipole_sd))
    means = np.array([[gap], [dipole]])
    variances = np.array([[gap_sd**2], [dipole_sd**2]])
    plain = TruthTransform(0.0, 1.0, 1, 2.0, 3.0), TruthTransform(0.0, 1.0, 1, -math.inf, 4.0)
    assert worth.p_hit == pytest.approx(float(Hits(plain).expected(means, variances)[0]), abs=1e-6)
    desirabilities = [np.vectorize(o.desirability) for o in (GAP, DIPOLE)]
    payoff = utility_payoff(desirabilities, [GAP.weight, DIPOLE.weight], 0.0)
    graded = float(Graded(payoff, q=2).expected(means, variances)[0])
    assert worth.expected_utility == pytest.approx(graded, abs=0.02)
    aims = Aims(
        (
            Aim((0,), 2.0, 3.0, desirabilities[0], weight=GAP.weight),
            Aim((1,), -math.inf, 4.0, desirabilities[1], weight=DIPOLE.weight),
        )
    )
    of_law = float(aims.expected_utility(plain, means, variances)[0])
    assert worth.expected_utility == pytest.approx(of_law, abs=1e-6)


@given(st.floats(0, 6), st.floats(0, 8))
def test_once_all_is_answered_the_expected_utility_is_the_utility(gap: float, dipole: float) -> None:
    worth = of((GAP, DIPOLE), answered(GAP, eV(gap)), answered(DIPOLE, eV(dipole)))
    assert worth.expected_utility == pytest.approx(utility((GAP, DIPOLE), {"gap": gap, "dipole": dipole}), abs=1e-6)
    assert worth.basis is Basis.ANSWERED


def test_of_two_far_outside_the_nearer_comes_first_and_of_two_inside_the_clearer() -> None:
    far, farther = (of((GAP,), answered(GAP, eV(value))) for value in (20.0, 1e6))
    assert far.expected_utility == farther.expected_utility == UTILITY_FLOOR and far.order > farther.order
    edge, middle = (of((GAP,), answered(GAP, eV(value)), hit=True) for value in (2.05, 2.5))
    assert edge.expected_utility == middle.expected_utility == 1 and middle.order > edge.order


def test_without_limits_the_expected_utility_orders() -> None:
    low, high = (of((YIELD,), answered(YIELD, Quantity(value, "1"))) for value in (20.0, 70.0))
    assert (low.p_hit, low.chance, high.chance) == (None, 0, 0) and high.order > low.order
    assert str(high) == "expected utility 0.70"


def test_a_line_leads_to_the_deciding_rung_with_both_uncertainties() -> None:
    belief = estimated(GAP, eV(3.0, uncertainty=0.4), LineToDecidingRung(0.5, 1.0, 0.3))
    assert (belief.basis, belief.mean, belief.sd) == (Basis.LINE, 2.5, pytest.approx(math.hypot(0.3, 0.2)))
    assert estimated(GAP, eV(3.0), None).sd == pytest.approx(2 * GAP.scale)


def test_what_is_not_decided_is_no_miss() -> None:
    hopeless = of((GAP,), estimated(GAP, eV(500.0), LineToDecidingRung(1.0, 0.0, 0.1)))
    assert hopeless.p_hit is not None and 0 < hopeless.p_hit < 1e-9 and hopeless.chance == 1
    edge = answered(GAP, eV(2.5, censoring=Censoring.BELOW))
    assert edge.is_met is None and of((GAP,), edge).p_hit is None and of((GAP,), edge).chance == 1
    crashed = of((GAP, DIPOLE), estimated(GAP, eV(2.5), None), NOTHING, is_over=True)
    assert (crashed.p_hit, crashed.chance, crashed.basis) == (None, 1, Basis.NONE)
    share = UNKNOWN_DESIRABILITY ** (3 / 4)
    assert 0 < crashed.expected_utility < share
    missed = of((GAP, DIPOLE), estimated(GAP, eV(2.5), None), answered(DIPOLE, eV(9.0)), is_over=True)
    assert missed.p_hit == 0


@given(VALUES, st.floats(-5, 5), st.floats(0, 5), st.one_of(st.none(), st.floats(0, 5)), st.integers(2, 600))
def test_p_limits_is_a_probability_and_that_of_a_normal(
    value: float, bias: float, spread: float, u: float | None, n: int
) -> None:
    p = LimitedValue(value, u, KnownError(bias, spread, n), 2.0, 3.0).p_inside
    sd = math.sqrt((u or 0.0) ** 2 + spread**2 * (1 + 1 / n))
    assert p is not None and 0 <= p <= 1
    if sd > 1e-6:
        assert p == pytest.approx(norm.cdf(3.0, value - bias, sd) - norm.cdf(2.0, value - bias, sd), abs=1e-9)


@given(VALUES, VALUES)
def test_without_errors_p_limits_is_the_known_hit(gap: float, dipole: float) -> None:
    is_hit = 2.0 <= gap <= 3.0 and dipole <= 4.0
    is_at_a_limit = min(abs(gap - 2), abs(gap - 3), abs(dipole - 4)) < 1e-6
    for spread in (0.0, 1e-9):
        error = KnownError(0.0, spread, 30)
        p = p_limits([
            LimitedValue(gap, spread, error, 2.0, 3.0).p_inside,
            LimitedValue(dipole, 0.0, error, None, 4.0).p_inside,
        ])  # fmt: skip
        assert p == float(is_hit) or is_at_a_limit
    assert LimitedValue(gap, 0.0, None, 2.0, 3.0).p_inside == float(2.0 <= gap <= 3.0), "an exact value"


def test_one_unknown_error_leaves_p_limits_unknown() -> None:
    assert LimitedValue(2.5, 0.05, None, 2.0, 3.0).p_inside is None
    assert LimitedValue(2.5, None, None, 2.0, 3.0).p_inside is None
    assert p_limits([0.9, None]) is None and p_limits([]) is None and p_limits([0.9, 0.5]) == pytest.approx(0.45)


def test_figures_become_the_normal_that_has_them() -> None:
    errors = np.random.default_rng(3).normal(0.4, 0.9, 200_000)
    known = KnownError.of(errors.mean(), np.abs(errors).mean(), math.sqrt(np.mean(errors**2)), 30)
    assert (known.bias, known.spread) == (pytest.approx(0.4, abs=0.01), pytest.approx(0.9, abs=0.01))
    assert known.mean_absolute == pytest.approx(np.abs(errors).mean(), rel=0.01)
    unbiased = np.random.default_rng(4).normal(0, 0.9, 200_000)
    without_square = KnownError.of(0.0, np.abs(unbiased).mean(), None, 30)
    assert without_square.spread == pytest.approx(0.9, abs=0.01)
    assert KnownError.of(0.5, 0.5, 0.4999, 30).spread == 0, "rounded figures"


def test_the_pooled_spread_is_the_scale_of_the_posterior_of_a_variance() -> None:
    """On a grid of variances: a scaled inverse chi-squared prior times the likelihood of own errors around their bias,
    with the sum of squares n * s**2."""
    own = KnownError(0.2, 0.5, 12)
    benchmark = KnownError(-0.2, 1.6, 516)
    pooled = own.pooled_with(benchmark)
    variance = np.linspace(0.05, 60, 400_000)
    prior = -(10 / 2 + 1) * np.log(variance) - 10 * 1.6**2 / (2 * variance)
    likelihood = -12 / 2 * np.log(variance) - 12 * 0.5**2 / (2 * variance)
    weights = np.exp(prior + likelihood - (prior + likelihood).max())
    mean = np.average(variance, weights=weights)
    assert pooled.spread**2 * 22 / (22 - 2) == pytest.approx(mean, rel=1e-3), "mean of scaled inverse chi-squared"
    assert (pooled.bias, pooled.n) == (0.2, 12)
    assert own.pooled_with(KnownError(0.0, 1.6, 3)).spread < pooled.spread, "a small benchmark counts less"


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0, "0 %"), (5e-5, "< 1 %"), (0.2608, "26 %"), (0.814, "81 %"), (0.9986, "> 99 %"), (1.0, "100 %")],
)
def test_a_percentage_is_rounded_to_the_nearest_and_is_certain_only_if_it_is(p: float, text: str) -> None:
    assert percent_of(p) == text
