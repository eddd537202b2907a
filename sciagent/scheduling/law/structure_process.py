"""A Gaussian process over structures for one quantity: what the measured candidates say of all others.

    y = transform(value);  k(x, x') = scale² (a² S(x, x') + b² φ(x)·φ(x') + [x = x'] s²)

S: similarity of structures in [0, 1], as the scheduler's law has it. φ: square roots of the counts of atom
environments, folded to LINEAR numbers, with the traits of the whole and a constant; its mean length over the measured
candidates is 1. The linear term carries what a group adds wherever it stands, S the rest. The logarithms of a, b and s
have a normal prior, and their most probable values are taken.

It is our own for the reasons of `gaussian_process`: no library has the kernel, nor is as fast for some dozens of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize

from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.law.answer_transforms import between
from sciagent.scheduling.law.similarity import MAX_COUNT, GrowingStructures

if TYPE_CHECKING:
    from sciagent.chemistry.fingerprints_and_families import StructureFingerprint

LINEAR = 2048  # numbers to which the atom environments of the linear term are folded
CENTRES = np.log([0.8, 1.0, 0.3])  # medians of the priors of a, b and s
WIDTH = 0.7  # standard deviation of the priors, in logarithms
SMALLEST_SPREAD = 0.05  # share of the mean size of y below which its spread is not believed
JITTER = 1e-6
MOST_FITTED = 250  # answers to which the hyper-parameters are fitted


class Transform(StrEnum):
    """A monotone transform of a quantity, in which its errors are alike."""

    NONE = "none"
    LOG = "log"
    SQRT = "sqrt"

    def __call__(self, values: Array) -> Array:
        """Returns (n,) transformed values; -inf for values below the range of the transform."""
        if self is Transform.NONE:
            return np.asarray(values, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            changed: Array = np.log(values) if self is Transform.LOG else np.sqrt(values)
        lowest = -np.inf if self is Transform.LOG else 0.0
        transformed: Array = np.where(np.asarray(values) > 0, changed, lowest)
        return transformed

    def inverse(self, y: Array) -> Array:
        """Returns (n,) values of transformed ones."""
        if self is Transform.LOG:
            return np.exp(y)
        return np.maximum(y, 0.0) ** 2 if self is Transform.SQRT else y

    def log_slope(self, values: Array) -> float:
        """Returns the sum of the logarithms of dy/dvalue, by which densities of different transforms compare."""
        if self is Transform.LOG:
            return float(-np.log(values).sum())
        if self is Transform.SQRT:
            return float(-(np.log(2.0) + np.log(values) / 2).sum())
        return 0.0


class ComparedStructures:
    """Structures of one kind that the process compares, in the order in which they were added."""

    def __init__(self) -> None:
        self._similarity = GrowingStructures()
        self._linear: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)

    def __len__(self) -> int:
        return len(self._similarity)

    def add(self, structures: Sequence[StructureFingerprint | None]) -> None:
        """Appends structures; one that could not be processed is like no other."""
        self._similarity.add(structures)
        rows = [_linear_row(structure) for structure in structures]
        before, width = self._linear.shape
        grown = np.zeros((len(self), max([width, *map(len, rows)])), dtype=np.float32)
        grown[:before, :width] = self._linear
        for place, row in enumerate(rows, before):
            grown[place, : len(row)] = row
        self._linear = grown

    def compare(self, rows: RowIndices, columns: RowIndices) -> tuple[Array, Array]:
        """Returns (n, m) similarities and (n, m) products of the linear term."""
        products = self._linear[rows] @ self._linear[columns].T
        return self._similarity.between(rows, columns), products.astype(float)

    def lengths(self, rows: RowIndices) -> Array:
        """Returns (n,) squared lengths in the linear term."""
        part = self._linear[rows]
        squared: Array = np.einsum("ij,ij->i", part, part).astype(float)
        return squared


def _linear_row(structure: StructureFingerprint | None) -> NDArray[np.float32]:
    if structure is None:
        return np.zeros(0, dtype=np.float32)
    row = np.zeros(LINEAR + len(structure.traits) + 1, dtype=np.float32)
    for feature, count in structure.counts.items():
        row[feature % LINEAR] += min(count, MAX_COUNT)
    row[:LINEAR] = np.sqrt(row[:LINEAR])
    row[LINEAR:-1] = structure.traits
    row[-1] = 1.0
    return row


@dataclass(frozen=True)
class Answers:
    """What was measured of some of the structures."""

    rows: RowIndices
    """(n,) places of the measured structures."""
    values: Array
    """(n,) values, in the canonical unit of the quantity."""


class StructureProcess:
    """The process of one quantity, after its answers. At least two answers are needed.

    log_hyper: (3,) logarithms of a, b and s.
    """

    def __init__(self, compared: ComparedStructures, answers: Answers, transform: Transform) -> None:
        self.transform = transform
        self._compared = compared
        self._answers = answers
        y = transform(answers.values)
        self._mean = float(y.mean())
        self._scale = float(y.std()) + SMALLEST_SPREAD * max(float(np.abs(y).mean()), 1e-12)
        self._target = (y - self._mean) / self._scale
        lengths = compared.lengths(answers.rows)
        self._length = float(lengths.mean()) or 1.0
        similarity, products = compared.compare(answers.rows, answers.rows)
        products /= self._length
        few = _spread_over(len(y))
        inner = np.ix_(few, few)
        self.log_hyper = _most_probable(similarity[inner], products[inner], self._target[few])
        a, b, noise = np.exp(2 * self.log_hyper)
        covariance = a * similarity + b * products
        covariance[np.diag_indices(len(y))] += noise + JITTER
        self._factor = np.linalg.cholesky(covariance)
        self._weights = cho_solve((self._factor, True), self._target)

    def left_out(self) -> tuple[Array, Array]:
        """Returns (n,) means and standard deviations of each answer without itself, transformed."""
        inverse = cho_solve((self._factor, True), np.eye(len(self._target)))
        variance = 1 / np.diag(inverse)
        mean = self._target - self._weights * variance
        return mean * self._scale + self._mean, np.sqrt(variance) * self._scale

    def log_score(self) -> float:
        """Returns the log density of the answers, each without itself, in the unit of the quantity."""
        mean, sd = self.left_out()
        values = self._answers.values
        z = (self.transform(values) - mean) / sd
        return float(-(z**2 / 2 + np.log(sd)).sum()) + self.transform.log_slope(values)

    def foretell(self, rows: RowIndices) -> tuple[Array, Array]:
        """Returns (n,) means and standard deviations of answers on structures, transformed."""
        a, b, noise = np.exp(2 * self.log_hyper)
        similarity, products = self._compared.compare(self._answers.rows, rows)
        covariance = a * similarity
        covariance += (b / self._length) * products
        mean = covariance.T @ self._weights
        explained = (solve_triangular(self._factor, covariance, lower=True) ** 2).sum(0)
        prior = a + (b / self._length) * self._compared.lengths(rows)
        variance = np.maximum(prior - explained, 0.0) + noise + JITTER
        return mean * self._scale + self._mean, np.sqrt(variance) * self._scale

    def chance(self, rows: RowIndices, low: float, high: float) -> Array:
        """Returns (n,) probabilities that answers lie between two values of the quantity; either may be infinite."""
        mean, sd = self.foretell(rows)
        below = self._limit(low)
        above = self._limit(high)
        return between(mean, sd, below, above)

    def _limit(self, value: float) -> float:
        return value if math.isinf(value) else float(self.transform(np.array([value]))[0])


def _spread_over(n: int) -> RowIndices:
    """Returns at most MOST_FITTED of n places, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, MOST_FITTED)).round().astype(int))


