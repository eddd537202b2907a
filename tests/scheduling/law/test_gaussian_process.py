"""The process is scikit-learn's where that can follow, and a regression by brute force where it cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from sciagent.scheduling.law.gaussian_process import JITTER, OFFSET, Process, Rows, covariance, variance
from tests.support.law_rows import A1, A2, HYPER, LENGTH, D, N, rows

Array = NDArray[np.float64]

EVERY_FOURTH = np.arange(0, N, 4)


def noise_of(given: Rows) -> Array:
    noise: Array = HYPER.noise + given.extra + JITTER
    return noise


def predict(process: Process, z: Array, similarity: Array | None = None) -> tuple[Array, Array]:
    """Mean and variance (n,) of the answer without its noise, in double precision and solve by solve."""
    k = covariance(process.hyper, z, process._z, similarity)
    inner = solve_triangular(process._lower, k.T, lower=True)
    spread = variance(process.hyper, z, process.structure) - (inner**2).sum(0)
    if process._second is not None:
        spread += (solve_triangular(process._second, inner, lower=True) ** 2).sum(0)
    return k @ process._weights, np.maximum(spread, 1e-8)


# Exact


def test_the_posterior_is_that_of_scikit_learn() -> None:
    given, new = rows(), np.random.default_rng(1).standard_normal((25, D))
    kernel = ConstantKernel(OFFSET) + ConstantKernel(A1**2) * DotProduct(0.0, "fixed")
    kernel += ConstantKernel(A2**2) * RBF(LENGTH)
    reference = GaussianProcessRegressor(kernel, alpha=noise_of(given), optimizer=None).fit(given.z, given.y)
    mean, sd = reference.predict(new, return_std=True)
    found, spread = predict(Process(HYPER, given), new)
    assert found == pytest.approx(mean, abs=1e-8)
    assert spread == pytest.approx(sd**2, rel=1e-6)


@pytest.mark.parametrize("structure", [False, True])
def test_each_row_is_foretold_by_the_others(structure: bool) -> None:
    """Leave-one-out in one go is what a process refitted without the row says."""
    given = rows(structure)
    mean, spread = Process(HYPER, given).leave_one_out
    for i in range(N):
        others = np.delete(np.arange(N), i)
        alike = given.similarity[[i]][:, others] if given.similarity is not None else None
        told, sure = predict(Process(HYPER, given.take(others)), given.z[[i]], alike)
        assert mean[i] == pytest.approx(told[0], abs=1e-7)
        assert spread[i] == pytest.approx(sure[0] + noise_of(given)[i], rel=1e-6)


@pytest.mark.parametrize("basis", [None, EVERY_FOURTH])
def test_in_single_precision_it_foretells_the_same(basis: NDArray[np.intp] | None) -> None:
    """Of two thousand, in more than one piece."""
    rng, given = np.random.default_rng(1), rows(True)
    assert given.similarity is not None
    new, alike = 3 * rng.standard_normal((2000, D)), given.similarity[rng.integers(0, N, 2000)]
    cross = None if basis is None else given.similarity[:, basis]
    process = Process(HYPER, given if basis is None else replace(given, similarity=None), basis, cross)
    alike = alike if basis is None else alike[:, basis]
    mean, spread, slopes = process.foretell(new, alike)
    noise = float(np.sqrt(HYPER.noise))
    for found, exact in zip((mean, spread), predict(process, new, alike), strict=True):
        assert found == pytest.approx(exact, abs=1e-3 * noise)
    assert slopes == pytest.approx(process.slopes(new), abs=1e-3)


@pytest.mark.parametrize("basis", [None, EVERY_FOURTH])
def test_the_slopes_of_the_mean_are_finite_differences(basis: NDArray[np.intp] | None) -> None:
    process, new = Process(HYPER, rows(), basis), np.random.default_rng(1).standard_normal((10, D))
    for place in range(D):
        step = np.zeros(D)
        step[place] = 1e-5
        rise = (predict(process, new + step)[0] - predict(process, new - step)[0]) / 2e-5
        assert process.slopes(new)[:, place] == pytest.approx(rise, abs=1e-5)


def test_rows_of_more_noise_say_less() -> None:
    given = rows()
    loud = Rows(given.z, given.y, given.extra + 100.0)
    new = np.zeros((1, D))
    assert predict(Process(HYPER, loud), new)[1] > 2 * predict(Process(HYPER, given), new)[1]


# Projected


def features(z: Array, basis: NDArray[np.intp], given: Rows, cross: Array | None, new: Array | None) -> Array:
    """(n, m) such that a regression on them, of weights with unit prior, is the projected process."""
    inner = None if new is None or cross is None else cross[basis]
    kmm = covariance(HYPER, given.z[basis], given.z[basis], inner) + JITTER * np.eye(len(basis))
    values, vectors = np.linalg.eigh(kmm)
    found: Array = covariance(HYPER, z, given.z[basis], new) @ vectors / np.sqrt(values)
    return found


def regress(x: Array, y: Array, noise: Array, at: Array) -> tuple[Array, Array]:
    """Mean and variance of the regression's function at rows `at`."""
    inverse = np.linalg.inv(np.eye(x.shape[1]) + (x.T / noise) @ x)
    return at @ inverse @ x.T @ (y / noise), np.einsum("ni,ij,nj->n", at, inverse, at)


