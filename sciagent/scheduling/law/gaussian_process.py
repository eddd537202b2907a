"""A Gaussian process for few, growing rows: its covariance, hyper-parameters, posterior and leave-one-out predictions.

Exact without a basis; with a basis, a projected process on part of the rows: Rasmussen and Williams, Gaussian Processes
for Machine Learning (2006), section 8.3.4. It is our own because scikit-learn has no kernel over two inputs with noise
by row, GPyTorch needs torch, and both refit 250 rows more slowly than needed.

The covariance of a rung's answers, over the answers of lower rungs and the similarity of structures, is

    k(x, x') = 4 + a1² z·z' + a2² exp(-|z - z'|² / 2l²) + a3² S(x, x')

z: transformed scores of lower rungs; S: similarity of structures in [0, 1], positive semi-definite.

With few rows the data hardly say which hyper-parameters hold, and the most probable ones are too sure of a relation.
The posterior of the hyper-parameters is therefore represented by points: its maximum, and two points on each principal
axis of its curvature there. With the weights of the unscented transform, the points have mean and covariance of a
Gaussian with this curvature. The ratio of the posterior to this Gaussian corrects the weights. Sources: Rue, Martino,
Chopin, J. R. Stat. Soc. B 71, 319 (2009); Julier, Uhlmann, Proc. IEEE 92, 401 (2004).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from sciagent.scheduling.array_types import Array, RowIndices

Real = TypeVar("Real", bound=np.floating[Any])

OFFSET = 4.0  # prior variance of the mean, in transformed units
CENTRES = np.log([0.7, 0.4, 1.5, 0.5, 0.3])  # a1, a2, l, a3, noise: medians of their log-normal priors
WIDTH = 0.7  # standard deviation of the priors, in logarithms


@dataclass(frozen=True)
class Hyper:
    """The hyper-parameters of a covariance."""

    log_values: Array
    """(5,) logarithms of a1, a2, l, a3 and the noise's standard deviation."""

    @property
    def values(self) -> Array:
        """(5,) a1, a2, l, a3 and the noise's standard deviation."""
        return np.exp(self.log_values)

    @property
    def noise(self) -> float:
        """Variance of the noise."""
        return float(np.exp(2 * self.log_values[4]))


def squared_distance(z: NDArray[Real], w: NDArray[Real]) -> NDArray[Real]:
    """Returns (n, m) squared distances between rows of (n, d) and (m, d)."""
    return _squared(z @ w.T, z, w)


def _squared(product: NDArray[Real], z: NDArray[Real], w: NDArray[Real]) -> NDArray[Real]:
    """Returns `squared_distance`, from the product z·w.

    The product is overwritten, since a new array would take another pass over (n, m) numbers, and such passes dominate
    the time of a forecast.
    """
    product *= -2
    product += (z**2).sum(1)[:, None]
    product += (w**2).sum(1)
    np.maximum(product, 0.0, out=product)
    return product


def _local_term(squared: NDArray[Real], length: float, scale: float) -> NDArray[Real]:
    """Returns scale² exp(-squared / 2 length²); overwrites `squared`."""
    squared *= -0.5 / length**2
    np.exp(squared, out=squared)
    squared *= scale**2
    return squared


def covariance(hyper: Hyper, z: NDArray[Real], w: NDArray[Real], similarity: Array | None) -> NDArray[Real]:
    """Returns (n, m) covariances without noise, in z's precision. z: (n, d); w: (m, d); similarity: (n, m) or None."""
    far, near = answers_covariance(hyper, z, w)
    if near is not None:
        far += near
    return add_structure(hyper, far, similarity)


def answers_covariance(hyper: Hyper, z: NDArray[Real], w: NDArray[Real]) -> tuple[NDArray[Real], NDArray[Real] | None]:
    """Returns the terms of the answers: 4 + a1² z·z', and the term that falls with distance, None without inputs."""
    a1, a2, length, *_ = hyper.values.tolist()
    product = z @ w.T
    far: NDArray[Real] = a1**2 * product
    far += OFFSET
    if not z.shape[1]:
        return far, None
    return far, _local_term(_squared(product, z, w), length, a2)


