"""Differences of free energy between states from samples of both: BAR for two states, MBAR for more, and their overlap.

Free energies and potentials are reduced, in units of kT: the potential of a state at its temperature (and its pressure
times the volume) over kT. The samples of a state must be independent: `series_statistics.independent_indices`.

Two states that share no configurations have a difference with a small error that means nothing. So the overlap of
neighbours is checked, and too little of it ends by name.

Sources: BAR: Bennett, J. Comput. Phys. 22, 245 (1976); the error is its eq. 10a. MBAR: Shirts, Chodera, J. Chem. Phys.
129, 124105 (2008), by their package pymbar. Overlap and its limit of 0.03: Klimovich, Shirts, Mobley, J. Comput.-Aided
Mol. Des. 29, 397 (2015).
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_simulators.geometry_and_its_checks import failure

Array = NDArray[np.float64]

MIN_OVERLAP = 0.03  # of neighbouring states, for equal numbers of samples at most 0.5
MIN_SAMPLES = 10  # of a state
MAX_ITERATIONS = 200
TOLERANCE = 1e-10  # kT


@dataclass(frozen=True)
class FreeEnergyDifference:
    """The free energy of a second state less that of the first, in kT."""

    value: float
    uncertainty: float
    """Standard error for independent samples."""
    overlap: float
    """Probability that a sample of the first state is taken for one of the second, were there as many of both; 0 for
    states without a common configuration, 0.5 for equal ones."""


@dataclass(frozen=True, eq=False)
class FreeEnergies:
    """The free energies of K states in kT."""

    values: Array
    """K x K, the free energy of the column's state less that of the row's."""
    uncertainties: Array
    """K x K, standard errors for independent samples."""
    overlap: Array
    """K x K, probability that a sample of the row's state is taken for one of the column's; each row adds up to 1."""


def bar(forward: ArrayLike, backward: ArrayLike, min_overlap: float = MIN_OVERLAP) -> FreeEnergyDifference:
    """Returns the difference of free energy of two states by the acceptance ratio of Bennett.

    forward: (n,), reduced potential of the second state less that of the first, at n samples of the first.
    backward: (m,), that of the first state less that of the second, at m samples of the second.

    The value solves sum f(M + forward - value) = sum f(value - M + backward) with the Fermi function f(x) = 1 / (1 +
    exp x) and M = ln(n / m), by bisection.

    Raises SimulatorError not_converged (no_overlap; not_equilibrated for fewer than 10 samples of a state), implausible
    (not_finite).
    """
    to_second = _checked_differences(forward)
    to_first = _checked_differences(backward)
    ratio = math.log(len(to_second) / len(to_first))
    value = _balanced(to_second + ratio, to_first - ratio)
    at_first = _fermi(to_second + ratio - value)
    at_second = _fermi(to_first - ratio + value)
    overlap = _overlap_of_two(to_second - value, to_first + value)
    if not overlap >= min_overlap:
        raise no_overlap(overlap, min_overlap, 0, 1)
    variance = _relative_variance(at_first) + _relative_variance(at_second)
    return FreeEnergyDifference(value, math.sqrt(variance), overlap)


def mbar(potentials: ArrayLike, counts: ArrayLike, min_overlap: float = MIN_OVERLAP) -> FreeEnergies:
    """Returns the free energies of K states by the multistate acceptance ratio, as pymbar solves it.

    potentials: K x N, the reduced potential of each state at each of the N samples of all states, which are sorted by
    the state they were drawn from. counts: (K,), samples of each state, which add up to N.

    Raises SimulatorError not_converged (no_overlap, for two neighbours in the order of the states; not_equilibrated for
    fewer than 10 samples of a state), implausible (not_finite); ImportError without pymbar.
    """
    energies = np.asarray(potentials, dtype=float)
    n_samples = np.asarray(counts, dtype=int)
    if energies.ndim != 2 or n_samples.shape != energies.shape[:1] or len(energies) < 2:
        raise ValueError(f"{energies.shape} potentials do not fit the counts of {n_samples.shape} states")
    if n_samples.min() < 0 or n_samples.sum() != energies.shape[1]:
        raise ValueError(f"the counts add up to {n_samples.sum()}, and there are {energies.shape[1]} samples")
    _check_samples(energies, int(n_samples.min()))
    estimator: Any = _pymbar().MBAR(energies, n_samples)
    overlap = np.asarray(estimator.compute_overlap()["matrix"], dtype=float)
    check_neighbours(overlap, min_overlap)
    found = estimator.compute_free_energy_differences()
    return FreeEnergies(np.asarray(found["Delta_f"]), np.asarray(found["dDelta_f"]), overlap)


def check_neighbours(overlap: Array, min_overlap: float = MIN_OVERLAP) -> None:
    """Checks the overlap of neighbours in the order of the states. overlap: K x K, as in FreeEnergies.

    Raises SimulatorError not_converged (no_overlap).
    """
    for first in range(len(overlap) - 1):
        shared = float(min(overlap[first, first + 1], overlap[first + 1, first]))
        if not shared >= min_overlap:
            raise no_overlap(shared, min_overlap, first, first + 1)


def no_overlap(overlap: float, min_overlap: float, first: int, second: int) -> Exception:
    """Returns the error of two states, by their positions, that share too few configurations."""
    return failure(
        Reason.NO_OVERLAP,
        f"states {first} and {second} overlap by {overlap:.2g}, and {min_overlap:g} is needed: put states in between",
        overlap=overlap,
        states=[first, second],
    )


def _balanced(to_second: Array, to_first: Array) -> float:
    """Returns the value at which the Fermi functions of both directions have equal sums."""

    def excess(value: float) -> float:
        return float(_fermi(to_second - value).sum() - _fermi(to_first + value).sum())

    low = float(min(to_second.min(), -to_first.max())) - 50.0
    high = float(max(to_second.max(), -to_first.min())) + 50.0
    for _ in range(MAX_ITERATIONS):
        middle = (low + high) / 2
        if excess(middle) < 0:  # grows with the value
            low = middle
        else:
            high = middle
        if high - low < TOLERANCE:
            break
    return (low + high) / 2


def _fermi(x: Array) -> Array:
    """Returns 1 / (1 + exp x) without overflow."""
    values: Array = 0.5 * (1 - np.tanh(x / 2))
    return values


def _relative_variance(weights: Array) -> float:
    """Returns the variance of the mean of independent weights over the square of the mean."""
    mean = float(weights.mean())
    if mean <= 0:
        return math.inf
    return (float(np.mean(weights**2)) / mean**2 - 1) / len(weights)


def _overlap_of_two(to_second: Array, to_first: Array) -> float:
    """Returns the overlap of two states for equal numbers of samples, from potentials less the free energies.

    The probability that a configuration is one of the second state is p = f(to_second); the overlap is the mean of p in
    the first state, which equals that of 1 - p in the second. The smaller of the two estimates is returned.
    """
    return float(min(_fermi(to_second).mean(), _fermi(to_first).mean()))


def _checked_differences(differences: ArrayLike) -> Array:
    values: Array = np.asarray(differences, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"potential differences have the shape (n,), not {values.shape}")
    _check_samples(values, len(values))
    return values


def _check_samples(values: Array, fewest: int) -> None:
    """Raises SimulatorError for too few samples of a state, and for values that are not finite."""
    if fewest < MIN_SAMPLES:
        raise failure(
            Reason.NOT_EQUILIBRATED,
            f"a state has {fewest} samples; {MIN_SAMPLES} are needed",
            independent_samples=fewest,
        )
    if not np.isfinite(values).all():
        raise failure(Reason.NOT_FINITE, "a reduced potential is NaN or infinite")


def _pymbar() -> Any:
    """Returns pymbar. While it is imported its logger is silent, which would ask for JAX and warn of short series."""
    logger = logging.getLogger("pymbar")
    was_disabled = logger.disabled
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        import pymbar
    finally:
        logger.setLevel(level)
        logger.disabled = was_disabled
    return pymbar
