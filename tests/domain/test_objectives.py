"""Windows, desirability and utility."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sciagent.domain.objectives import UTILITY_FLOOR, Direction, Objective, Window, utility
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.quantities import Censoring, Quantity

GAP = Objective("gap", Direction.WINDOW, Window(2.0, 3.0), scale=0.5)
NONE, BELOW, ABOVE = Censoring
VALUES = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("value", "censoring", "low", "high", "says"),
    [
        (2.5, NONE, 2, 3, None),
        (2.0, NONE, 2, 3, None),
        (3.0, NONE, 2, 3, None),
        (1.9, NONE, 2, 3, Reason.BELOW_WINDOW),
        (3.1, NONE, 2, 3, Reason.ABOVE_WINDOW),
        (1e9, NONE, 2, None, None),
        (9.0, NONE, None, None, None),
        # "below 2.5" may be anything below: only an upper edge can be met for certain
        (2.5, BELOW, None, 3, None),
        (2.5, BELOW, 2, 3, Reason.NOT_MEASURED),
        (1.5, BELOW, 2, 3, Reason.BELOW_WINDOW),
        (3.5, BELOW, None, 3, Reason.NOT_MEASURED),
        (2.5, ABOVE, 2, None, None),
        (2.5, ABOVE, 2, 3, Reason.NOT_MEASURED),
        (3.5, ABOVE, 2, 3, Reason.ABOVE_WINDOW),
        (1.5, ABOVE, 2, None, Reason.NOT_MEASURED),
        (1.5, ABOVE, None, None, None),
    ],
)
def test_what_misses_a_window(
    value: float, censoring: Censoring, low: float | None, high: float | None, says: Reason | None
) -> None:
    assert Window(low, high).misses(Quantity(value, "eV", censoring=censoring)) is says


def test_desirability_of_a_window() -> None:
    assert [GAP.desirability(v) for v in (2.0, 2.7, 3.0)] == [1.0, 1.0, 1.0]
    assert GAP.desirability(3.5) == GAP.desirability(1.5) == pytest.approx(1 / math.e)
    assert GAP.desirability(4.0) == pytest.approx(math.exp(-2))


@pytest.mark.parametrize(
    ("objective", "nearest_first"),
    [
        (
            Objective("g", Direction.MINIMISE, ramp=(-500000.0, -510000.0)),
            [-43638.3, -43638.2, -43595.7, -43543.0, 1e9],
        ),
        (Objective("g", Direction.MAXIMISE, ramp=(2.0, 6.0)), [2.1, 1.9, 1.0, -5.0]),
        (GAP, [3.2, 9.0, 20.0, 1e5]),
    ],
)
def test_values_far_outside_are_ordered_by_their_margin(objective: Objective, nearest_first: list[float]) -> None:
    margins = [objective.margin(value) for value in nearest_first]
    assert all(0 > one > other for one, other in pairwise(margins))


@pytest.mark.parametrize(
    ("objective", "best_first"),
    [
        (GAP, [2.5, 2.7, 2.1, 3.0, 3.01]),
        (Objective("m", Direction.LIMIT, Window(0.9, None), scale=0.18), [0.998, 0.94, 0.9, 0.899]),
        (Objective("g", Direction.MINIMISE, ramp=(3.0, 1.0)), [-8.0, 0.5, 1.0, 1.001]),
    ],
)
def test_values_inside_are_ordered_by_their_distance_from_the_limit(
    objective: Objective, best_first: list[float]
) -> None:
    margins = [objective.margin(value) for value in best_first]
    assert all(one > other for one, other in pairwise(margins))
    assert [margin >= 0 for margin in margins] == [objective.desirability(value) == 1 for value in best_first]


def test_desirability_on_a_ramp() -> None:
    rising = Objective("x", Direction.MAXIMISE, ramp=(1.0, 3.0))
    falling = Objective("x", Direction.MINIMISE, ramp=(3.0, 1.0))
    assert [rising.desirability(v) for v in (0, 1, 2, 3, 9)] == [0, 0, 0.5, 1, 1]
    assert [falling.desirability(v) for v in (0, 1, 2, 3, 9)] == [1, 1, 0.5, 0, 0]


@given(VALUES, VALUES)
def test_desirability_lies_in_0_1_and_falls_with_the_distance(a: float, b: float) -> None:
    near, far = sorted((a, b), key=GAP.accept.distance)  # type: ignore[union-attr]
    assert 0.0 <= GAP.desirability(far) <= GAP.desirability(near) <= 1.0


def test_utility_is_the_weighted_geometric_mean() -> None:
    both = [GAP, Objective("mu", Direction.LIMIT, Window(None, 1.0), scale=1.0, weight=3.0)]
    assert utility(both, {"gap": 3.5, "mu": 2.0}) == pytest.approx(math.exp(-(1 * 1 + 3 * 1) / 4))
    assert utility(both, {"gap": 2.5, "mu": 0.5}) == pytest.approx(1.0)


def test_one_hopeless_property_leaves_a_floor_not_a_zero() -> None:
    assert utility([GAP], {"gap": 1e6}) == pytest.approx(UTILITY_FLOOR)
    other = Objective("mu", Direction.LIMIT, Window(None, 1.0))
    assert utility([GAP, other], {"gap": 1e6, "mu": 0.0}) == pytest.approx(math.sqrt(UTILITY_FLOOR))


def test_a_missing_property_is_not_a_zero() -> None:
    assert utility([GAP], {}) is None
    assert utility([], {}) is None
