"""Mean and error of a correlated series: equilibration, correlation, blocks and replicas.

A simulation gives a series of n samples of which each resembles the one before. The n samples are worth n / g
independent ones, where the statistical inefficiency g = 1 + 2 tau, and tau is the autocorrelation time in samples. The
beginning, which remembers the start, is cut where most independent samples remain.

The uncertainty of a mean is its repeatability: the standard deviation with which another run of the same simulation
would give another mean. It holds no error of the force field. Of 250 draws of autoregressive series, the mean was
within 1.96 uncertainties in 95 % for one series with 160 independent samples and for three with 42 each, and in 91 %
for one with 53. With a start 2 to 8 standard deviations away it was in 86 to 93 %: what is left of the way to
equilibrium after the cut biases the mean by 0.3 to 0.7 uncertainties.

Sources: equilibration: Chodera, J. Chem. Theory Comput. 12, 1799 (2016). Statistical inefficiency: Chodera et al., J.
Chem. Theory Comput. 3, 26 (2007), with the correction for a finite series of Wolff, Comput. Phys. Commun. 156, 143
(2004). Blocking: Flyvbjerg, Petersen, J. Chem. Phys. 91, 461 (1989), with the choice of the block length of Lee et al.,
Phys. Rev. E 83, 066706 (2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_simulators.geometry_and_its_checks import failure

Array = NDArray[np.float64]

MIN_INDEPENDENT = 20.0  # independent samples of all replicas together, below which there is no mean
MAX_DRIFT = 4.0  # standard errors by which the means of two halves may differ
N_STARTS = 26  # starts of the equilibrated part that are tried, in steps of 2 percent of the series
MIN_BLOCKS = 8  # blocks from whose scatter an error is estimated
MAX_SAMPLES = 50_000_000


@dataclass(frozen=True)
class Equilibration:
    """The part of a series in which most independent samples remain."""

    start: int
    """Index of the first sample of the part."""
    inefficiency: float
    """Samples for each independent one in the part, 1 or more."""
    independent: float
    """Independent samples in the part."""


@dataclass(frozen=True)
class ReplicaMean:
    """The mean of a quantity over the equilibrated parts of one or more replicas; each replica counts alike.

    All values but the counts are in the unit of the series.
    """

    mean: float
    uncertainty: float
    """Standard error of the mean: the larger of `between` and `within`."""
    between: float | None
    """Standard error from the scatter of the replicas' means; None for one replica."""
    within: float
    """Standard error from the correlations within the replicas."""
    independent: float
    """Independent samples of all replicas together."""
    drift: float
    """Largest difference of the means of two halves, in its standard errors."""
    parts: tuple[Equilibration, ...]
    """The equilibrated part of each replica."""


def statistical_inefficiency(series: ArrayLike) -> float:
    """Returns the number of samples of a series, (n,), for each independent one: between 1 and n.

    The autocorrelation is summed up to its first value that is not positive, since the rest is noise. A constant series
    has the value n: it shows no second sample. The sum is multiplied by 1 + (2 W + 1) / n for a window of W lags, since
    the mean that is subtracted is that of the same series, which lowers the autocorrelation.

    Raises SimulatorError implausible (not_finite), ValueError for an empty series.
    """
    values = _checked(series)
    n = len(values)
    deviations = values - values.mean()
    if not _varies(values):
        return float(n)
    correlation = autocovariance(deviations) / float(np.mean(deviations**2))
    noise = np.flatnonzero(correlation[1:] <= 0)
    last = int(noise[0]) if len(noise) else n - 1
    lags = np.arange(1, last + 1)
    g = 1 + 2 * float(np.sum((1 - lags / n) * correlation[1 : last + 1]))
    g *= 1 + (2 * last + 1) / n
    return min(max(g, 1.0), float(n))


def autocovariance(deviations: Array) -> Array:
    """Returns the mean of x(i) x(i + t) over all i for each lag t, (n,), of deviations from a mean, (n,)."""
    n = len(deviations)
    spectrum = np.fft.rfft(deviations, _fast_length(2 * n))
    products = np.fft.irfft(np.abs(spectrum) ** 2, _fast_length(2 * n))[:n]
    covariance: Array = products / np.arange(n, 0, -1)
    return covariance


