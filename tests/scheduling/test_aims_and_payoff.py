"""What a campaign wants becomes truths, a payoff and a record to beat."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from sciagent.scheduling.aims_and_payoff import Aim, Aims

Array = NDArray[np.float64]

SCORES = np.array([[0.1, 2.0, 1.0], [0.2, 3.0, 5.0], [0.3, np.nan, 9.0], [0.4, 8.0, np.nan], [0.5, 6.0, 2.0]])


def rising(value: Array) -> Array:
    clipped: Array = np.clip(value / 10, 0.0, 1.0)
    return clipped


def falling(value: Array) -> Array:
    return 1 - rising(value)


@pytest.mark.parametrize(("sign", "hits"), [(1, [False, False, True, True]), (-1, [True, True, False, False])])
def test_one_aim_is_a_ladder_with_a_threshold(sign: int, hits: list[bool]) -> None:
    aims = Aims.with_threshold(3, 4.0, sign)
    assert aims.aims[0].columns == (0, 1, 2)
    (truth,) = aims.truths(SCORES)
    assert truth.is_one_sided
    assert (truth(np.array([1.0, 3.9, 4.1, 8.0])) > 0).tolist() == hits
    values = np.array([[1.0, 3.9, 4.1, 8.0]])
    payoff = aims.payoff((truth,), SCORES).expected(truth(values), np.full((1, 4), 1e-9))
    assert (payoff > 0.5).tolist() == hits


def test_each_aim_has_its_own_truth_from_its_own_last_column() -> None:
    aims = Aims((Aim((0, 1), 2.5, math.inf), Aim((0, 2), -math.inf, 6.0), Aim((1,), 1.0, 4.0)))
    above, below, between = aims.truths(SCORES)
    assert (above.centre, above.sign, above.is_one_sided) == (2.5, 1, True)
    assert (below.centre, below.sign, below.is_one_sided) == (6.0, -1, True)
    assert (between.centre, between.is_one_sided) == (2.5, False)
    assert between.inverse(np.array([between.low, between.high])) == pytest.approx([1.0, 4.0])


def test_limits_do_not_matter_where_payoffs_are_graded() -> None:
    aims = Aims((Aim((0, 1), 2.5, math.inf, rising),), "graded")
    (truth,) = aims.truths(SCORES)
    assert (truth.low, truth.high) == (-math.inf, math.inf)
    values = np.array([[0.0, 2.0, 7.0, 20.0]])
    payoff = aims.payoff((truth,), SCORES).expected(truth(values), np.full((1, 4), 1e-9))
    assert payoff == pytest.approx([1e-3, 0.2, 0.7, 1.0], abs=1e-3)


def test_an_aim_without_a_desirability_leaves_the_utility_to_the_others() -> None:
    both = Aims((Aim((1,), desirability=rising), Aim((2,))), "graded")
    truths = both.truths(SCORES)
    means = np.array([truths[0](np.array([4.0])), truths[1](np.array([5.0]))])
    assert both.payoff(truths, SCORES).expected(means, np.full((2, 1), 1e-9))[0] == pytest.approx(0.4**0.5, abs=1e-3)


def test_weights_shift_a_utility() -> None:
    def payoff(weight: float) -> float:
        aims = Aims((Aim((1,), desirability=rising), Aim((2,), desirability=falling, weight=weight)), "graded")
        truths = aims.truths(SCORES)
        means = np.array([truths[0](np.array([4.0])), truths[1](np.array([1.0]))])
        return float(aims.payoff(truths, SCORES).expected(means, np.full((2, 1), 1e-9))[0])

    assert payoff(1.0) == pytest.approx(math.sqrt(0.4 * 0.9), abs=1e-3)
    assert payoff(3.0) == pytest.approx(0.4**0.25 * 0.9**0.75, abs=1e-3)


# The record


def best(count: int) -> Aims:
    return Aims((Aim((0, 1), desirability=rising), Aim((0, 2), desirability=falling)), "best", count)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_record_is_the_utility_of_the_count_th_best_of_those_fully_known(count: int) -> None:
    utilities = sorted(math.sqrt(a / 10 * (1 - b / 10)) for a, b in [(2.0, 1.0), (3.0, 5.0), (6.0, 2.0)])
    assert best(count)._record(SCORES) == pytest.approx(utilities[-count])


def test_below_so_many_there_is_no_record() -> None:
    assert best(4)._record(SCORES) == 0.0
    assert best(1)._record(np.full((3, 3), np.nan)) == 0.0


def test_all_values_are_missed_only_if_none_is_above_the_floor() -> None:
    steep = Aims((Aim((0,), desirability=lambda v: np.clip(v, 0, 1)),), "best")
    assert steep.misses_all(np.array([[-3.0], [-7.0], [np.nan]]))
    assert not steep.misses_all(np.array([[-3.0], [0.5]])) and not steep.misses_all(np.array([[np.nan]]))


def test_what_does_not_beat_the_record_is_worth_nothing() -> None:
    aims = best(1)
    truths = aims.truths(SCORES)
    record = aims._record(SCORES)
    values = np.array([[6.0, 5.0, 9.0], [2.0, 2.0, 0.0]])
    means = np.array([truth(v) for truth, v in zip(truths, values, strict=True)])
    payoff = aims.payoff(truths, SCORES).expected(means, np.full((2, 3), 1e-12))
    assert payoff == pytest.approx([0.0, 0.0, (math.sqrt(0.9) - record) / (1 - record)], abs=1e-4)


def test_a_better_find_raises_the_record_and_lowers_what_the_others_promise() -> None:
    aims, more = best(1), SCORES.copy()
    more[3, 2] = 1.0
    truths = aims.truths(SCORES)
    means, variances = np.zeros((2, 1)), np.ones((2, 1))
    before, after = (float(aims.payoff(truths, s).expected(means, variances)[0]) for s in (SCORES, more))
    assert aims._record(more) > aims._record(SCORES)
    assert 0 < after < before


# Windows


@pytest.mark.parametrize("sd", [0.05, 0.5, 2.0])
def test_who_is_expected_inside_a_window_is_worth_more_than_who_is_on_either_side(sd: float) -> None:
    aims = Aims((Aim((0, 1), 2.0, 4.0),))
    truths = aims.truths(SCORES)
    means = truths[0](np.array([[0.0, 1.9, 3.0, 4.1, 6.0]]))
    found = aims.payoff(truths, SCORES).expected(means, np.full((1, 5), (sd / truths[0].scale) ** 2))
    assert found.argmax() == 2
    assert found[1] > found[0]
    assert found == pytest.approx(found[::-1])


def test_far_outside_a_window_doubt_is_worth_more_than_certainty() -> None:
    aims = Aims((Aim((0, 1), 2.0, 4.0),))
    truths = aims.truths(SCORES)
    means = np.repeat(truths[0](np.array([[6.0]])), 2, axis=1)
    narrow, wide = aims.payoff(truths, SCORES).expected(means, np.array([[0.1, 1.0]]))
    assert wide > 3 * narrow


@pytest.mark.parametrize(
    ("aim", "best"), [(Aim((0, 1), 2.5, math.inf, alike=((0, 1),)), 1), (Aim((0, 1), high=2.5, alike=((0, 1),)), -1)]
)
def test_a_property_at_another_level_promises_what_it_measures(aim: Aim, best: int) -> None:
    assert Aims((aim,)).promise(SCORES) == pytest.approx(best * SCORES[:, 0])


def test_a_gate_with_one_limit_promises_its_end() -> None:
    """The highest such column that has answers counts."""
    answered = SCORES.copy()
    answered[:, 1] = np.nan
    aims = Aims((Aim((0, 1, 2), 2.5, math.inf, passes=((0, -1), (1, 1))),))
    assert aims.promise(answered) == pytest.approx(-SCORES[:, 0])


@pytest.mark.parametrize(
    "aims",
    [
        Aims((Aim((0, 1), 2.5, math.inf),)),
        Aims((Aim((0, 1), 2.5, 4.0, alike=((0, 1),)),)),
        Aims((Aim((0, 1), 2.5, math.inf, alike=((0, 1),)), Aim((0, 2), 2.5, math.inf, alike=((0, 2),)))),
    ],
)
def test_nothing_is_promised_where_no_one_end_is_best(aims: Aims) -> None:
    assert aims.promise(SCORES) is None
