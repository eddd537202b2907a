"""The covariance of one rung's answer over the answers of lower rungs and the likeness of structures.

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
    """(n, d) and (m, d) to (n, m)."""
    return _squared(z @ w.T, z, w)


def _squared(product: NDArray[Real], z: NDArray[Real], w: NDArray[Real]) -> NDArray[Real]:
    """The same where z·w is known, which is overwritten: passes over (n, m) are what a forecast spends its time on."""
    product *= -2
    product += (z**2).sum(1)[:, None]
    product += (w**2).sum(1)
    np.maximum(product, 0.0, out=product)
    return product


def _near(squared: NDArray[Real], length: float, scale: float) -> NDArray[Real]:
    """scale² exp(-squared / 2 length²), in place of `squared`."""
    squared *= -0.5 / length**2
    np.exp(squared, out=squared)
    squared *= scale**2
    return squared


def covariance(hyper: Hyper, z: NDArray[Real], w: NDArray[Real], similarity: Array | None) -> NDArray[Real]:
    """(n, d) and (m, d), with their (n, m) similarity or None, to (n, m) in the precision of z. Without noise."""
    far, near = answers_covariance(hyper, z, w)
    if near is not None:
        far += near
    return add_structure(hyper, far, similarity)


def answers_covariance(hyper: Hyper, z: NDArray[Real], w: NDArray[Real]) -> tuple[NDArray[Real], NDArray[Real] | None]:
    """What answers bring to it: 4 + a1² z·z', and the part that falls with their distance, None without any."""
    a1, a2, length, *_ = hyper.values.tolist()
    product = z @ w.T
    far: NDArray[Real] = a1**2 * product
    far += OFFSET
    return far, _near(_squared(product, z, w), length, a2) if z.shape[1] else None


def add_structure(hyper: Hyper, k: NDArray[Real], similarity: Array | None) -> NDArray[Real]:
    """k, (n, m), and what likeness of structure brings to it, in its place."""
    if similarity is not None:
        k += np.multiply(similarity, float(hyper.values[3]) ** 2, dtype=k.dtype)
    return k


def variance(hyper: Hyper, z: Array, structure: bool) -> Array:
    """k(x, x) of each row, (n,)."""
    a1, a2, _, a3, _ = hyper.values
    total: Array = OFFSET + a1**2 * (z**2).sum(1) + (a2**2 if z.shape[1] else 0.0) + (a3**2 if structure else 0.0)
    return total


def slopes_of(hyper: Hyper, z: Array, w: Array, weights: Array, near: NDArray[Real]) -> Array:
    """Gradient over z of the posterior mean k(z, w) @ weights: (n, d). near: (n, m) as `answers_covariance` makes it,
    which is overwritten."""
    a1, _, length, *_ = hyper.values.tolist()
    near *= weights.astype(near.dtype)
    pull = near @ w.astype(near.dtype) - near.sum(1)[:, None] * z
    gradient: Array = a1**2 * (weights @ w) + pull / length**2
    return gradient


def parts(hyper: Hyper, z: Array, distance: Array, product: Array, similarity: Array | None) -> tuple[Array, Array]:
    """K without noise, (n, n), and its derivatives by the first four log_values, (4, n, n)."""
    a1, a2, length, a3, _ = hyper.values
    linear = a1**2 * product
    local = a2**2 * np.exp(-distance / (2 * length**2)) if z.shape[1] else np.zeros_like(distance)
    alike = np.zeros_like(distance) if similarity is None else a3**2 * similarity
    derivatives = np.stack([2 * linear, 2 * local, local * distance / length**2, 2 * alike])
    return OFFSET + linear + local + alike, derivatives