def equilibration(series: ArrayLike) -> Equilibration:
    """Returns the part of a series, (n,), from some start to its end, in which most independent samples remain.

    26 starts are tried, from the first sample to the middle. The inefficiency of the part is the median of those from
    its start on: the best of many parts is one whose correlations look short by chance. A series that equilibrates in
    its second half drifts, which `largest_drift` finds.

    Raises SimulatorError implausible (not_finite), ValueError for an empty series.
    """
    values = _checked(series)
    starts = np.unique(np.linspace(0, len(values) // 2, N_STARTS).astype(int))
    inefficiencies = np.array([statistical_inefficiency(values[start:]) for start in starts])
    best = int(np.argmax((len(values) - starts) / inefficiencies))
    inefficiency = max(float(np.median(inefficiencies[best:])), float(inefficiencies[best]))
    start = int(starts[best])
    return Equilibration(start, inefficiency, (len(values) - start) / inefficiency)


def blocking_error(series: ArrayLike) -> float | None:
    """Returns the standard error of the mean of a series, (n,), by blocking; None for fewer than 16 samples.

    Neighbours are averaged in pairs again and again. The error from the scatter of the blocks grows until they are
    independent. The first block length B is taken with B^3 > 2 n (error(B) / error(1))^4; where none is so long, the
    longest that leaves 8 blocks, which is then a lower limit.

    Raises SimulatorError implausible (not_finite), ValueError for an empty series.
    """
    blocks = _checked(series)
    n = len(blocks)
    if n < 2 * MIN_BLOCKS:
        return None
    first = _error_of_independent(blocks)
    if first == 0:
        return 0.0
    length = 1
    error = first
    while len(blocks) >= 2 * MIN_BLOCKS and length**3 <= 2 * n * (error / first) ** 4:
        even = len(blocks) // 2 * 2
        blocks = blocks[:even].reshape(-1, 2).mean(axis=1)
        length *= 2
        error = _error_of_independent(blocks)
    return error


def standard_error(series: ArrayLike, inefficiency: float | None = None) -> float:
    """Returns the standard error of the mean of an equilibrated series, (n,), n >= 2.

    It is the larger of two, each of which may be too small: that of the statistical inefficiency, widened as Student's
    distribution is, and that of blocking.

    inefficiency: that of the series; None computes it.
    Raises SimulatorError implausible (not_finite), ValueError for fewer than 2 samples.
    """
    values = _checked(series, at_least=2)
    n_independent = len(values) / (inefficiency or statistical_inefficiency(values))
    by_correlation = float(values.std(ddof=1)) * _widening(n_independent) / math.sqrt(n_independent)
    by_blocks = blocking_error(values)
    return by_correlation if by_blocks is None else max(by_correlation, by_blocks)


def mean_of_replicas(
    replicas: Sequence[ArrayLike], min_independent: float = MIN_INDEPENDENT, quantity: str = "a series"
) -> ReplicaMean:
    """Returns the mean over the equilibrated parts of R replicas of a simulation, with its uncertainty.

    replicas: R series of the same quantity, which may differ in length; each is cut on its own. quantity: what a
    failure calls it.
    The uncertainty is sqrt(max(s2_between / R, s2_blocks)): s2_between is the variance of the replicas' means, and
    s2_blocks that of the overall mean as the correlations within each replica give it.

    Raises SimulatorError not_converged (not_equilibrated) for fewer than `min_independent` independent samples of all
    replicas together, and for halves of the equilibrated parts, of one replica or of all, whose means differ by more
    than 4 standard errors; implausible (not_finite). Raises ValueError without replicas.
    """
    if not len(replicas):
        raise ValueError("there is no replica to average over")
    series = [_checked(replica) for replica in replicas]
    parts = tuple(equilibration(values) for values in series)
    n_independent = sum(part.independent for part in parts)
    starts = ", ".join(str(part.start) for part in parts)
    if n_independent < min_independent:
        raise failure(
            Reason.NOT_EQUILIBRATED,
            f"{quantity}: only {n_independent:.1f} independent samples of {sum(map(len, series))} remain; "
            f"{min_independent:g} are needed: simulate longer",
            independent_samples=n_independent,
            starts=[part.start for part in parts],
        )
    kept = [values[part.start :] for values, part in zip(series, parts, strict=True)]
    drift = largest_drift(kept)
    if drift > MAX_DRIFT:
        raise failure(
            Reason.NOT_EQUILIBRATED,
            f"{quantity}: the means of the two halves after sample {starts} differ by {drift:.1f} standard errors: "
            "simulate longer",
            independent_samples=n_independent,
            drift=drift,
            starts=[part.start for part in parts],
        )
    means = np.array([values.mean() for values in kept])
    errors = np.array([standard_error(v, part.inefficiency) for v, part in zip(kept, parts, strict=True)])
    within = float(np.sqrt(np.sum(errors**2))) / len(kept)
    between = _error_of_independent(means) if len(kept) > 1 else None
    return ReplicaMean(
        mean=float(means.mean()),
        uncertainty=max(within, between or 0.0),
        between=between,
        within=within,
        independent=n_independent,
        drift=drift,
        parts=parts,
    )


def largest_drift(replicas: Sequence[Array]) -> float:
    """Returns the largest difference of the means of the two halves, in its standard errors.

    It is taken for each replica with 20 independent samples or more, and for the average of all replicas. Replicas
    drift alike where they start alike, which their average shows best.
    """
    differences = []
    variances = []
    drifts = []
    for values in replicas:
        middle = len(values) // 2
        if middle < 2:
            continue
        first = values[:middle]
        second = values[middle:]
        difference = float(second.mean() - first.mean())
        variance = standard_error(first) ** 2 + standard_error(second) ** 2
        differences.append(difference)
        variances.append(variance)
        if len(values) / statistical_inefficiency(values) >= MIN_INDEPENDENT:
            drifts.append(_in_errors(difference, variance))
    drifts.append(_in_errors(sum(differences), sum(variances)))
    return max(drifts)


def independent_indices(series: ArrayLike) -> NDArray[np.int_]:
    """Returns indices of the equilibrated part of a series, (n,), that are one statistical inefficiency apart.

    The samples at these indices count as independent, as estimators of free energies expect them.

    Raises SimulatorError implausible (not_finite), ValueError for an empty series.
    """
    values = _checked(series)
    part = equilibration(values)
    n_kept = max(1, math.floor(part.independent))
    indices: NDArray[np.int_] = np.floor(part.start + part.inefficiency * np.arange(n_kept)).astype(int)
    return indices[indices < len(values)]


def _in_errors(difference: float, variance: float) -> float:
    """Returns the size of a difference in its standard errors; 0 for two equal constants."""
    if difference == 0:
        return 0.0
    return abs(difference) / math.sqrt(variance) if variance > 0 else math.inf


def _widening(n_independent: float) -> float:
    """Returns the standard deviation of Student's distribution, for an error from so many samples; 2 at most."""
    if n_independent < 11 / 3:
        return 2.0
    return math.sqrt((n_independent - 1) / (n_independent - 3))


def _error_of_independent(values: Array) -> float:
    """Returns the standard error of the mean of independent values, (n,), n >= 2."""
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def _varies(values: Array) -> bool:
    """Returns whether a series is not constant within the precision of its numbers."""
    return float(np.ptp(values)) > 1e-13 * float(np.abs(values).max())


def _fast_length(n: int) -> int:
    """Returns the power of 2 that is n or more, at which Fourier transforms are fast."""
    return 1 << (n - 1).bit_length()


def _checked(series: ArrayLike, at_least: int = 1) -> Array:
    """Returns a series as an array, (n,). Raises SimulatorError implausible (not_finite), ValueError."""
    values: Array = np.asarray(series, dtype=float)
    if values.ndim != 1 or not at_least <= len(values) <= MAX_SAMPLES:
        raise ValueError(f"a series of {at_least} to {MAX_SAMPLES} numbers is needed, not the shape {values.shape}")
    if not np.isfinite(values).all():
        raise failure(Reason.NOT_FINITE, "a sample of the series is NaN or infinite")
    return values