def add_structure(hyper: Hyper, k: NDArray[Real], similarity: Array | None) -> NDArray[Real]:
    """Adds the structure term to k, (n, m), in place."""
    if similarity is not None:
        k += np.multiply(similarity, float(hyper.values[3]) ** 2, dtype=k.dtype)
    return k


def variance(hyper: Hyper, z: Array, structure: bool) -> Array:
    """Returns (n,) prior variances k(x, x)."""
    a1, a2, _, a3, _ = hyper.values
    total: Array = OFFSET + a1**2 * (z**2).sum(1)
    if z.shape[1]:
        total += a2**2
    if structure:
        total += a3**2
    return total


def slopes_of(hyper: Hyper, z: Array, w: Array, weights: Array, near: NDArray[Real]) -> Array:
    """Returns the gradient over z of the posterior mean k(z, w) @ weights: (n, d). near: (n, m) from
    `answers_covariance`; it is overwritten."""
    a1, _, length, *_ = hyper.values.tolist()
    near *= weights.astype(near.dtype)
    pull = near @ w.astype(near.dtype) - near.sum(1)[:, None] * z
    gradient: Array = a1**2 * (weights @ w) + pull / length**2
    return gradient


def covariance_and_derivatives(
    hyper: Hyper, z: Array, distance: Array, product: Array, similarity: Array | None
) -> tuple[Array, Array]:
    """Returns K without noise, (n, n), and its derivatives by the first four log_values, (4, n, n)."""
    a1, a2, length, a3, _ = hyper.values
    linear = a1**2 * product
    local = a2**2 * np.exp(-distance / (2 * length**2)) if z.shape[1] else np.zeros_like(distance)
    alike = np.zeros_like(distance) if similarity is None else a3**2 * similarity
    derivatives = np.stack([2 * linear, 2 * local, local * distance / length**2, 2 * alike])
    return OFFSET + linear + local + alike, derivatives


JITTER = 1e-6  # variance added to the diagonal, so that a matrix can be inverted
PART = 1024  # rows computed at a time, so that the data stay in the processor's cache


@dataclass(frozen=True)
class Rows:
    """Training rows."""

    z: Array
    """(n, d) inputs."""
    y: Array
    """(n,) answers."""
    extra: Array
    """(n,) variance of y beyond the noise."""
    similarity: Array | None = None
    """(n, n) similarity of the structures; None without structures."""

    def take(self, places: RowIndices) -> Rows:
        """Returns the rows at these places."""
        similarity = None if self.similarity is None else self.similarity[np.ix_(places, places)]
        return Rows(self.z[places], self.y[places], self.extra[places], similarity)


