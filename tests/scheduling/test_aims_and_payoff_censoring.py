"""A censored answer teaches the law that it lies beyond its bound, and no more."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sciagent.scheduling.aims_and_payoff import Aims, expected_answers
from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.law.binary_answers import truncated_moments
from sciagent.scheduling.rules.priced import Priced

TOLERANCE = 1e-7  # relative, of the closed form against numerical integration


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("mean", [-6.0, -1.0, 0.0, 0.3, 2.0, 12.0])
def test_moments_are_those_of_numerical_integration(mean: float, side: int) -> None:
    bound, sd = 1.0, 1.7
    ends = (bound - 12 * sd, bound) if side < 0 else (bound, bound + 12 * sd)
    peak = min(max(mean, ends[0]), ends[1])

    def moment(power: int, centre: float) -> float:
        def weight(v: float) -> float:
            return float(norm.pdf(v, mean, sd) / norm.pdf(peak, mean, sd))

        whole = quad(weight, *ends, points=[peak], limit=400, epsabs=0, epsrel=1e-11)[0]
        part = quad(lambda v: (v - centre) ** power * weight(v), *ends, points=[peak], limit=400, epsabs=1e-14)[0]
        return float(part / whole)

    value, spread = truncated_moments(
        np.array([mean]), np.array([sd]), np.array([bound]), np.array([side], dtype=np.int8)
    )
    expected = moment(1, 0.0)
    assert value[0] == pytest.approx(expected, rel=TOLERANCE)
    assert spread[0] ** 2 == pytest.approx(moment(2, expected), rel=1e-5)


def test_far_beyond_what_is_believed_the_moments_stay_near_the_bound() -> None:
    value, spread = truncated_moments(np.zeros(3), np.ones(3), np.array([-20.0, -40.0, -1e4]), np.full(3, -1, np.int8))
    assert (value < [-20.0, -40.0, -1e4]).all() and (spread > 0).all() and np.isfinite(value).all()
    assert spread == pytest.approx([1 / 20, 1 / 40, 1e-4], rel=0.02)


def ladder(n: int = 120) -> tuple[CandidatePool, np.ndarray]:
    """A cheap rung and one that decides, which cannot measure below 0: what lies there is said to be below 0."""
    rng = np.random.default_rng(3)
    truth = rng.normal(0.5, 1.0, n)
    cheap = truth + rng.normal(0.0, 0.2, n)
    scores = np.column_stack([cheap, np.maximum(truth, 0.0)])
    pool = CandidatePool(scores, np.ones((n, 2), dtype=bool), np.ones((n, 2)))
    pool.bounds = np.column_stack([np.zeros(n), -1 * (truth < 0)]).astype(np.int8)
    pool.out[:] = True
    return pool, truth


def test_the_law_expects_of_a_censored_answer_what_the_lower_rung_says() -> None:
    pool, truth = ladder()
    aims, below = Aims.with_threshold(2, 1.0, 1), pool.bounds is not None and pool.bounds[:, 1] < 0
    truths = aims.truths(pool.scores)
    fit = Priced(aims)._fit_temporary(truths, len(truth), None)
    value, error = expected_answers(pool.scores, pool.errors, pool.bounds, aims, truths, fit)
    assert error is not None and (value[below, 1] < 0).all() and (error[below, 1] > 0).all()
    assert np.array_equal(value[~below], pool.scores[~below]) and not error[~below].any()
    at_bound = np.sqrt(np.mean(truth[below] ** 2))
    assert np.sqrt(np.mean((value[below, 1] - truth[below]) ** 2)) < 0.4 * at_bound


def test_a_rung_with_too_few_exact_answers_keeps_its_bounds() -> None:
    pool, _ = ladder(3)
    assert pool.bounds is not None
    pool.bounds[:, 1] = -1
    value, _ = expected_answers(pool.scores, None, pool.bounds, Aims.with_threshold(2, 1.0, 1), (), lambda s, e: [])
    assert np.array_equal(value, pool.scores)
