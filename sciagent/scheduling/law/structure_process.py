"""A Gaussian process over structures for one quantity, which foretells it for candidates that are not measured.

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
from typing import TYPE_CHECKING, Protocol

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
SAME = 0.9999  # similarity from which two structures are the same to the law
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
        return self.compare_with(rows, self, columns)

    def compare_with(self, rows: RowIndices, other: ComparedStructures, columns: RowIndices) -> tuple[Array, Array]:
        """Returns (n, m) similarities and products of structures with those that `other` holds."""
        width = min(self._linear.shape[1], other._linear.shape[1])  # 0 while one of the two is empty
        products = self._linear[rows, :width] @ other._linear[columns, :width].T
        return self.similarities(rows, other, columns), products.astype(float)

    def similarities(self, rows: RowIndices, other: ComparedStructures, columns: RowIndices) -> Array:
        """Returns (n, m) similarities of structures to those that `other` holds."""
        return self._similarity.across(rows, other._similarity, columns)

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
    """The answers on some of the structures."""

    rows: RowIndices
    """(n,) places of the measured structures."""
    values: Array
    """(n,) values, in the canonical unit of the quantity."""


class ProcessPrior(Protocol):
    """The knowledge of a quantity before a campaign's own answers, transformed and standardised."""

    transform: Transform
    centre: float
    scale: float
    noise: float
    """Variance of an answer about the mean of its candidate."""

    def mean(self, rows: RowIndices) -> Array:
        """Returns (n,) means of structures."""

    def covariance(self, rows: RowIndices, columns: RowIndices) -> Array:
        """Returns (n, m) covariances of structures, without noise."""

    def variance(self, rows: RowIndices) -> Array:
        """Returns (n,) variances of structures, without noise."""


class FreshPrior:
    """The prior without any past: its centre, scale and hyper-parameters are those of the campaign's own answers.

    log_hyper: (3,) logarithms of a, b and s; None: the most probable ones.
    """

    def __init__(
        self, compared: ComparedStructures, answers: Answers, transform: Transform, log_hyper: Array | None = None
    ) -> None:
        self.transform = transform
        self._compared = compared
        y = transform(answers.values)
        self.centre = float(y.mean())
        self.scale = float(y.std()) + SMALLEST_SPREAD * max(float(np.abs(y).mean()), 1e-12)
        self.length = float(compared.lengths(answers.rows).mean()) or 1.0
        if log_hyper is None:
            places = _spread_over(len(y))
            similarity, products = compared.compare(answers.rows[places], answers.rows[places])
            target = (y[places] - self.centre) / self.scale
            log_hyper = _most_probable(similarity, products / self.length, target)
        self.log_hyper = log_hyper
        self.noise = float(np.exp(2 * self.log_hyper[2])) + JITTER

    def mean(self, rows: RowIndices) -> Array:
        return np.zeros(len(rows))

    def covariance(self, rows: RowIndices, columns: RowIndices) -> Array:
        similarity, products = self._compared.compare(rows, columns)
        return _combined(self.log_hyper, similarity, products / self.length)

    def variance(self, rows: RowIndices) -> Array:
        return _own_variance(self.log_hyper, self._compared.lengths(rows) / self.length)


class StructureMemory:
    """The past answers on one quantity at one level, as a process whose posterior is the prior of a campaign.

    log_hyper: (3,) logarithms of a, b and s; None: the most probable ones.
    """

    def __init__(
        self, compared: ComparedStructures, values: Array, transform: Transform, log_hyper: Array | None = None
    ) -> None:
        every = np.arange(len(values))
        fresh = FreshPrior(compared, Answers(every, values), transform, log_hyper)
        self.compared = compared
        self.fresh = fresh
        similarity, products = compared.compare(every, every)
        covariance = _combined(fresh.log_hyper, similarity, products / fresh.length)
        covariance[np.diag_indices(len(values))] += fresh.noise
        self.factor = np.linalg.cholesky(covariance)
        target = (transform(values) - fresh.centre) / fresh.scale
        self.white_target = solve_triangular(self.factor, target, lower=True)

    def whitened(self, compared: ComparedStructures, rows: RowIndices) -> Array:
        """Returns (n, m) such that products of columns are what the n past answers explain of the covariances of the m
        structures."""
        every = np.arange(len(self.white_target))
        similarity, products = self.compared.compare_with(every, compared, rows)
        covariance = _combined(self.fresh.log_hyper, similarity, products / self.fresh.length)
        white: Array = solve_triangular(self.factor, covariance, lower=True, overwrite_b=True, check_finite=False)
        return white