@pytest.mark.parametrize("structure", [False, True])
def test_projected_each_row_is_foretold_by_a_regression_on_the_others(structure: bool) -> None:
    given = rows(structure)
    cross = given.similarity[:, EVERY_FOURTH] if given.similarity is not None else None
    process = Process(HYPER, given, EVERY_FOURTH, cross)
    x, noise = features(given.z, EVERY_FOURTH, given, cross, cross), noise_of(given)
    mean, spread = process.leave_one_out
    for i in range(N):
        others = np.delete(np.arange(N), i)
        told, sure = regress(x[others], given.y[others], noise[others], x[[i]])
        assert mean[i] == pytest.approx(told[0], abs=1e-5)
        assert spread[i] == pytest.approx(sure[0] + noise[i], rel=1e-5)


@pytest.mark.parametrize("structure", [False, True])
def test_projected_the_mean_is_the_regression_and_what_the_basis_leaves_open_is_added(structure: bool) -> None:
    given, rng = rows(structure), np.random.default_rng(1)
    cross = given.similarity[:, EVERY_FOURTH] if given.similarity is not None else None
    new = rng.standard_normal((15, D))
    likeness = rng.random((15, len(EVERY_FOURTH))) * 0.1 if structure else None
    x, at = (features(z, EVERY_FOURTH, given, cross, s) for z, s in ((given.z, cross), (new, likeness)))
    told, sure = regress(x, given.y, noise_of(given), at)
    open_ = np.diag(covariance(HYPER, new, new, np.eye(15) if structure else None)) - (at**2).sum(1)
    mean, spread = predict(Process(HYPER, given, EVERY_FOURTH, cross), new, likeness)
    assert mean == pytest.approx(told, abs=1e-5)
    assert spread == pytest.approx(sure + open_, rel=1e-4)


@pytest.mark.parametrize("structure", [False, True])
def test_a_basis_of_all_rows_is_exact(structure: bool) -> None:
    given, new = rows(structure), np.random.default_rng(1).standard_normal((15, D))
    likeness = np.full((15, N), 0.05) if structure else None
    exact, projected = Process(HYPER, given), Process(HYPER, given, np.arange(N), given.similarity)
    assert predict(projected, new, likeness)[0] == pytest.approx(predict(exact, new, likeness)[0], abs=5e-3)
    assert predict(projected, new, likeness)[1] == pytest.approx(predict(exact, new, likeness)[1], rel=1e-3)
    for one, other in zip(projected.leave_one_out, exact.leave_one_out, strict=True):
        assert one == pytest.approx(other, abs=1e-3)
    assert projected.slopes(new) == pytest.approx(exact.slopes(new), abs=1e-2)


# Structure


def test_where_only_structure_tells_a_candidate_is_what_its_neighbours_are() -> None:
    """Two families, alike within and unlike between: nothing else is known of them."""
    family = np.array([0, 0, 0, 1, 1, 1])
    alike = (family[:, None] == family).astype(float)
    given = Rows(np.empty((6, 0)), np.where(family, 1.0, -1.0), np.zeros(6), alike)
    mean, spread = predict(Process(HYPER, given), np.empty((3, 0)), np.array([alike[0], alike[5], np.zeros(6)]))
    assert mean[0] < -0.7
    assert mean[1] > 0.7
    assert mean[2] == pytest.approx(0.0, abs=1e-6)
    assert spread[2] > 2 * spread[0]


def test_structure_is_carried_by_a_basis_too() -> None:
    whole = rows(structure=True)
    assert whole.similarity is not None
    bare = Rows(whole.z, whole.y, whole.extra)
    basis = np.arange(0, N, 2)
    with_structure = Process(HYPER, bare, basis, whole.similarity[:, basis])
    errors = [np.mean((p.leave_one_out[0] - whole.y) ** 2) for p in (with_structure, Process(HYPER, bare, basis))]
    assert errors[0] < errors[1]
