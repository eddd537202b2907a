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
    LineToDecidingRung,
    Worth,
    answered,
    estimated,
    worth_of,
)
from sciagent.scheduling.aims_and_payoff import Graded, Hits, utility_payoff
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
    assert worth.chance == (0 if worth.p_hit == 0 else min(99, max(1, math.ceil(100 * worth.p_hit))))


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
