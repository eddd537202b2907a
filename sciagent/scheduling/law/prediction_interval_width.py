"""Predicts answers with 90 % intervals.

Prediction errors have heavy tails: 90 % are smaller than the 1.645 standard deviations of a normal, and a few are much
larger. The width of the interval is therefore the 90 % quantile of the law's leave-one-out errors, in units of the
predicted standard deviation. The variance is kept, since hits are in the tails.

A campaign verifies the most promising candidates, and the law continues what it learned there in nearly straight lines
to all others. The verified answers do not show how far real relations bend outside their range, so the slope of these
lines is doubted.

Source: split conformal intervals scaled by a predicted spread, Lei et al., J. Am. Stat. Assoc. 113, 1094 (2018), with
leave-one-out residuals as in the jackknife+, Barber et al., Ann. Stat. 49, 486 (2021). Their guarantees do not hold
here: the hyper-parameters were fitted with the left-out row, the quantile is shrunk, and a campaign does not choose
rows at random. benchmarks/scheduling/README.md has measured coverage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sciagent.scheduling.array_types import Array

if TYPE_CHECKING:
    from sciagent.scheduling.law.answer_transforms import TruthTransform


INSIDE = 0.9  # probability of an answer inside its interval
NORMAL = 1.6449  # half-width of the 90 % interval of a normal, in standard deviations
NORMAL_ROWS = 30.0  # weight of the normal, in rows, since few errors say little about the quantile
BEND = 0.25  # standard deviation of the relative slope outside the range of what was verified


@dataclass(frozen=True)
class PredictionInterval:
    """Mean and limits of the predicted intervals of n answers, (n,) each."""

    mean: Array
    low: Array
    high: Array

    def in_unit(self, truth: TruthTransform) -> PredictionInterval:
        """Returns the interval in the rung's own unit. If lower values are better, the limits swap."""
        mean = truth.inverse(self.mean)
        low = truth.inverse(self.low)
        high = truth.inverse(self.high)
        if truth.sign > 0:
            return PredictionInterval(mean, low, high)
        return PredictionInterval(mean, high, low)


@dataclass(frozen=True)
class Reach:
    """Half-width of the 90 % interval, in standard deviations, by the predicted mean. Outside the range where it was
    learned, the half-width is at least the normal's: a campaign verifies the most promising candidates, so that their
    errors say little about the others."""

    low: float
    """Lower end of the predicted means for which the half-width was learned."""
    high: float
    """Upper end of the predicted means for which the half-width was learned."""
    size: float
    """Half-width from `low` to `high`."""

    @classmethod
    def none(cls) -> Reach:
        """Returns the normal's half-width, everywhere."""
        return cls(-np.inf, np.inf, NORMAL)

    @classmethod
    def of(cls, mean: Array, errors: Array) -> Reach:
        """Learns the half-width. mean: (n,) leave-one-out means; errors: (n,) absolute errors, in predicted sd.

        size = (n q + 30 * 1.6449) / (n + 30), where q is the 90 % quantile of the errors. It is shrunk to the normal's,
        since at 20 rows q is the second or third largest error and would change with every answer. 80 % of the means
        lie from low to high.
        """
        n = len(errors)
        size = (n * float(np.quantile(errors, INSIDE)) + NORMAL_ROWS * NORMAL) / (n + NORMAL_ROWS)
        low, high = np.quantile(mean, [1 - INSIDE, INSIDE])
        return cls(float(low), float(high), size)

    def __call__(self, mean: Array) -> Array:
        """Returns (n,) half-widths at these means."""
        is_inside = (mean >= self.low) & (mean <= self.high)
        return np.where(is_inside, self.size, max(self.size, NORMAL))

    def sd_by_slope_doubt(self, mean: Array) -> Array:
        """Returns (n,) standard deviations that the doubt about slopes gives to these means; 0 from `low` to `high`."""
        distance_outside = np.maximum(self.low - mean, mean - self.high)
        return BEND * np.maximum(distance_outside, 0.0)
