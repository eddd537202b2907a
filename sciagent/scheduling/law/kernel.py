"""The covariance of a rung's answers, over the answers of lower rungs and the similarity of structures.

    k(x, x') = 4 + a1² z·z' + a2² exp(-|z - z'|² / 2l²) + a3² S(x, x')

z: transformed scores of lower rungs; S: similarity of structures in [0, 1], positive semi-definite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.arrays import Array

Real = TypeVar("Real", bound=np.floating[Any])

OFFSET = 4.0  # prior variance of the mean, in transformed units
CENTRES = np.log([0.7, 0.4, 1.5, 0.5, 0.3])  # a1, a2, l, a3, noise: medians of their log-normal priors
WIDTH = 0.7


@dataclass(frozen=True)
class Hyper:
    """log_values: (5,) logarithms of a1, a2, l, a3 and the noise's standard deviation."""

    log_values: Array

    @property
    def values(self) -> Array:
        return np.exp(self.log_values)

    @property
    def noise(self) -> float:
        return float(np.exp(2 * self.log_values[4]))


def squared_distance(z: NDArray[Real], w: NDArray[Real]) -> NDArray[Real]:
    """Returns (n, m) squared distances between rows of (n, d) and (m, d)."""
    return _squared(z @ w.T, z, w)


def _squared(product: NDArray[Real], z: NDArray[Real], w: NDArray[Real]) -> NDArray[Real]:
    """As `squared_distance`, from z·w, which is overwritten: passes over (n, m) dominate the time of a forecast."""
    product *= -2
    product += (z**2).sum(1)[:, None]
    product += (w**2).sum(1)
    np.maximum(product, 0.0, out=product)
    return product


def _near(squared: NDArray[Real], length: float, scale: float) -> NDArray[Real]:
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
    return far, _near(_squared(product, z, w), length, a2) if z.shape[1] else None


def add_structure(hyper: Hyper, k: NDArray[Real], similarity: Array | None) -> NDArray[Real]:
    """Adds the structure term to k, (n, m), in place."""
    if similarity is not None:
        k += np.multiply(similarity, float(hyper.values[3]) ** 2, dtype=k.dtype)
    return k


def variance(hyper: Hyper, z: Array, structure: bool) -> Array:
    """Returns (n,) prior variances k(x, x)."""
    a1, a2, _, a3, _ = hyper.values
    total: Array = OFFSET + a1**2 * (z**2).sum(1) + (a2**2 if z.shape[1] else 0.0) + (a3**2 if structure else 0.0)
    return total


def slopes_of(hyper: Hyper, z: Array, w: Array, weights: Array, near: NDArray[Real]) -> Array:
    """Returns the gradient over z of the posterior mean k(z, w) @ weights: (n, d). near: (n, m) from
    `answers_covariance`; it is overwritten."""
    a1, _, length, *_ = hyper.values.tolist()
    near *= weights.astype(near.dtype)
    pull = near @ w.astype(near.dtype) - near.sum(1)[:, None] * z
    gradient: Array = a1**2 * (weights @ w) + pull / length**2
    return gradient


def parts(hyper: Hyper, z: Array, distance: Array, product: Array, similarity: Array | None) -> tuple[Array, Array]:
    """Returns K without noise, (n, n), and its derivatives by the first four log_values, (4, n, n)."""
    a1, a2, length, a3, _ = hyper.values
    linear = a1**2 * product
    local = a2**2 * np.exp(-distance / (2 * length**2)) if z.shape[1] else np.zeros_like(distance)
    alike = np.zeros_like(distance) if similarity is None else a3**2 * similarity
    derivatives = np.stack([2 * linear, 2 * local, local * distance / length**2, 2 * alike])
    return OFFSET + linear + local + alike, derivatives
