"""Rank correlation and its interval against SciPy and against what the interval promises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from sciagent.report.parts.agreement import agreement, interval, spearman


@pytest.mark.parametrize("seed", range(5))
def test_spearman_is_scipys_with_ties(seed: int) -> None:
    random = np.random.default_rng(seed)
    x = random.integers(0, 6, 40).astype(float)
    y = x + random.integers(0, 4, 40)
    assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)


def test_what_does_not_vary_has_no_rank_correlation() -> None:
    assert spearman(np.ones(6), np.arange(6.0)) is None


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Bivariate normal, r = 0.7, whose rho is 6/pi asin(r/2) (Kruskal 1958); 95 % within the noise of 600 draws."""
    random, r, n = np.random.default_rng(1), 0.7, 25
    truth = 6 / np.pi * np.arcsin(r / 2)
    covered = 0
    for _ in range(600):
        x = random.standard_normal(n)
        y = r * x + np.sqrt(1 - r * r) * random.standard_normal(n)
        low, high = interval(float(spearman(x, y) or 0.0), n) or (1.0, 1.0)
        covered += low <= truth <= high
    assert 0.92 <= covered / 600 <= 0.98


def test_ranks_that_agree_fully_have_no_interval_of_width_zero() -> None:
    found = agreement(np.arange(6.0), np.arange(6.0) ** 3, shared_scale=False)
    assert (found.spearman, found.low, found.high) == (pytest.approx(1.0), None, None)


def test_errors_are_given_only_where_the_scale_is_shared() -> None:
    x, y = np.array([1.0, 2, 3, 4, 5]), np.array([1.5, 2.5, 2.5, 4.5, 5.5])
    shared, own = agreement(x, y, True), agreement(x, y, False)
    assert shared.mae == pytest.approx(0.5) and shared.bias == pytest.approx(0.3)
    assert own.mae is None and own.bias is None and own.spearman == shared.spearman


def test_too_few_pairs_say_nothing() -> None:
    assert agreement(np.arange(4.0), np.arange(4.0), True).spearman is None
