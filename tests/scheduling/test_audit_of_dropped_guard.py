"""A guard drops few true hits, and says how many hits it still lacks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sciagent.domain.answers.status_and_comparison import GuardState
from sciagent.scheduling import audit_of_dropped

Array = NDArray[np.float64]


def guard(scores: Array, alpha: float, pi: Array | None = None, least: float | None = None) -> GuardState:
    """The guard of hits that are all equally likely to become known, if no propensities are given."""
    known = np.ones(len(scores)) if pi is None else pi
    return audit_of_dropped.guard(scores, alpha, known, float(known.min(initial=1.0)) if least is None else least)


def threshold(scores: Array, alpha: float, pi: Array | None = None, least: float | None = None) -> float:
    found = guard(scores, alpha, pi, least).threshold
    return -np.inf if found is None else found


# Arming


@pytest.mark.parametrize("alpha", [0.5, 0.3, 0.2, 0.1, 0.07, 0.05, 0.01])
def test_it_is_armed_by_one_over_alpha_less_one_hits_and_no_fewer(alpha: float) -> None:
    enough = math.ceil(1 / alpha - 1e-9) - 1
    scores = np.arange(enough, dtype=float)
    armed = guard(scores, alpha)
    assert armed.threshold == 0.0 and armed.missing == 0 and armed.words.startswith("armed")
    for short in range(1, min(enough, 4)):
        found = guard(scores[short:], alpha)
        assert found.threshold is None and found.missing == short
        assert f"n = {enough - short} hits; {short} more are needed" in found.words


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=60), st.floats(0.02, 0.6))
def test_the_threshold_is_the_largest_score_with_few_enough_below(values: list[int], alpha: float) -> None:
    scores = np.array(values, dtype=float)
    kept = [t for t in scores if (np.sum(scores < t) + 1) / (len(scores) + 1) <= alpha + 1e-12]
    assert guard(scores, alpha).threshold == (max(kept) if kept else None)


def test_hits_that_were_likelier_to_become_known_arm_it_less() -> None:
    scores = np.arange(9, dtype=float)
    assert guard(scores, 0.1, np.full(9, 0.02)).threshold == 0.0
    mixed = np.where(np.arange(9) < 5, 0.02, 0.04)
    found = guard(scores, 0.1, mixed)
    assert found.threshold is None and found.missing == 2
    assert "count as 7.0 by their propensities" in found.words
    assert guard(scores, 0.1, np.full(9, 0.02), least=0.01).missing == math.ceil(9 - 4.5)


def test_without_hits_all_are_missing() -> None:
    assert guard(np.zeros(0), 0.1).missing == 9


# What it promises


@pytest.mark.parametrize(("n", "alpha"), [(9, 0.1), (25, 0.1), (40, 0.05), (12, 0.3)])
def test_the_next_hit_is_dropped_as_rarely_as_promised_and_hardly_more_rarely(n: int, alpha: float) -> None:
    rng = np.random.default_rng(n)
    runs = 4000
    scores = rng.exponential(size=(runs, n + 1))
    lost = float(np.mean([row[-1] < threshold(row[:-1], alpha) for row in scores]))
    spread = 3 * math.sqrt(alpha / runs)
    assert alpha - 1 / (n + 1) - spread <= lost <= alpha + spread


def likely(scores: Array) -> Array:
    """The higher the score of a hit the likelier it was verified."""
    return np.clip(0.05 + 0.9 * scores, 0.05, 1.0)


@pytest.mark.parametrize("alpha", [0.1, 0.2])
def test_with_unequal_propensities_only_the_weighted_guard_keeps_its_promise(alpha: float) -> None:
    rng = np.random.default_rng(3)
    runs, weighted, plain = 1500, 0, 0
    armed = 0
    for _ in range(runs):
        scores = rng.beta(1.2, 2.0, 700)
        pi = likely(scores)
        known = rng.random(700) < pi
        bound = guard(scores[known], alpha, pi[known], least=0.05)
        armed += bound.threshold is not None
        after = rng.beta(1.2, 2.0)
        weighted += after < threshold(scores[known], alpha, pi[known], 0.05)
        plain += after < threshold(scores[known], alpha)
    spread = 3 * math.sqrt(alpha / runs)
    assert armed == runs
    assert 0.7 * alpha <= weighted / runs <= alpha + spread
    assert plain / runs > 1.5 * alpha
