"""Boltzmann weights of conformers, averages over them, and how far an average depends on which conformers were found.

A search embeds n conformers, of which the k-th was found c_k times. Another seed finds other ones. The distribution of
its set of conformers is estimated by the bootstrap: n draws with replacement from the n that were found. The average
over each possible set is computed, and their standard deviation is the repeatability of the average. A conformer that
was found once is missing from 37 % of the searches, one that was found ten times from fewer than 0.01 %.

Energies and free energies are in eV, temperatures in K.

Sources: McQuarrie, Statistical Mechanics, 1976, ch. 2; the bootstrap: Efron, Ann. Stat. 7, 1 (1979).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BOLTZMANN = 8.617333262e-5  # eV/K
UNLIKELY = 1e-6  # sets of conformers with a smaller probability are left out


class AverageKind(Enum):
    """The kinds of average over conformers with values x_k, energies E_k and degeneracies d_k."""

    MEAN = "sum w_k x_k"
    ROOT_MEAN_SQUARE = "sqrt(sum w_k x_k^2)"
    FREE_ENERGY = "-kT ln sum d_k exp(-x_k / kT)"
    FREE_ENERGY_CHANGE = "-kT ln sum w_k exp(-x_k / kT)"


@dataclass(frozen=True, eq=False)
class ConformerPopulation:
    """The k conformers of a molecule at a temperature."""

    energies: Array
    """(k,), eV; free energies where the conformers have them."""
    degeneracies: Array
    """(k,), number of equivalent wells."""
    temperature: float
    """K."""

    @property
    def weights(self) -> Array:
        """The Boltzmann weights, (k,); their sum is 1."""
        factors = boltzmann_factors(self.energies, self.degeneracies, self.temperature)
        weights: Array = factors / factors.sum()
        return weights

    def average(self, kind: AverageKind, values: Array) -> float:
        """Returns the average of the values, (k,), in their unit; for free energies eV."""
        if kind is AverageKind.MEAN:
            return float(self.weights @ values)
        if kind is AverageKind.ROOT_MEAN_SQUARE:
            return float(np.sqrt(self.weights @ values**2))
        sizes = self.degeneracies if kind is AverageKind.FREE_ENERGY else self.weights
        factors = boltzmann_factors(values, sizes, self.temperature)
        return float(values.min() - BOLTZMANN * self.temperature * np.log(factors.sum()))

    def spread(self, kind: AverageKind, values: Array, found: NDArray[np.int_], embedded: int) -> float:
        """Returns the standard deviation of the average over repeated searches, in the values' unit.

        found: (k,), how often the search found each conformer; embedded: how many conformers it embedded.
        """
        probabilities = set_probabilities(found, embedded)
        sets = [int(s) for s in np.flatnonzero(probabilities > UNLIKELY) if s]
        averages = np.array([self._part(s).average(kind, values[_members(s, len(values))]) for s in sets])
        shares = probabilities[sets]
        mean = np.average(averages, weights=shares)
        return float(np.sqrt(np.average((averages - mean) ** 2, weights=shares)))

    def _part(self, number: int) -> ConformerPopulation:
        members = _members(number, len(self.energies))
        return ConformerPopulation(self.energies[members], self.degeneracies[members], self.temperature)


def boltzmann_factors(energies: Array, degeneracies: Array, temperature: float) -> Array:
    """Returns d_k exp(-(E_k - E_lowest) / kT), (k,). temperature: K."""
    factors: Array = degeneracies * np.exp(-(energies - energies.min()) / (BOLTZMANN * temperature))
    return factors


def set_probabilities(found: NDArray[np.int_], embedded: int) -> Array:
    """Returns the probability that exactly the conformers of a set are among n draws with replacement, (2^k,).

    Bit i of a set's number tells whether conformer i is in it. By inclusion and exclusion over the subsets; conformers
    that are not in `found` may be drawn too.
    """
    k = len(found)
    bits = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    others = embedded - int(found.sum())
    probabilities: Array = ((bits @ found + others) / embedded) ** embedded  # nothing outside the set is drawn
    for i in range(k):
        inside = (np.arange(2**k) >> i) & 1 == 1
        probabilities[inside] -= probabilities[~inside]
    return np.maximum(probabilities, 0.0)


def _members(number: int, k: int) -> NDArray[np.intp]:
    """Returns the indices of the conformers in the set with this number."""
    return np.array([i for i in range(k) if number >> i & 1], dtype=np.intp)
