"""The calibration of a memory: its answers foretold without the groups to which they belong.

Children of one parent are near copies, so that the error of a single answer that is left out says little about a new
candidate. Whole groups are left out, such as all answers of a campaign, and the rest foretells them. A factor by which
the standard deviations are multiplied makes 90 % of the left-out answers lie within 1.645 of them. The law is as a rule
too modest near what it knows and too bold far from it, so the factor depends on the similarity to the nearest answer.
Most errors are smaller than a normal distribution with these 90 % has them, and some are much larger: chances come from
Student's t distribution with the degrees of freedom that foretell the left-out answers best.

A campaign whose own answers are known tells its own factor. Candidates that a law has chosen stand among measured ones,
and it errs less there than on those from which its factors were learnt. Each own answer is foretold by the past and by
the own ones before it, and the factor under which these errors are most probable is taken; its logarithm has a normal
prior about 0, so that a few answers move it little. A factor below 1 counts for proposals of the
campaign alone, since its errors are those of what it chose, and no farther from all answers than the own ones were from
those before them.

A new campaign is one more group. Its errors may be larger than those of all groups that are known, so the quantile is
taken above 90 %, the less so the more groups there are.

Sources: the mean and covariance of a left-out group by blocks of the inverse covariance, Rasmussen and Williams,
Gaussian Processes for Machine Learning (2006), 5.4.2, there for single rows; quantiles over groups with one that is
unseen, Lee, Barber and Willett, arXiv:2306.06342 (2023), who count it whole, which holds for any distribution; here it
counts half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from scipy.linalg import cho_solve
from scipy.optimize import isotonic_regression
from scipy.special import gammaln, ndtr, stdtr, stdtrit

from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.law.prediction_interval_width import INSIDE, NORMAL, NORMAL_ROWS
from sciagent.scheduling.law.structure_process import (
    Answers,
    ComparedStructures,
    MemoryPrior,
    StructureMemory,
    StructureProcess,
)

BIN_EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Edges of the bins of similarity to the nearest answer by which errors are counted."""
FEWEST_COUNTED = 20  # answers of a bin below which its share within the intervals is not told
FAR = 2.0
FEWEST_GROUPS = 2
UNSEEN = 0.5  # weight of the unseen group among those that are known
LARGEST_LEVEL = 0.97  # quantile that few groups ask for
FREEDOMS = (2.5, 3.0, 4.0, 6.0, 10.0, 30.0, None)  # degrees of freedom that are tried; None: normal
FACTOR_LIMITS = (0.3, 3.0)  # of a factor: beyond them the law is wrong in another way than its width
OWN_WIDTH = 0.5  # standard deviation of the prior of the own factor, in logarithms
OWN_FAR = 0.1  # quantile of the similarities of own answers below which their factor narrows nothing
OWN_FACTORS = np.linspace(-1.2, 1.2, 49)  # logarithms of own factors that are tried
CENTRES = np.array([(low + high) / 2 for low, high in pairwise(BIN_EDGES)])


@dataclass(frozen=True)
class ForetoldAnswers:
    """Answers beside what was foretold of them, (n,) each."""

    values: Array
    """The answers, in the canonical unit of the quantity."""
    foretold: Array
    """The medians that were foretold of them, in the same unit."""
    errors: Array
    """Their absolute errors in standard deviations, in the transform of the law, before any factor."""
    nearest: Array
    """The similarity of each to the nearest answer from which it was foretold."""
    groups: NDArray[np.int64]
    """The group of each, a number."""

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class SimilarityBin:
    """The errors of the answers whose nearest neighbour is about as similar."""

    low: float
    """Least similarity to the nearest answer."""
    high: float
    n: int
    factor: float
    """The factor on standard deviations at the middle of the bin."""
    covered: float | None
    """Share of answers within their 90 % intervals; None for fewer than 20 of them."""
    median_error: float | None
    """Median absolute error, in the canonical unit of the quantity; None without answers."""


