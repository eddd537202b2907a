"""The process is scikit-learn's where that can follow, and a regression by brute force where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import check_grad
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from sciagent.scheduling.law import process as module
from sciagent.scheduling.law.kernel import CENTRES, OFFSET, WIDTH, Hyper, covariance, squared_distance, variance
from sciagent.scheduling.law.process import JITTER, Process, Rows, fit_hyper

Array = NDArray[np.float64]

A1, A2, LENGTH, A3, NOISE = 0.8, 0.6, 1.3, 0.7, 0.25
HYPER = Hyper(np.log([A1, A2, LENGTH, A3, NOISE]))
N, D = 40, 2
EVERY_FOURTH = np.arange(0, N, 4)


def rows(structure: bool = False) -> Rows:
    """A bent plane, with rows of unequal noise."""
    rng = np.random.default_rng(0)
    z, place = rng.standard_normal((N, D)), rng.standard_normal((N, 2))
    y = z @ [0.7, -0.4] + 0.5 * np.sin(2 * z[:, 0]) + NOISE * rng.standard_normal(N) + np.sin(place[:, 0])
    extra = np.where(rng.random(N) < 0.3, 0.2, 0.0)
    return Rows(z, y, extra, np.exp(-squared_distance(place, place)) if structure else None)


def noise_of(given: Rows) -> Array:
    noise: Array = HYPER.noise + given.extra + JITTER
    return noise


Loss = Callable[[Array], tuple[float, Array]]


def loss_of(given: Rows, monkeypatch: pytest.MonkeyPatch) -> Loss:
    """What fit_hyper minimises."""
    caught: list[Loss] = []

    def catch(loss: Loss, begin: Array, **_: Any) -> SimpleNamespace:
        caught.append(loss)
        return SimpleNamespace(x=begin)

    with monkeypatch.context() as patch:
        patch.setattr(module, "minimize", catch)
        fit_hyper(given)
    return caught[0]


def predict(process: Process, z: Array, similarity: Array | None = None) -> tuple[Array, Array]:
    """Mean and variance (n,) of the answer without its noise, in double precision and solve by solve."""
    k = covariance(process.hyper, z, process._z, similarity)
    inner = solve_triangular(process._lower, k.T, lower=True)
    spread = variance(process.hyper, z, process.structure) - (inner**2).sum(0)
    if process._second is not None:
        spread += (solve_triangular(process._second, inner, lower=True) ** 2).sum(0)
    return k @ process._weights, np.maximum(spread, 1e-8)


# Hyper-parameters


@pytest.mark.parametrize("structure", [False, True])
def test_the_gradient_of_the_fit_is_that_of_finite_differences(
    structure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = loss_of(rows(structure), monkeypatch)
    for point in (CENTRES, HYPER.log_values, CENTRES + np.array([1.0, -1.0, 0.5, -0.5, 1.5])):
        size = np.linalg.norm(loss(point)[1])
        assert check_grad(lambda x: loss(x)[0], lambda x: loss(x)[1], point) < 1e-4 * (1 + size)


def test_without_lower_rungs_the_gradient_is_right_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows(structure=True)
    loss = loss_of(Rows(np.empty((N, 0)), whole.y, whole.extra, whole.similarity), monkeypatch)
    assert check_grad(lambda x: loss(x)[0], lambda x: loss(x)[1], HYPER.log_values) < 1e-3


@pytest.mark.parametrize("structure", [False, True])
def test_the_fit_maximises_likelihood_times_prior(structure: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a constant the loss is minus the logarithm of a normal density of the answers and of log-normal priors."""
    given = rows(structure)
    loss = loss_of(given, monkeypatch)

    def density(point: Array) -> float:
        hyper = Hyper(point)
        k = covariance(hyper, given.z, given.z, given.similarity) + np.diag(hyper.noise + given.extra + JITTER)
        prior = multivariate_normal(CENTRES, WIDTH**2 * np.eye(5)).logpdf(point)
        return float(multivariate_normal(np.zeros(N), k).logpdf(given.y) + prior)

    points = [CENTRES, HYPER.log_values, CENTRES + 0.5]
    sums = [loss(point)[0] + density(point) for point in points]
    assert np.ptp(sums) < 1e-6


@pytest.mark.parametrize("structure", [False, True])
def test_nothing_near_or_far_is_better_than_what_was_fitted(structure: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    given, rng = rows(structure), np.random.default_rng(1)
    loss, found = loss_of(given, monkeypatch), fit_hyper(given).log_values
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