def fitted(compared: ComparedStructures, answers: Answers) -> StructureProcess:
    """Returns the process with the transform that foretells the left-out answers best; log and square root are tried
    where all answers are positive."""
    transforms = [Transform.NONE]
    if (answers.values > 0).all():
        transforms = list(Transform)
    processes = [StructureProcess(compared, answers, transform) for transform in transforms]
    return max(processes, key=lambda process: round(process.log_score(), 6))


def _most_probable(similarity: Array, products: Array, target: Array) -> Array:
    """Returns (3,) logarithms of a, b and s with the largest posterior density."""
    bounds = [(centre - 4 * WIDTH, centre + 4 * WIDTH) for centre in CENTRES]
    loss = density(similarity, products, target)
    found = minimize(loss, CENTRES, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40})
    return np.asarray(found.x)


def density(similarity: Array, products: Array, target: Array) -> Callable[[Array], tuple[float, Array]]:
    """Returns a function of (3,) logarithms of a, b and s: minus the log density of their posterior but for a constant,
    and its gradient (3,). similarity, products: (n, n). target: (n,) standardised answers."""
    n = len(target)

    def loss(log_values: Array) -> tuple[float, Array]:
        a, b, noise = np.exp(2 * log_values)
        covariance = a * similarity + b * products
        covariance[np.diag_indices(n)] += noise + JITTER
        try:
            factor = cho_factor(covariance, lower=True)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros(3)
        inverse = cho_solve(factor, np.eye(n))
        weights = inverse @ target
        inner = inverse - np.outer(weights, weights)
        from_prior = (log_values - CENTRES) / WIDTH
        value = target @ weights / 2 + np.log(np.diag(factor[0])).sum() + (from_prior**2).sum() / 2
        gradient = np.array([a * np.vdot(inner, similarity), b * np.vdot(inner, products), noise * np.trace(inner)])
        return float(value), gradient + from_prior / WIDTH

    return loss
