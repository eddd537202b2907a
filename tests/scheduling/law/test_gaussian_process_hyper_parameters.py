"""The posterior of the hyper-parameters: its density and maximum, and the average over it for few rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import check_grad
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from sciagent.scheduling.law.gaussian_process import (
    CENTRES,
    JITTER,
    WIDTH,
    Hyper,
    Process,
    Rows,
    covariance,
    fit_hyper,
    likely_hypers,
    log_posterior,
)
from sciagent.scheduling.law.gaussian_process_chain import Averaged
from tests.support.law_rows import HYPER, N, rows


@pytest.mark.parametrize("structure", [False, True])
def test_the_gradient_of_the_fit_is_that_of_finite_differences(structure: bool) -> None:
    loss = log_posterior(rows(structure))
    for point in (CENTRES, HYPER.log_values, CENTRES + np.array([1.0, -1.0, 0.5, -0.5, 1.5])):
        size = np.linalg.norm(loss(point)[1])
        assert check_grad(lambda x: loss(x)[0], lambda x: loss(x)[1], point) < 1e-4 * (1 + size)


def test_without_lower_rungs_the_gradient_is_right_as_well() -> None:
    whole = rows(structure=True)
    loss = log_posterior(Rows(np.empty((N, 0)), whole.y, whole.extra, whole.similarity))
    assert check_grad(lambda x: loss(x)[0], lambda x: loss(x)[1], HYPER.log_values) < 1e-3


@pytest.mark.parametrize("structure", [False, True])
def test_the_fit_maximises_likelihood_times_prior(structure: bool) -> None:
    """Up to a constant the loss is minus the logarithm of a normal density of the answers and of log-normal priors."""
    given = rows(structure)
    loss = log_posterior(given)

    def density(point: NDArray[np.float64]) -> float:
        hyper = Hyper(point)
        k = covariance(hyper, given.z, given.z, given.similarity) + np.diag(hyper.noise + given.extra + JITTER)
        prior = multivariate_normal(CENTRES, WIDTH**2 * np.eye(5)).logpdf(point)
        return float(multivariate_normal(np.zeros(N), k).logpdf(given.y) + prior)

    points = [CENTRES, HYPER.log_values, CENTRES + 0.5]
    sums = [loss(point)[0] + density(point) for point in points]
    assert np.ptp(sums) < 1e-6


@pytest.mark.parametrize("structure", [False, True])
def test_nothing_near_or_far_is_better_than_what_was_fitted(structure: bool) -> None:
    given, rng = rows(structure), np.random.default_rng(1)
    loss, found = log_posterior(given), fit_hyper(given).log_values
    best = loss(found)[0]
    near = found + 0.1 * rng.standard_normal((100, 5))
    far = CENTRES + WIDTH * rng.standard_normal((200, 5))
    assert min(loss(point)[0] for point in [*near, *far]) > best - 1e-4


def test_a_fit_begins_where_an_earlier_one_ended() -> None:
    first = fit_hyper(rows())
    assert fit_hyper(rows(), first).log_values == pytest.approx(first.log_values, abs=0.02)


def test_the_noise_is_found() -> None:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((250, 1))
    y = 0.8 * z[:, 0] + 0.6 * rng.standard_normal(250)
    assert fit_hyper(Rows(z, y, np.zeros(250))).noise == pytest.approx(0.36, rel=0.2)


def test_variance_that_a_row_is_known_to_have_is_not_taken_for_noise() -> None:
    rng = np.random.default_rng(0)
    z, extra = rng.standard_normal((250, 1)), np.where(np.arange(250) % 2, 1.0, 0.0)
    y = 0.8 * z[:, 0] + np.sqrt(0.09 + extra) * rng.standard_normal(250)
    assert fit_hyper(Rows(z, y, extra)).noise == pytest.approx(0.09, rel=0.3)


def test_with_few_rows_the_average_is_nearer_to_the_integral_than_the_maximum() -> None:
    """The integral over the posterior: 4,000 draws from the prior, weighed by the likelihood."""
    few, z = rows(structure=True).take(np.arange(6)), np.linspace(-2, 2, 9)[:, None] * [1.0, 0.5]
    alike = np.zeros((9, 6))
    draws = CENTRES + WIDTH * np.random.default_rng(2).standard_normal((4000, 5))
    loss = log_posterior(few)
    logs = np.array([((draw - CENTRES) ** 2).sum() / (2 * WIDTH**2) - loss(draw)[0] for draw in draws])
    weights = np.exp(logs - logsumexp(logs))
    assert 1 / (weights**2).sum() > 200, "draws that count"
    forecasts = [Process(Hyper(draw), few).foretell(z, alike)[:2] for draw in draws]
    means, variances = (np.array(values) for values in zip(*forecasts, strict=True))
    mean = weights @ means
    variance = weights @ (variances + (means - mean) ** 2)

    averaged = Averaged(few, best := fit_hyper(few))
    found, single = averaged.foretell(z, alike), Process(best, few).foretell(z, alike)
    averaged_error, single_error = (np.abs(np.log(each[1] / variance)).mean() for each in (found, single))
    assert averaged_error < 0.15 and single_error > 0.6
    averaged_error, single_error = (float(np.abs(each[0] - mean).max()) for each in (found, single))
    assert averaged_error < 0.15 and single_error > 0.35
    assert averaged.noise == pytest.approx(float(weights @ np.exp(2 * draws[:, 4])), rel=0.15)


def test_many_rows_leave_nothing_to_average() -> None:
    given = rows()
    many = Rows(np.tile(given.z, (20, 1)), np.tile(given.y, 20), np.tile(given.extra, 20))
    best = fit_hyper(many)
    averaged, single = Averaged(many, best).foretell(given.z), Process(best, many).foretell(given.z)
    assert averaged[0] == pytest.approx(single[0], abs=0.1)
    assert averaged[1] == pytest.approx(single[1], abs=0.01)


def test_weights_add_up_and_a_start_from_fewer_rows_matters_little() -> None:
    given = rows()
    before = fit_hyper(given.take(np.arange(30)))
    hypers, weights = likely_hypers(given, before)
    assert weights.sum() == pytest.approx(1) and len(hypers) == len(weights) <= 11
    others = Averaged(given, before).foretell(given.z)[0], Averaged(given, fit_hyper(given)).foretell(given.z)[0]
    assert others[0] == pytest.approx(others[1], abs=0.05)
