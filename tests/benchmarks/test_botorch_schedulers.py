"""The improvement, which needs no BoTorch."""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

from benchmarks.scheduling.botorch_schedulers import log_improvement


def test_the_improvement_is_the_integral_it_stands_for() -> None:
    mean, sd, best = np.array([0.5, -2.0, -14.0]), np.array([1.0, 0.7, 2.0]), 0.8
    found = np.exp(log_improvement(mean, sd, best))
    for m, s, value in zip(mean, sd, found, strict=True):
        expected = quad(lambda y: (y - best) * norm.pdf(y, m, s), best, best + 10 * s, epsabs=0)[0]  # noqa: B023
        np.testing.assert_allclose(value, expected, rtol=0.06)


def test_it_stays_finite_and_in_order_where_nothing_is_likely_to_improve() -> None:
    found = log_improvement(np.array([-60.0, -50.0, -6.0, -5.0, -4.9]), np.ones(5), 0.0)
    assert np.isfinite(found).all()
    assert (np.diff(found) > 0).all()
