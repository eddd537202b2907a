"""Nine in ten answers lie in the interval that was foretold for them, whatever tails the errors have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sciagent.scheduling.law.answer_transforms import TruthTransform
from sciagent.scheduling.law.prediction_interval_width import BEND, NORMAL, PredictionInterval, Reach
from sciagent.scheduling.law.stacked_laws_with_and_without_structure import Law, Question, Stack, foretell

Array = NDArray[np.float64]

ANSWERS, OTHERS, SEEDS = 600, 3000, range(8)


def ladder(errors: Array, seed: int) -> Array:
    """(n, 2) scores: the terminal one is the lower one and an error of half its spread."""
    lower = np.random.default_rng(seed).standard_normal(len(errors))
    return np.column_stack([lower, lower + 0.5 * errors])


def learnt(whole: Array, truth: TruthTransform, answers: int = ANSWERS) -> list[Law]:
    scores = whole.copy()
    scores[answers:, -1] = np.nan
    return Stack(None).fit([Question(scores, truth)], answers)


def gross(seed: int) -> Array:
    """One error in twenty is five times as large: Tukey's contaminated normal."""
    rng = np.random.default_rng(100 + seed)
    n = ANSWERS + OTHERS
    return rng.standard_normal(n) * np.where(rng.random(n) < 0.05, 5.0, 1.0)


def student(seed: int) -> Array:
    """Tails so heavy that the spread of a few hundred says little of their variance, which is 1."""
    return np.random.default_rng(100 + seed).standard_t(3, ANSWERS + OTHERS) / np.sqrt(3)


def normal(seed: int) -> Array:
    return np.random.default_rng(100 + seed).standard_normal(ANSWERS + OTHERS)


def within(told: PredictionInterval, answers: Array) -> NDArray[np.bool_]:
    return (told.low <= answers) & (answers <= told.high)


def covered(errors: Array, seed: int) -> tuple[float, float]:
    """Share of the truths in their intervals; and in those of a normal with the same variance."""
    whole, truth = ladder(errors, seed), TruthTransform(0.0, 1.0)
    laws, left = learnt(whole, truth), np.arange(ANSWERS, len(whole))
    told, answers = foretell(laws, 0, left), truth(whole[left, -1])
    wider = NORMAL / laws[0].chains[0].reach(told.mean)
    plain = replace(
        told, low=told.mean + wider * (told.low - told.mean), high=told.mean + wider * (told.high - told.mean)
    )
    return float(within(told, answers).mean()), float(within(plain, answers).mean())


def test_where_some_errors_are_gross_nine_in_ten_lie_inside() -> None:
    ours, plain = np.mean([covered(gross(seed), seed) for seed in SEEDS], axis=0)
    assert plain > 0.93, "the variance has the gross errors in it, so a normal's interval is too wide"
    assert 0.87 < ours < 0.93


def test_under_student_tails_nine_in_ten_lie_inside() -> None:
    ours, plain = np.mean([covered(student(seed), seed) for seed in SEEDS], axis=0)
    assert abs(ours - 0.9) < abs(plain - 0.9)
    assert 0.87 < ours < 0.93


def test_of_normal_errors_nine_in_ten_lie_inside() -> None:
    ours, _ = np.mean([covered(normal(seed), seed) for seed in SEEDS], axis=0)
    assert 0.86 < ours < 0.94


def size(away: Array) -> float:
    return Reach.of(np.zeros(len(away)), away).size


def test_few_errors_tell_little_and_many_tell_all() -> None:
    away = np.linspace(0, 1, 100_000)
    assert size(away) == pytest.approx(0.9, abs=1e-3)
    assert size(np.zeros(30)) == pytest.approx(NORMAL / 2)
    assert size(np.zeros(1)) > 0.95 * NORMAL


def test_beyond_what_was_learned_it_reaches_no_less_far_than_a_normal() -> None:
    narrow, wide = (Reach.of(np.linspace(-1, 1, 101), np.full(101, x)) for x in (0.5, 3.0))
    assert (narrow.low, narrow.high) == pytest.approx((-0.8, 0.8))
    assert narrow(np.array([-3.0, 0.0, 3.0])) == pytest.approx([NORMAL, narrow.size, NORMAL])
    assert wide(np.array([-3.0, 0.0, 3.0])) == pytest.approx([wide.size] * 3)


def test_the_slope_is_doubted_outside_of_what_was_verified_and_only_there() -> None:
    whole = ladder(student(0), 0)
    [law], of = learnt(whole, TruthTransform(0.0, 1.0)), np.arange(ANSWERS, ANSWERS + 50)
    told, [(_, forecast)] = foretell([law], 0, of), list(law.chains[0].forecast(of))
    reach = law.chains[0].reach
    outside = np.maximum(np.maximum(reach.low - told.mean, told.mean - reach.high), 0)
    assert told.mean == pytest.approx(forecast.mean)
    assert ((told.high - told.mean) / reach(told.mean)) ** 2 == pytest.approx(forecast.variance + (BEND * outside) ** 2)
    assert 0 < np.count_nonzero(outside) < len(of)


@pytest.mark.parametrize("sign", [1, -1])
def test_in_the_rungs_own_unit_low_lies_below_high(sign: int) -> None:
    truth = TruthTransform(5.0, 2.0, sign)
    told = PredictionInterval(np.array([1.0]), np.array([-0.5]), np.array([2.5])).in_unit(truth)
    assert (told.low[0], told.mean[0], told.high[0]) == ((4.0, 7.0, 10.0) if sign > 0 else (0.0, 3.0, 6.0))


def test_whichever_way_hits_lie_the_interval_is_the_same_in_the_rungs_own_unit() -> None:
    whole, of = ladder(normal(0), 0), np.arange(ANSWERS, ANSWERS + 50)
    found = []
    for sign in (1, -1):
        truth = TruthTransform(0.0, 1.0, sign)
        found.append(foretell(learnt(whole, truth), 0, of).in_unit(truth))
    above, below = found
    assert below.low == pytest.approx(above.low, abs=1e-3) and below.high == pytest.approx(above.high, abs=1e-3)