class Process:
    """The posterior under given hyper-parameters. rows: all training rows. basis: positions of representative rows;
    None: all.

    Attributes: `basis`, (m,) positions in rows; `leave_one_out`, means and variances (n,) of each row's noisy answer,
    predicted from the other rows.
    """

    def __init__(self, hyper: Hyper, rows: Rows, basis: RowIndices | None = None, cross: Array | None = None):
        """cross: (n, m) similarity of rows to basis, if there are structures and a basis."""
        self.hyper = hyper
        self.structure = rows.similarity is not None or cross is not None
        noise = hyper.noise + rows.extra + JITTER
        if basis is None:
            self.basis = np.arange(len(rows.y))
            self._z = rows.z
            k = covariance(hyper, rows.z, rows.z, rows.similarity)
            k[np.diag_indices(len(noise))] += noise
            self._lower = cholesky(k, lower=True)
            self._weights = cho_solve((self._lower, True), rows.y)
            self._second: Array | None = None  # only with a basis: the factor of the matrix `inside`
            half = solve_triangular(self._lower, np.eye(len(noise)), lower=True)
            precision = (half**2).sum(0)
            self.leave_one_out = (rows.y - self._weights / precision, 1 / precision)
            return
        self.basis = basis
        self._z = rows.z[basis]
        inner = None if cross is None else cross[basis]
        kmm = covariance(hyper, self._z, self._z, inner)
        kmm[np.diag_indices(len(basis))] += JITTER
        self._lower = cholesky(kmm, lower=True)
        scaled = solve_triangular(self._lower, covariance(hyper, rows.z, self._z, cross).T, lower=True)
        inside = np.eye(len(basis)) + (scaled / noise) @ scaled.T
        self._second = cholesky(inside, lower=True)
        right = cho_solve((self._second, True), scaled @ (rows.y / noise))
        self._weights = solve_triangular(self._lower, right, lower=True, trans=1)
        # a projected process is a Bayesian regression on the rows of `scaled`; its hat matrix gives the leave-one-out
        # answers
        leverage = (solve_triangular(self._second, scaled, lower=True) ** 2).sum(0) / noise
        free = np.maximum(1 - leverage, 1e-9)
        self.leave_one_out = (rows.y - (rows.y - scaled.T @ right) / free, noise / free)

    @property
    def noise(self) -> float:
        """Variance of an answer about the mean of its candidate."""
        return self.hyper.noise

    def slopes(self, z: Array) -> Array:
        """Returns (n, d) gradients of the mean over z."""
        gradient = np.zeros_like(z)
        for part in _pieces(len(z)):
            _, near = answers_covariance(self.hyper, z[part], self._z)
            if near is not None:
                gradient[part] = slopes_of(self.hyper, z[part], self._z, self._weights, near)
        return gradient

    def foretell(self, z: Array, similarity: Array | None = None) -> tuple[Array, Array, Array]:
        """Returns mean, variance and slopes together, for many rows.

        Without a basis they are computed in single precision, which halves the time. The noise keeps the matrix
        well-conditioned, so that no result changes by a thousandth of the noise.
        """
        mean = np.empty(len(z))
        posterior_variance = np.empty(len(z))
        gradient = np.zeros_like(z)
        precision: Any = np.float32 if self._second is None else np.float64
        w = self._z.astype(precision)
        lower = self._lower.astype(precision)
        for part in _pieces(len(z)):
            k, near = answers_covariance(self.hyper, z[part].astype(precision), w)
            if near is not None:
                k += near
                gradient[part] = slopes_of(self.hyper, z[part], self._z, self._weights, near)
            add_structure(self.hyper, k, None if similarity is None else similarity[part])
            mean[part] = k @ self._weights
            if self._second is None:
                explained = (solve_triangular(lower, k.T, lower=True, check_finite=False) ** 2).sum(0)
            else:
                inner = k @ self._explained_root
                explained = np.einsum("ij,ij->i", inner, inner)
            prior_variance = variance(self.hyper, z[part], self.structure)
            posterior_variance[part] = np.maximum(prior_variance - explained, 1e-8)
        return mean, posterior_variance, gradient

    @cached_property
    def _explained_root(self) -> Array:
        """(m, m) such that |k @ _explained_root|² is the variance that the answers explain, with a basis.

        One product with it replaces two triangular solves. It takes a third of their time at 200 rows, and two thirds
        at 900.
        """
        eye = np.eye(len(self._lower))
        doubted = solve_triangular(self._second, eye, lower=True)
        values, vectors = np.linalg.eigh(eye - doubted.T @ doubted)
        half = solve_triangular(self._lower, eye, lower=True)
        explains: Array = half.T @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        return explains


def _pieces(n: int) -> Iterator[slice]:
    """Yields slices of at most PART rows, which cover n rows."""
    return (slice(start, start + PART) for start in range(0, n, PART))


