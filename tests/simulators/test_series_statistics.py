"""Series whose statistics are known: autoregressive ones of first order, x(i + 1) = phi x(i) + noise, variance 1.

Their statistical inefficiency is (1 + phi) / (1 - phi).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.dynamics.series_statistics import (
    Array,
    blocking_error,
    equilibration,
    independent_indices,
    mean_of_replicas,
    standard_error,
    statistical_inefficiency,
)


def autoregressive(generator: np.random.Generator, n: int, phi: float, replicas: int = 1) -> Array:
    """Returns series of variance 1, replicas x n."""
    noise = generator.standard_normal((replicas, n + 300)) * math.sqrt(1 - phi**2)
    series: Array = lfilter([1.0], [1.0, -phi], noise)[:, 300:]
    return series


def refusal(replicas: list[Array]) -> SimulatorError:
    with pytest.raises(SimulatorError) as error:
        mean_of_replicas(replicas)
    assert (error.value.outcome, error.value.reason) == (Outcome.NOT_CONVERGED, Reason.NOT_EQUILIBRATED)
    return error.value


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_the_inefficiency_is_that_of_an_autoregressive_series(phi: float) -> None:
    series = autoregressive(np.random.default_rng(5), 200_000, phi)[0]
    assert statistical_inefficiency(series) == pytest.approx((1 + phi) / (1 - phi), rel=0.06)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_blocking_agrees_with_the_exact_error(phi: float) -> None:
    series = autoregressive(np.random.default_rng(6), 200_000, phi)[0]
    exact = math.sqrt((1 + phi) / (1 - phi) / len(series))
    assert blocking_error(series) == pytest.approx(exact, rel=0.1)
    assert standard_error(series) == pytest.approx(exact, rel=0.05)


def test_the_larger_of_two_errors_counts() -> None:
    """A slow motion under ten times as much noise: both estimates are too small, and that of blocks is the larger."""
    generator = np.random.default_rng(7)
    n = 20_000
    series = autoregressive(generator, n, 0.99)[0] + 10 * generator.standard_normal(n)
    exact = math.sqrt((199 + 100) / n)
    by_correlation = math.sqrt(statistical_inefficiency(series) * 101 / n)
    by_blocks = blocking_error(series)
    assert by_blocks is not None and by_correlation < by_blocks < 1.2 * exact
    assert standard_error(series) == by_blocks


@pytest.mark.parametrize(("replicas", "n"), [(1, 3000), (3, 800)])
def test_the_interval_covers_the_mean_in_95_of_100_draws(replicas: int, n: int) -> None:
    """200 draws with phi = 0.9, 158 and 126 independent samples; 3 percent are twice the scatter of such a count."""
    generator = np.random.default_rng(8)
    covered = []
    for _ in range(200):
        mean = mean_of_replicas(autoregressive(generator, n, 0.9, replicas))
        covered.append(abs(mean.mean) < 1.96 * mean.uncertainty)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.03)


def test_a_start_far_from_equilibrium_is_cut() -> None:
    generator = np.random.default_rng(9)
    n = 4000
    transient = 8 * np.exp(-np.arange(n) / 150)
    series = autoregressive(generator, n, 0.8)[0] + transient
    part = equilibration(series)
    assert 300 <= part.start <= 1200  # 8 exp(-2) = 1.1 standard deviations, 8 exp(-8) = 0.003
    assert part.inefficiency == pytest.approx(9, rel=0.35)
    mean = mean_of_replicas([series])
    assert abs(mean.mean) < 3 * mean.uncertainty
    assert abs(series.mean()) > 3 * mean.uncertainty
    assert mean.between is None


def test_replicas_that_differ_widen_the_error() -> None:
    """Replicas that are each stuck elsewhere: the variance of their means, not the scatter within each, counts."""
    generator = np.random.default_rng(10)
    series = autoregressive(generator, 2000, 0.5, 3) + np.array([[-1.0], [0.0], [1.0]])
    mean = mean_of_replicas(list(series))
    assert mean.uncertainty == mean.between == pytest.approx(1 / math.sqrt(3), rel=0.1)
    assert mean.within == pytest.approx(math.sqrt(3 / 6000), rel=0.15)


def test_too_few_independent_samples_are_refused_with_their_number() -> None:
    series = autoregressive(np.random.default_rng(12), 1000, 0.99)  # 5 independent samples
    error = refusal([series[0]])
    assert float(str(error.diagnostics["independent_samples"])) < 20
    assert "simulate longer" in error.detail


def test_a_constant_series_is_one_sample() -> None:
    assert statistical_inefficiency(np.full(500, 0.1)) == 500
    refusal([np.full(500, 0.1)])


def test_a_series_that_jumps_is_refused() -> None:
    """A jump by 3 standard deviations in the middle of white noise, in each of many replicas."""
    generator = np.random.default_rng(12)
    series = generator.standard_normal((40, 400))
    series[:, 280:] += 3
    error = refusal(list(series))
    assert "standard errors" in error.detail or "independent samples" in error.detail


def test_a_common_drift_shows_in_the_average_of_the_replicas() -> None:
    """Half a standard deviation over the series: 40 replicas of 200 samples see it at 7 standard errors."""
    generator = np.random.default_rng(13)
    series = generator.standard_normal((60, 200)) + np.linspace(0, 0.6, 200)
    error = refusal(list(series))
    assert float(str(error.diagnostics["drift"])) > 4


def test_few_draws_of_equilibrated_series_are_refused() -> None:
    generator = np.random.default_rng(14)
    for _ in range(60):
        mean_of_replicas(autoregressive(generator, 1500, 0.9, 2))


def test_independent_indices_are_one_inefficiency_apart() -> None:
    series = autoregressive(np.random.default_rng(15), 20_000, 0.8)[0]
    indices = independent_indices(series)
    assert np.diff(indices).mean() == pytest.approx(9, rel=0.15)
    assert statistical_inefficiency(series[indices]) < 1.6
    assert indices[-1] < len(series)


def test_bad_series_are_refused() -> None:
    with pytest.raises(SimulatorError, match="NaN") as error:
        mean_of_replicas([np.array([1.0, math.nan, 2.0])])
    assert error.value.reason == Reason.NOT_FINITE
    with pytest.raises(ValueError, match="no replica"):
        mean_of_replicas([])
    with pytest.raises(ValueError, match="shape"):
        statistical_inefficiency([])
    with pytest.raises(ValueError, match="shape"):
        equilibration(np.zeros((2, 2)))
    assert blocking_error(np.arange(15)) is None
