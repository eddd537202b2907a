"""Tests that are looked at after every step keep their rate of false alarms, and find what they are for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from sciagent.rewards.guard_statistics import SequentialTest, upper_bound

LEVEL, STEPS, RUNS = 0.05, 100, 200


def first_alarm(means: np.ndarray, limit: float, n: int, rng: np.random.Generator) -> int | None:
    """The number of the step with the first alarm. means: of the values 1 and -1 in each step."""
    test = SequentialTest()
    for number, mean in enumerate(means, start=1):
        test.add(rng.choice([-1.0, 1.0], n, p=[(1 - mean) / 2, (1 + mean) / 2]), limit, -1.0)
        if test.rejects(LEVEL):
            return number
    return None


def test_the_rate_of_false_alarms_holds_over_all_steps() -> None:
    rng = np.random.default_rng(1)
    alarms = sum(first_alarm(np.full(STEPS, 0.1), 0.1, 4, rng) is not None for _ in range(RUNS))
    assert alarms <= binom.ppf(0.999, RUNS, LEVEL)


def test_a_t_test_at_every_step_would_not_keep_it() -> None:
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(RUNS):
        values = rng.normal(size=4 * STEPS)
        ends = np.arange(4, 4 * STEPS + 1, 4)
        z = np.cumsum(values)[ends - 1] / np.sqrt(ends)
        alarms += bool((z > 1.645).any())
    assert alarms > binom.ppf(0.999, RUNS, LEVEL)


@pytest.mark.parametrize("before", [0, 60])
def test_a_change_is_found_soon_whenever_it_comes(before: int) -> None:
    means = np.r_[np.zeros(before), np.full(20, 0.8)]
    found = [first_alarm(means, 0.2, 16, np.random.default_rng(seed)) for seed in range(20)]
    assert all(number is not None and before < number <= before + 8 for number in found)


def test_without_values_there_is_no_wealth_and_no_bound() -> None:
    assert SequentialTest().log_wealth == 0
    assert upper_bound([], LEVEL, -1, 1) == 1


def test_the_first_wealth_is_one_whatever_the_number_of_steps() -> None:
    test = SequentialTest()
    for _ in range(5):
        test.add([], 0.0, -1.0)
    assert test.log_wealth == pytest.approx(0.0)


def test_the_bound_lies_above_the_mean_and_closes_in() -> None:
    rng, missed = np.random.default_rng(2), 0
    for _ in range(RUNS):
        values = rng.choice([-1.0, 0.0, 1.0], 64, p=[0.1, 0.6, 0.3])
        missed += any(upper_bound(list(values[:n]), LEVEL, -1, 1) < 0.2 for n in (8, 16, 32, 64))
    assert missed <= binom.ppf(0.999, RUNS, LEVEL)
    widths = [upper_bound([0.0] * n, LEVEL, -1, 1) for n in (4, 16, 64, 256)]
    assert widths == sorted(widths, reverse=True) and widths[-1] < 0.05
