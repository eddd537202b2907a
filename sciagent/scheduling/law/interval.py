"""What the laws foretell of an answer: its mean, and the interval that it lies in nine times in ten.

Errors have tails: nine in ten lie nearer than the 1.645 standard deviations of a normal, and a few much further. So the
interval reaches as far as nine in ten of the leave-one-out errors of the law's own rows do, in units of what was
foretold for each. The variance stays what it is, for hits are found in the tails.

Source: split conformal intervals scaled by a foretold spread, Lei et al., J. Am. Stat. Assoc. 113, 1094 (2018), with
leave-one-out residuals as in the jackknife+, Barber et al., Ann. Stat. 49, 486 (2021). In spirit only: the hyper-
parameters have seen the row that is left out, the quantile is shrunk, and a campaign does not choose its rows at
random, so none of their guarantees hold. What is measured stands in benchmarks/scheduling/README.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sciagent.scheduling.arrays import Array, Mask, Places

if TYPE_CHECKING:
    from sciagent.scheduling.law.stack import Law
    from sciagent.scheduling.law.transforms import TruthTransform


INSIDE = 0.9
NORMAL = 1.6449  # standard deviations that so many lie within, of a normal
NORMAL_ROWS = 30.0  # that the normal counts for: so few errors tell little of the tenth that lies furthest out


@dataclass(frozen=True)
class PredictionInterval:
    """Mean and ends of the interval of n answers, (n,) each."""

    mean: Array
    low: Array
    high: Array

    def in_unit(self, truth: TruthTransform) -> PredictionInterval:
        """The same in the rung's own unit. Where lower values are better the ends change places."""
        ends = truth.inverse(self.low), truth.inverse(self.high)
        return PredictionInterval(truth.inverse(self.mean), *(ends if truth.sign > 0 else ends[::-1]))

    def holds(self, answers: Array) -> Mask:
        """Which answers lie in their intervals, (n,)."""
        return (self.low <= answers) & (answers <= self.high)


@dataclass(frozen=True)
class Reach:
    """Standard deviations that nine in ten answers lie within. size: where it was learned, for means from low to high.
    Beyond them it is no less than a normal's: a campaign verifies what promises most, and its law, sure of that, says
    little of the rest."""

    low: float
    high: float
    size: float

    @classmethod
    def of(cls, mean: Array, away: Array) -> Reach:
        """mean: (n,) leave-one-out means; away: (n,) sizes of their errors, in foretold standard deviations.

        size = (n q + 30 * 1.6449) / (n + 30), where q is the 90 % quantile of `away`: shrunk to the normal's, for at 20
        rows q is the second or third largest of them and would jump with every answer. Four in five means lie from low
        to high.
        """
        n = len(away)
        size = (n * float(np.quantile(away, INSIDE)) + NORMAL_ROWS * NORMAL) / (n + NORMAL_ROWS)
        low, high = np.quantile(mean, [1 - INSIDE, INSIDE])
        return cls(float(low), float(high), size)

    def __call__(self, mean: Array) -> Array:
        return np.where((mean >= self.low) & (mean <= self.high), self.size, max(self.size, NORMAL))


def mixture(laws: Sequence[Law], question: int, of: Places) -> tuple[Array, Array, Array]:
    """Mean and standard deviation of the answers of the candidates `of` by the laws together, and how many standard
    deviations the interval reaches, by their weights; (n,) each, in the law's unit."""
    mean, square, reach = np.zeros((3, len(of)))
    for law in laws:
        chain = law.chains[question]
        for places, forecast in chain.forecast(of):
            reach[places] += law.weight * chain.reach(forecast.mean)
            mean[places] += law.weight * forecast.mean
            square[places] += law.weight * (forecast.variance + forecast.mean**2)
    return mean, np.sqrt(np.maximum(square - mean**2, 1e-12)), reach


def foretell(laws: Sequence[Law], question: int, of: Places) -> PredictionInterval:
    """Predicts the answers of the candidates `of`, (n,), in the law's unit: mean ± reach * sd of the laws' mixture."""
    mean, sd, reach = mixture(laws, question, of)
    return PredictionInterval(mean, mean - reach * sd, mean + reach * sd)
