"""The calibration of a memory: its answers foretold without the groups to which they belong.

Children of one parent are near copies, so that the error of a single answer that is left out says little about a new
candidate. Whole groups are left out, such as all answers of a campaign, and the rest foretells them. A factor by which
the standard deviations are multiplied makes 90 % of the left-out answers lie within 1.645 of them. The law is as a rule
too modest near what it knows and too bold far from it, so the factor depends on the similarity to the nearest answer.

Source: the mean and covariance of a left-out group by blocks of the inverse covariance, Rasmussen and Williams,
Gaussian Processes for Machine Learning (2006), 5.4.2, there for single rows; the quantile is that of `Reach`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.law.prediction_interval_width import NORMAL, Reach
from sciagent.scheduling.law.structure_process import StructureMemory

BIN_EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Edges of the bins of similarity to the nearest answer by which errors are counted."""
FEWEST_COUNTED = 20  # answers of a bin below which its share within the intervals is not told
FEWEST_GROUPS = 2
FACTOR_LIMITS = (0.3, 3.0)  # of a factor: beyond them the law is wrong in another way than its width
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
    bins: tuple[SimilarityBin, ...]

    def factors(self, nearest: Array) -> Array:
        """Returns (n,) factors for structures. nearest: (n,) similarities to their nearest answers."""
        return _interpolated([each.factor for each in self.bins], nearest)

    def bin_of(self, nearest: float) -> SimilarityBin | None:
        """Returns the bin of a similarity to the nearest answer; None if there are no bins."""
        return next((each for each in reversed(self.bins) if nearest >= each.low), None)


NOT_CALIBRATED = WidthCalibration(0, 0, None, None, ())


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
        by_bin = _factors_by_bin(answers.errors[~is_left_out], answers.nearest[~is_left_out])
        of_others[is_left_out] = _interpolated(by_bin, answers.nearest[is_left_out])
    by_bin = _factors_by_bin(answers.errors, answers.nearest)
    return checked(answers, of_others, by_bin, len(groups))


def checked(answers: ForetoldAnswers, factors: Array, by_bin: Sequence[float], groups: int) -> WidthCalibration:
    """Returns how intervals held whose standard deviations were multiplied by factors (n,). by_bin: factors of the law
    at the middles of the bins. groups: number of groups that were left out."""
    covered = answers.errors <= NORMAL * factors
    errors = np.abs(answers.values - answers.foretold)
    bins = []
    for place, (low, high) in enumerate(pairwise(BIN_EDGES)):
        rows = np.flatnonzero(_bins_of(answers.nearest) == place)
        bins.append(SimilarityBin(low, high, len(rows), by_bin[place], share(covered[rows]), _median(errors[rows])))
    return WidthCalibration(groups, len(answers), share(covered), _median(errors), tuple(bins))


def _bins_of(nearest: Array) -> RowIndices:
    """Returns (n,) places of the bins of similarities."""
    places: RowIndices = np.clip(np.searchsorted(BIN_EDGES, nearest, side="right") - 1, 0, len(BIN_EDGES) - 2)
    return places


def _interpolated(by_bin: Sequence[float], nearest: Array) -> Array:
    """Returns (n,) factors at similarities, on straight lines between the middles of the bins; 1 without bins."""
    return np.interp(nearest, CENTRES, by_bin) if len(by_bin) else np.ones(len(nearest))


def _factors_by_bin(errors: Array, nearest: Array) -> list[float]:
    """Returns the factor for each bin; a less similar structure never has a smaller one.

    errors: (n,), in standard deviations. nearest: (n,) similarities to the nearest answer.
    """
    places = _bins_of(nearest)
    of_bins = [_factor(errors[places == place]) for place in range(len(CENTRES))]
    ascending = np.maximum.accumulate(of_bins[::-1])
    return [float(each) for each in ascending[::-1]]


def share(is_true: NDArray[np.bool_]) -> float | None:
    """Returns the share of true ones among (n,); None for fewer than 20."""
    return round(float(is_true.mean()), 4) if len(is_true) >= FEWEST_COUNTED else None


def _median(errors: Array) -> float | None:
    return float(np.median(errors)) if len(errors) else None


def _factor(errors: Array) -> float:
    """Returns the factor that 90 % of errors (n,), in standard deviations, ask for; few of them count less."""
    if not len(errors):
        return 1.0
    size = Reach.of(errors, errors).size
    low, high = FACTOR_LIMITS
    return round(min(max(size / NORMAL, low), high), 6)


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