@dataclass(frozen=True)
class WidthCalibration:
    """The factors on the standard deviations of a law, and how its intervals held."""

    groups: int
    """Number of groups that were left out, each in turn; 0: not calibrated, the factors are 1."""
    n: int
    """Number of left-out answers."""
    covered: float | None
    """Share of the left-out answers within their 90 % intervals, with the factors of the other groups."""
    median_error: float | None
    freedom: float | None
    """Degrees of freedom of the distribution of errors; None: they are normal."""
    bins: tuple[SimilarityBin, ...]

    def chance(self, low: Array, high: Array) -> Array:
        """Returns (n,) probabilities that errors lie between two of them, in standard deviations with their factors."""
        chances: Array = self._below(high) - self._below(low)
        return chances

    def _below(self, errors: Array) -> Array:
        if self.freedom is None:
            below: Array = ndtr(errors)
            return below
        return np.asarray(stdtr(self.freedom, errors * _end_of_interval(self.freedom) / NORMAL))

    @property
    def one_sigma(self) -> float:
        """Half the width of the interval that holds 68.3 % of errors, in standard deviations with their factors."""
        if self.freedom is None:
            return 1.0
        return float(stdtrit(self.freedom, ndtr(1.0))) * NORMAL / _end_of_interval(self.freedom)

    def own_factor(self, errors: Array) -> float:
        """Returns the factor on standard deviations that a campaign's own errors ask for; 1 without any.

        errors: (n,), in standard deviations with their factors.
        """
        scores = []
        for log_factor in OWN_FACTORS:
            density = _log_density(errors / math.exp(log_factor), self.freedom) - len(errors) * log_factor
            scores.append(density - (log_factor / OWN_WIDTH) ** 2 / 2)
        return math.exp(OWN_FACTORS[int(np.argmax(np.round(scores, 6)))])

    def as_json(self) -> Mapping[str, object]:
        """Returns what `calibration_from` reads."""
        plain: Mapping[str, object] = _CALIBRATION.dump_python(self, mode="json")
        return plain

    def factors(self, nearest: Array) -> Array:
        """Returns (n,) factors for structures. nearest: (n,) similarities to their nearest answers."""
        return _interpolated([each.factor for each in self.bins], nearest)

    def bin_of(self, nearest: float) -> SimilarityBin | None:
        """Returns the bin of a similarity to the nearest answer; None if there are no bins."""
        return next((each for each in reversed(self.bins) if nearest >= each.low), None)


_CALIBRATION = TypeAdapter(WidthCalibration)
NOT_CALIBRATED = WidthCalibration(0, 0, None, None, None, ())


def calibration_from(plain: Mapping[str, object]) -> WidthCalibration:
    """Returns the calibration that `as_json` gave. Raises ValueError for other content."""
    return _CALIBRATION.validate_python(plain)


class CalibratedProcess:
    """The process of a campaign with a past, whose standard deviations have the factors of a calibration and the one
    that the campaign's own errors ask for.

    compared: structures of the campaign; more may be added to it later. answers: own answers that the past has not.
    """

    def __init__(
        self, memory: StructureMemory, calibration: WidthCalibration, compared: ComparedStructures, answers: Answers
    ) -> None:
        self.process = StructureProcess(MemoryPrior(memory, compared), answers)
        self._memory = memory
        self._calibration = calibration
        self._compared = compared
        self._own = answers.rows
        similarity = self.similarities(answers.rows)
        n_past = len(similarity) - len(answers.rows)
        similarity[n_past:] = np.triu(similarity[n_past:], 1)  # to those that came before
        nearest = _largest(similarity)
        errors = self.process.errors_in_order() / calibration.factors(nearest)
        self.own_factor = calibration.own_factor(errors)
        self._least_similarity = float(np.quantile(nearest, OWN_FAR)) if len(nearest) else 1.0

    def similarities(self, rows: RowIndices) -> Array:
        """Returns (n, m) similarities of all answers, first of the past and then of the campaign, to structures."""
        past = self._memory.compared
        of_past = past.similarities(np.arange(len(past)), self._compared, rows)
        return np.vstack([of_past, self._compared.similarities(self._own, self._compared, rows)])

    def foretell(self, rows: RowIndices, nearest: Array | None = None, *, are_own: bool = True) -> tuple[Array, Array]:
        """Returns (n,) means and standard deviations of answers on structures, transformed.

        nearest: (n,) similarities to the nearest answer; None: they are computed. are_own: whether the structures are
        proposals of the campaign.
        """
        if nearest is None:
            nearest = _largest(self.similarities(rows))
        mean, sd = self.process.foretell(rows)
        return mean, sd * self._calibration.factors(nearest) * self.own_factors(nearest, are_own=are_own)

    def own_factors(self, nearest: Array, *, are_own: bool = True) -> Array:
        """Returns (n,) factors that own errors ask for. nearest: (n,) similarities to the nearest answer. are_own:
        whether the structures are proposals of the campaign; others are never narrowed."""
        is_far = (nearest < self._least_similarity) | (not are_own)
        factors: Array = np.where(is_far, max(self.own_factor, 1.0), self.own_factor)
        return factors

    def chances(self, mean: Array, sd: Array, low: float, high: float) -> Array:
        """Returns (n,) probabilities that answers lie between two values of the quantity; either may be infinite.

        mean, sd: (n,) of what was foretold.
        """
        return self._calibration.chance((self.process.limit(low) - mean) / sd, (self.process.limit(high) - mean) / sd)

    def chance(self, rows: RowIndices, low: float, high: float) -> Array:
        """Returns (n,) probabilities that answers on structures lie between two values of the quantity."""
        return self.chances(*self.foretell(rows), low, high)


