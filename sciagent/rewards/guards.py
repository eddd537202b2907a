"""Tests of means that may be looked at after every step, without raising the chance of a false alarm.

A gambler bets that the mean of bounded values lies above a limit. If it does not, the wealth is not expected to grow,
so that it ever reaches 1 / level with a probability of at most `level`, however often it is looked at (Ville 1939).
The bets need no distribution, no equal variances, and no number of steps that is fixed beforehand.

Sources: Waudby-Smith and Ramdas, J. R. Stat. Soc. B 86, 1 (2024), for bets on means of bounded values; Shin, Ramdas and
Rinaldo, arXiv:2203.03532, for gamblers that begin at every step, so that a late change is found as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq

from sciagent.rewards.guards.clustered import Array

STAKES = np.array([0.05, 0.1, 0.2, 0.4, 0.8])  # shares of the largest possible stake; the wealth is divided among them


class SequentialTest:
    """A test of whether the mean of values lies above a limit. The values come step by step."""

    def __init__(self) -> None:
        self._logs: Array = np.zeros((0, len(STAKES)))  # log-wealth of the gambler of each first step and stake

    def add(self, values: Sequence[float], limit: float, low: float) -> None:
        """Adds the values of a step.

        values: (n,) each at least `low`; given all earlier ones, their mean is at most `limit` under the hypothesis.
        limit: above low. It may differ from step to step, if it depends on earlier steps alone.
        """
        self._logs = np.vstack([self._logs, np.zeros(len(STAKES))])
        excess = (np.asarray(values, dtype=float) - limit) / (limit - low)
        self._logs = self._logs + np.log1p(np.outer(STAKES, excess)).sum(axis=1)

    @property
    def log_wealth(self) -> float:
        """The logarithm of the wealth. The gambler of the k-th step has 1 / (k (k + 1)) at the beginning, and keeps it
        until then; what the steps to come have is counted, too."""
        steps = len(self._logs)
        if not steps:
            return 0.0
        k = np.arange(1, steps + 1)
        shares = np.log(1 / (k * (k + 1.0)))[:, None] - np.log(len(STAKES))
        return float(np.logaddexp(np.logaddexp.reduce(self._logs + shares, axis=None), -np.log(steps + 1.0)))

    def rejects(self, level: float) -> bool:
        """Returns whether the mean lies above the limit. This is wrong once in all steps with a probability of at most
        `level`."""
        return self.log_wealth >= -math.log(level)


def upper_bound(values: Sequence[float], level: float, low: float, high: float) -> float:
    """Returns a bound above the mean of values from `low` to `high`, which fails with a probability of at most `level`.

    values: (n,). The bound may be taken again after each further value. Without values it is `high`.
    """
    x = np.asarray(values, dtype=float)
    needed = math.log(len(STAKES) / level)

    def lacking(mean: float) -> float:
        gains = np.log1p(np.outer(STAKES, (mean - x) / (high - mean))).sum(axis=1)
        return float(np.logaddexp.reduce(gains)) - needed

    top = high - 1e-6 * (high - low)
    if lacking(top) <= 0:
        return high
    begin = max(low, float(x.mean()))
    return begin if lacking(begin) >= 0 else float(brentq(lacking, begin, top, xtol=1e-6 * (high - low)))
