"""Intervals of the hierarchical bootstrap, against cases whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.training.evaluation import arm_figures


def ratio_interval(table: np.ndarray, drawn: arm_figures.Draws) -> tuple[float, float, float]:
    found = arm_figures.interval(arm_figures.ratios(table, np.ones_like(table), drawn))
    assert found is not None
    return found


@pytest.mark.parametrize(("n_tasks", "low", "high"), [(8, 0.86, 0.97), (30, 0.92, 0.98)])
def test_intervals_cover_the_true_mean_as_often_as_they_say(n_tasks: int, low: float, high: float) -> None:
    """Tasks differ by a standard deviation of 1, seeds within a task by 1; the true mean is 3. With eight tasks the
    percentiles are known to be somewhat too narrow."""
    rng, covered, trials = np.random.default_rng(5), 0, 400
    drawn = arm_figures.draws(n_tasks, 3, resamples=1000)
    for _ in range(trials):
        table = 3 + rng.normal(size=(n_tasks, 1)) + rng.normal(size=(n_tasks, 3))
        _, lower, upper = ratio_interval(table, drawn)
        covered += lower <= 3 <= upper
    assert low <= covered / trials <= high


def test_seeds_alone_would_give_too_narrow_an_interval() -> None:
    table = np.repeat(np.array([[0.0], [4.0], [8.0]]), 3, axis=1)  # tasks differ, seeds do not
    mean, low, high = ratio_interval(table, arm_figures.draws(3, 3))
    assert (mean, low, high) == (4.0, 0.0, 8.0)


def test_a_paired_difference_cancels_what_the_tasks_share() -> None:
    drawn = arm_figures.draws(8, 3)
    tasks = np.random.default_rng(1).normal(0, 10, size=(8, 1)) + np.zeros((8, 3))
    ones = np.ones_like(tasks)
    difference = arm_figures.ratios(tasks + 1, ones, drawn) - arm_figures.ratios(tasks, ones, drawn)
    assert arm_figures.interval(difference) == pytest.approx((1.0, 1.0, 1.0))


def test_missing_campaigns_count_in_neither_sum() -> None:
    hits = np.array([[1.0, np.nan], [3.0, 3.0]])
    values = arm_figures.ratios(hits, np.full((2, 2), 2.0), arm_figures.draws(2, 2))
    assert values[0] == pytest.approx(7 / 6)
    assert arm_figures.interval(arm_figures.ratios(hits * np.nan, hits, arm_figures.draws(2, 2))) is None