def _largest(similarity: Array) -> Array:
    """Returns (m,) largest similarities of (n, m); 0 without answers."""
    largest: Array = similarity.max(0, initial=0.0)
    return largest


def _end_of_interval(freedom: float) -> float:
    """Returns the upper end of the 90 % interval of Student's t distribution."""
    return float(stdtrit(freedom, (1 + INSIDE) / 2))


def left_out(memory: StructureMemory, values: Array, groups: NDArray[np.int64]) -> ForetoldAnswers:
    """Returns the answers of a memory, each foretold by those of the other groups.

    values: (n,) of the memory, in its order. groups: (n,) number of each one's group, of at least two.
    """
    n = len(values)
    fresh = memory.fresh
    inverse = cho_solve((memory.factor, True), np.eye(n))
    target = (fresh.transform(values) - fresh.centre) / fresh.scale
    weights = inverse @ target
    mean = np.empty(n)
    variance = np.empty(n)
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        covariance = np.linalg.inv(inverse[np.ix_(rows, rows)])
        mean[rows] = target[rows] - covariance @ weights[rows]
        variance[rows] = np.diag(covariance)
    return ForetoldAnswers(
        values=values,
        foretold=fresh.transform.inverse(mean * fresh.scale + fresh.centre),
        errors=np.abs(target - mean) / np.sqrt(variance),
        nearest=_nearest_of_other_groups(memory, groups),
        groups=groups,
    )


def _nearest_of_other_groups(memory: StructureMemory, groups: NDArray[np.int64]) -> Array:
    """Returns (n,) similarities of each structure to the nearest one of another group."""
    nearest = np.empty(len(groups))
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        others = np.flatnonzero(groups != group)
        nearest[rows] = memory.compared.similarities(rows, memory.compared, others).max(1)
    return nearest


def calibrated(answers: ForetoldAnswers) -> WidthCalibration:
    """Returns the factors that are learnt from foretold answers of at least two groups, and how the intervals held,
    those of each group with the factors of the others."""
    groups = np.unique(answers.groups)
    if len(groups) < FEWEST_GROUPS:
        return NOT_CALIBRATED
    of_others = np.empty(len(answers))
    for group in groups:
        is_left_out = answers.groups == group
        by_bin = _factors_by_bin(answers.errors[~is_left_out], answers.nearest[~is_left_out], len(groups) - 1)
        of_others[is_left_out] = _interpolated(by_bin, answers.nearest[is_left_out])
    by_bin = _factors_by_bin(answers.errors, answers.nearest, len(groups))
    return checked(answers, of_others, by_bin, len(groups), _freedom(answers.errors / of_others))


def _freedom(errors: Array) -> float | None:
    """Returns the degrees of freedom under which errors (n,), in standard deviations with their factors, are most
    probable; None for the normal distribution."""
    scores = [_log_density(errors, freedom) for freedom in FREEDOMS]
    return FREEDOMS[int(np.argmax(np.round(scores, 6)))]


def _log_density(errors: Array, freedom: float | None) -> float:
    """Returns the log density of errors (n,), in standard deviations with their factors. freedom: degrees of freedom of
    their distribution; None: it is normal."""
    n = len(errors)
    if freedom is None:
        return float(-(errors**2).sum() / 2 - n * math.log(2 * math.pi) / 2)
    scale = NORMAL / _end_of_interval(freedom)
    constant = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - math.log(freedom * math.pi) / 2 - math.log(scale)
    logs = np.log1p((errors / scale) ** 2 / freedom)
    return float(n * constant - (freedom + 1) / 2 * logs.sum())