class MemoryPrior:
    """The prior that a memory gives of the structures of a campaign. compared: they; more may be added to it later."""

    def __init__(self, memory: StructureMemory, compared: ComparedStructures) -> None:
        self.transform = memory.fresh.transform
        self.centre = memory.fresh.centre
        self.scale = memory.fresh.scale
        self.noise = memory.fresh.noise
        self._memory = memory
        self._compared = compared
        self._known_white = memory.whitened(compared, np.arange(len(compared)))

    @property
    def _white(self) -> Array:
        """(n, m) whitened covariances of the n past answers with the m structures, also with those added later."""
        n_known = self._known_white.shape[1]
        if n_known < len(self._compared):
            added = self._memory.whitened(self._compared, np.arange(n_known, len(self._compared)))
            self._known_white = np.hstack([self._known_white, added])
        return self._known_white

    def mean(self, rows: RowIndices) -> Array:
        means: Array = self._white[:, rows].T @ self._memory.white_target
        return means

    def covariance(self, rows: RowIndices, columns: RowIndices) -> Array:
        fresh = self._memory.fresh
        similarity, products = self._compared.compare(rows, columns)
        covariance = _combined(fresh.log_hyper, similarity, products / fresh.length)
        covariance -= self._white[:, rows].T @ self._white[:, columns]
        return covariance

    def variance(self, rows: RowIndices) -> Array:
        fresh = self._memory.fresh
        own = _own_variance(fresh.log_hyper, self._compared.lengths(rows) / fresh.length)
        left: Array = np.maximum(own - (self._white[:, rows] ** 2).sum(0), 0.0)
        return left


def _combined(log_hyper: Array, similarity: Array, products: Array) -> Array:
    """Returns (n, m) covariances, in the place of the similarities. products: scaled by the mean length."""
    a, b, _ = np.exp(2 * log_hyper)
    similarity *= a
    similarity += b * products
    return similarity


def _own_variance(log_hyper: Array, lengths: Array) -> Array:
    """Returns (n,) variances. lengths: squared, scaled by their mean."""
    a, b, _ = np.exp(2 * log_hyper)
    variances: Array = a + b * lengths
    return variances


class StructureProcess:
    """The process of one quantity, after a campaign's own answers, of which there may be none with a past."""

    def __init__(self, prior: ProcessPrior, answers: Answers) -> None:
        self.prior = prior
        self._answers = answers
        self._target = (prior.transform(answers.values) - prior.centre) / prior.scale - prior.mean(answers.rows)
        covariance = prior.covariance(answers.rows, answers.rows)
        covariance[np.diag_indices(len(self._target))] += prior.noise
        self._factor = np.linalg.cholesky(covariance)
        self._weights = cho_solve((self._factor, True), self._target)

    def left_out(self) -> tuple[Array, Array]:
        """Returns (n,) means and standard deviations of each answer without itself, transformed."""
        inverse = cho_solve((self._factor, True), np.eye(len(self._target)))
        variance = 1 / np.diag(inverse)
        mean = self._target - self._weights * variance + self.prior.mean(self._answers.rows)
        return self._restored(mean), np.sqrt(variance) * self.prior.scale

    def mean_error(self) -> float:
        """Returns the mean absolute error of the answers, each without itself, in the unit of the quantity."""
        mean, _ = self.left_out()
        return float(np.abs(self.prior.transform.inverse(mean) - self._answers.values).mean())

    def errors_in_order(self) -> Array:
        """Returns (n,) absolute errors of the answers in standard deviations, each foretold by the prior and by the
        answers before it."""
        errors: Array = np.abs(solve_triangular(self._factor, self._target, lower=True))
        return errors

    def log_score(self) -> float:
        """Returns the log density of the answers, each without itself, in the unit of the quantity."""
        mean, sd = self.left_out()
        values = self._answers.values
        z = (self.prior.transform(values) - mean) / sd
        return float(-(z**2 / 2 + np.log(sd)).sum()) + self.prior.transform.log_slope(values)

    def foretell(self, rows: RowIndices) -> tuple[Array, Array]:
        """Returns (n,) means and standard deviations of answers on structures, transformed."""
        covariance = self.prior.covariance(self._answers.rows, rows)
        mean = self.prior.mean(rows) + covariance.T @ self._weights
        explained = (solve_triangular(self._factor, covariance, lower=True) ** 2).sum(0)
        variance = np.maximum(self.prior.variance(rows) - explained, 0.0) + self.prior.noise
        return self._restored(mean), np.sqrt(variance) * self.prior.scale

    def _restored(self, standardised: Array) -> Array:
        return standardised * self.prior.scale + self.prior.centre

    def chance(self, rows: RowIndices, low: float, high: float) -> Array:
        """Returns (n,) probabilities that answers lie between two values of the quantity; either may be infinite."""
        mean, sd = self.foretell(rows)
        return between(mean, sd, self.limit(low), self.limit(high))

    def limit(self, value: float) -> float:
        """Returns a value of the quantity, which may be infinite, as the process has it."""
        return value if math.isinf(value) else float(self.prior.transform(np.array([value]))[0])


def fitted_memory(compared: ComparedStructures, values: Array) -> StructureMemory:
    """Returns the memory with the transform and the hyper-parameters that are fitted to some of its answers. values:
    (n,) of all structures, in their order."""
    few = _spread_over(len(values))
    fresh = fitted(compared, Answers(few, values[few])).prior
    assert isinstance(fresh, FreshPrior)
    return StructureMemory(compared, values, fresh.transform, fresh.log_hyper)


def _spread_over(n: int) -> RowIndices:
    """Returns at most MOST_FITTED of n places, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, MOST_FITTED)).round().astype(int))


def fitted(compared: ComparedStructures, answers: Answers) -> StructureProcess:
    """Returns the process with the transform that foretells the left-out answers best; log and square root are tried
    where all answers are positive."""
    transforms = [Transform.NONE]
    if (answers.values > 0).all():
        transforms = list(Transform)
    processes = [StructureProcess(FreshPrior(compared, answers, each), answers) for each in transforms]
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
