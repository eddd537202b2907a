"""The covariance is scikit-learn's, and its derivatives are those of finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from sciagent.scheduling.law.gaussian_process import (
    CENTRES,
    OFFSET,
    Hyper,
    answers_covariance,
    covariance,
    covariance_and_derivatives,
    slopes_of,
    squared_distance,
    variance,
)

Array = NDArray[np.float64]

A1, A2, LENGTH, A3, NOISE = 0.8, 0.6, 1.3, 0.7, 0.25
HYPER = Hyper(np.log([A1, A2, LENGTH, A3, NOISE]))


@pytest.fixture
def z() -> Array:
    return np.random.default_rng(0).standard_normal((9, 3))


@pytest.fixture
def alike(z: Array) -> Array:
    found: Array = np.exp(-squared_distance(z, z))
    return found


def test_the_covariance_is_that_of_scikit_learn(z: Array) -> None:
    kernel = ConstantKernel(OFFSET) + ConstantKernel(A1**2) * DotProduct(0.0, "fixed")
    kernel += ConstantKernel(A2**2) * RBF(LENGTH)
    assert covariance(HYPER, z, z[:4], None) == pytest.approx(kernel(z, z[:4]), rel=1e-12)


def test_the_noise_is_a_variance() -> None:
    assert HYPER.noise == pytest.approx(NOISE**2)


def test_likeness_of_structures_adds_its_share(z: Array, alike: Array) -> None:
    added = covariance(HYPER, z, z, alike) - covariance(HYPER, z, z, None)
    assert added == pytest.approx(A3**2 * alike, abs=1e-12)


@pytest.mark.parametrize("structure", [False, True])
def test_the_variance_is_the_diagonal_of_the_covariance(z: Array, alike: Array, structure: bool) -> None:
    whole = covariance(HYPER, z, z, alike if structure else None)
    assert variance(HYPER, z, structure) == pytest.approx(np.diag(whole), rel=1e-12)


def test_without_lower_rungs_only_the_mean_and_the_structure_vary(alike: Array) -> None:
    none = np.empty((9, 0))
    assert covariance(HYPER, none, none, None) == pytest.approx(np.full((9, 9), OFFSET))
    assert variance(HYPER, none, True) == pytest.approx(np.full(9, OFFSET + A3**2))
    assert covariance_and_derivatives(HYPER, none, np.zeros((9, 9)), np.zeros((9, 9)), alike)[0] == pytest.approx(
        OFFSET + A3**2 * alike
    )
    assert answers_covariance(HYPER, none, none[:4])[1] is None


@pytest.mark.parametrize("structure", [False, True])
def test_the_derivatives_are_finite_differences(z: Array, alike: Array, structure: bool) -> None:
    distance, product, s = squared_distance(z, z), z @ z.T, alike if structure else None
    k, derivatives = covariance_and_derivatives(HYPER, z, distance, product, s)
    assert k == pytest.approx(covariance(HYPER, z, z, s), rel=1e-9)
    for place in range(4):
        step = np.zeros(5)
        step[place] = 1e-5
        up, down = (covariance(Hyper(HYPER.log_values + sign * step), z, z, s) for sign in (1, -1))
        assert derivatives[place] == pytest.approx((up - down) / 2e-5, abs=1e-8)


def test_the_slopes_are_finite_differences(z: Array) -> None:
    weights = np.random.default_rng(1).standard_normal(4)
    near = answers_covariance(HYPER, z, z[:4])[1]
    assert near is not None
    found = slopes_of(HYPER, z, z[:4], weights, near)
    for place in range(3):
        step = np.zeros(3)
        step[place] = 1e-5
        up, down = (covariance(HYPER, z + sign * step, z[:4], None) @ weights for sign in (1, -1))
        assert found[:, place] == pytest.approx((up - down) / 2e-5, abs=1e-7)


def test_distances_are_not_below_zero() -> None:
    z = 1e8 + np.random.default_rng(0).standard_normal((20, 2)) * 1e-3
    assert squared_distance(z, z).min() >= 0


def test_the_covariance_is_positive_semi_definite(z: Array, alike: Array) -> None:
    for hyper in (HYPER, Hyper(CENTRES)):
        assert np.linalg.eigvalsh(covariance(hyper, z, z, alike)).min() > -1e-9