MAX_FIT_ROWS = 250
STEP = 0.05  # step of the finite differences of gradients, in logarithms
LEAST_CURVATURE = 0.5  # the posterior is at most as wide as twice the prior: 1 / WIDTH**2 is 2
# limits of the logarithms: four standard deviations of the priors
LOWEST = CENTRES - 4 * WIDTH
HIGHEST = CENTRES + 4 * WIDTH
LONGEST_MOVE = 0.7  # from hyper-parameters that were fitted to fewer rows to the maximum, along an axis
CENTRE = 1.0  # the maximum has a weight of CENTRE / (CENTRE + 5) in a Gaussian
NEGLIGIBLE = 1e-3  # weight below which a point is left out


def log_posterior(rows: Rows) -> Callable[[Array], tuple[float, Array]]:
    """Returns a function of (5,) logarithms: minus the log density of the posterior but for a constant, and its
    gradient (5,)."""
    distance = squared_distance(rows.z, rows.z)
    product = rows.z @ rows.z.T
    n = len(rows.y)

    def loss(log_values: Array) -> tuple[float, Array]:
        hyper = Hyper(log_values)
        k, derivatives = covariance_and_derivatives(hyper, rows.z, distance, product, rows.similarity)
        k[np.diag_indices(n)] += hyper.noise + rows.extra + JITTER
        try:
            factor = cho_factor(k, lower=True)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros(5)  # worse than any other point
        inverse = cho_solve(factor, np.eye(n))
        weights = inverse @ rows.y
        inner = inverse - np.outer(weights, weights)
        gradient = np.empty(5)
        gradient[:4] = np.einsum("ij,pij->p", inner, derivatives) / 2
        gradient[4] = hyper.noise * np.trace(inner)
        from_prior = (log_values - CENTRES) / WIDTH
        half_log_determinant = np.log(np.diag(factor[0])).sum()
        value = rows.y @ weights / 2 + half_log_determinant + (from_prior**2).sum() / 2
        return float(value), gradient + from_prior / WIDTH

    return loss


def fit_hyper(rows: Rows, start: Hyper | None = None) -> Hyper:
    """Returns the hyper-parameters with the largest posterior density, by L-BFGS with analytic gradients."""
    begin = CENTRES if start is None else start.log_values
    bounds = list(zip(LOWEST, HIGHEST, strict=True))
    fit = minimize(log_posterior(rows), begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40})
    return Hyper(np.asarray(fit.x))


def likely_hypers(rows: Rows, near: Hyper) -> tuple[list[Hyper], Array]:
    """Returns the points and their weights, which add up to 1. near: hyper-parameters near the maximum."""
    loss = log_posterior(rows)
    start = near.log_values
    size = len(start)
    _, gradient = loss(start)
    rows_of_curvature = []
    for step in STEP * np.eye(size):
        _, gradient_above = loss(start + step)
        _, gradient_below = loss(start - step)
        rows_of_curvature.append((gradient_above - gradient_below) / (2 * STEP))
    curvature = np.array(rows_of_curvature)
    curvatures, axes = np.linalg.eigh((curvature + curvature.T) / 2)
    curvatures = np.maximum(curvatures, LEAST_CURVATURE)
    newton_step = np.clip((axes.T @ gradient) / curvatures, -LONGEST_MOVE, LONGEST_MOVE)
    top = start - axes @ newton_step
    moves = (np.sqrt((size + CENTRE) / curvatures) * axes).T
    points = np.clip(np.vstack([top, top + moves, top - moves]), LOWEST, HIGHEST)
    n_moved = 2 * size
    log_gaussian = np.array([0.0] + n_moved * [-(size + CENTRE) / 2])
    gaussian_weights = np.array([CENTRE] + n_moved * [0.5])
    log_posteriors = -np.array([loss(point)[0] for point in points])
    log_ratios = log_posteriors - log_gaussian
    weights = gaussian_weights * np.exp(log_ratios - log_ratios.max())
    weights /= weights.sum()
    is_counted = weights > NEGLIGIBLE
    counted_weights = weights[is_counted]
    return [Hyper(point) for point in points[is_counted]], counted_weights / counted_weights.sum()
