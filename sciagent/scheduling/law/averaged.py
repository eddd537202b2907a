"""A Gaussian process averaged over its hyper-parameters, for few rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sciagent.scheduling.arrays import Array
from sciagent.scheduling.law.hyper_parameters import likely_hypers
from sciagent.scheduling.law.kernel import Hyper
from sciagent.scheduling.law.process import Process, Rows


class Averaged:
    """The mixture of processes with likely hyper-parameters, by its first two moments. It has the interface of
    `Process`, without a basis. near: hyper-parameters near the most probable ones."""

    def __init__(self, rows: Rows, near: Hyper) -> None:
        hypers, self._weights = likely_hypers(rows, near)
        self._processes = [Process(hyper, rows) for hyper in hypers]
        self.basis = np.arange(len(rows.y))
        self.noise = float(self._weights @ [process.noise for process in self._processes])
        self.leave_one_out = self._moments(*zip(*(each.leave_one_out for each in self._processes), strict=True))

    def slopes(self, z: Array) -> Array:
        """Returns (n, d) gradients of the mean over z."""
        return self._mean([process.slopes(z) for process in self._processes])

    def foretell(self, z: Array, similarity: Array | None = None) -> tuple[Array, Array, Array]:
        """Returns mean, variance and slopes, as `Process.foretell`."""
        means, spreads, slopes = zip(*(each.foretell(z, similarity) for each in self._processes), strict=True)
        return *self._moments(means, spreads), self._mean(slopes)

    def _mean(self, values: Sequence[Array]) -> Array:
        return np.tensordot(self._weights, np.stack(values), axes=1)

    def _moments(self, means: Sequence[Array], variances: Sequence[Array]) -> tuple[Array, Array]:
        """Returns mean and variance (n,) of the mixture."""
        mean = self._mean(means)
        return mean, self._mean([v + (m - mean) ** 2 for m, v in zip(means, variances, strict=True)])