def checked(
    answers: ForetoldAnswers, factors: Array, by_bin: Sequence[float], groups: int, freedom: float | None = None
) -> WidthCalibration:
    """Returns how intervals held whose standard deviations were multiplied by factors (n,). by_bin: factors of the law
    at the middles of the bins. groups: number of groups that were left out. freedom: of the law."""
    covered = answers.errors <= NORMAL * factors
    errors = np.abs(answers.values - answers.foretold)
    bins = []
    for place, (low, high) in enumerate(pairwise(BIN_EDGES)):
        rows = np.flatnonzero(_bins_of(answers.nearest) == place)
        bins.append(SimilarityBin(low, high, len(rows), by_bin[place], share(covered[rows]), _median(errors[rows])))
    return WidthCalibration(groups, len(answers), share(covered), _median(errors), freedom, tuple(bins))


def _bins_of(nearest: Array) -> RowIndices:
    """Returns (n,) places of the bins of similarities."""
    places: RowIndices = np.clip(np.searchsorted(BIN_EDGES, nearest, side="right") - 1, 0, len(BIN_EDGES) - 2)
    return places


def _interpolated(by_bin: Sequence[float], nearest: Array) -> Array:
    """Returns (n,) factors at similarities, on straight lines between the middles of the bins; 1 without bins."""
    return np.interp(nearest, CENTRES, by_bin) if len(by_bin) else np.ones(len(nearest))


def _factors_by_bin(errors: Array, nearest: Array, groups: int) -> list[float]:
    """Returns the factor for each bin; a less similar structure never has a smaller one. Below the first bin up to
    which FEWEST_COUNTED answers were left out, it is at least FAR times that of this bin.

    errors: (n,), in standard deviations. nearest: (n,) similarities to the nearest answer. groups: number of groups.
    """
    places = _bins_of(nearest)
    level = min(INSIDE * (1 + UNSEEN / groups), LARGEST_LEVEL)
    of_bins = [_factor(errors[places == place], level) for place in range(len(CENTRES))]
    weights = np.bincount(places, minlength=len(CENTRES)) + NORMAL_ROWS
    descending = isotonic_regression(of_bins, weights=weights, increasing=False).x
    as_far = np.cumsum(np.bincount(places, minlength=len(CENTRES)))
    first = min(int(np.searchsorted(as_far, FEWEST_COUNTED)), len(CENTRES) - 1)
    descending[:first] = np.maximum(descending[:first], FAR * descending[first])
    return [round(float(each), 6) for each in descending]


def share(is_true: NDArray[np.bool_]) -> float | None:
    """Returns the share of true ones among (n,); None for fewer than 20."""
    return round(float(is_true.mean()), 4) if len(is_true) >= FEWEST_COUNTED else None


def _median(errors: Array) -> float | None:
    return float(np.median(errors)) if len(errors) else None


def _factor(errors: Array, level: float) -> float:
    """Returns the factor that a share `level` of errors (n,), in standard deviations, asks for.

    It is shrunk to 1, since few errors say little about the quantile.
    """
    if not len(errors):
        return 1.0
    n = len(errors)
    size = (n * float(np.quantile(errors, level)) + NORMAL_ROWS * NORMAL) / (n + NORMAL_ROWS)
    low, high = FACTOR_LIMITS
    return min(max(size / NORMAL, low), high)


@dataclass(frozen=True)
class ChanceBin:
    """Candidates of which about the same chance was said, and how many had their wish."""

    low: float
    high: float
    n: int
    said: float
    """Mean of the said chances."""
    real: float
    """Share of candidates that met the objectives."""


def chance_bins(said: Array, real: NDArray[np.bool_], size: int) -> list[ChanceBin]:
    """Returns bins of at least `size` candidates, by ascending chance. said: (n,) chances. real: (n,) whether each met
    the objectives. Fewer than `size` candidates make one bin."""
    order = np.argsort(said, kind="stable")
    n_bins = max(len(said) // size, 1)
    parts: Sequence[RowIndices] = np.array_split(order, n_bins) if len(said) else []
    return [
        ChanceBin(
            low=float(said[part[0]]),
            high=float(said[part[-1]]),
            n=len(part),
            said=float(said[part].mean()),
            real=float(real[part].mean()),
        )
        for part in parts
    ]
