"""The agreement of two rungs: rank correlation with its interval, and errors if both have the same scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sciagent.scheduling.arrays import Array
from sciagent.scheduling.audit import rungs

KEPT = 5000  # largest number of candidates for the agreement of rungs in an audit, or of a judge
FEWEST = 5  # smallest number of pairs for a figure
# The zero and the scale of these energies depend on the method, so two levels are compared by rank alone.
SCALE_OF_ITS_METHOD = frozenset({"homo", "lumo", "homo_lumo_gap", "total_energy", "singlet_triplet_gap"})


class Pair(NamedTuple):
    """A candidate's values of one property at two levels, in the canonical unit."""

    x: float
    x_uncertainty: float | None
    y: float
    y_uncertainty: float | None
    hit: bool


@dataclass(frozen=True)
class RankAgreement:
    """The agreement of two levels on the same candidates."""

    n: int
    """Number of pairs."""
    spearman: float | None
    """Rank correlation; None where it is not defined."""
    low: float | None
    """Lower end of its 95 % interval."""
    high: float | None
    """Upper end of its 95 % interval."""
    mae: float | None
    """Mean absolute difference; None if the two levels have different scales."""
    bias: float | None
    """Mean of y - x; None if the two levels have different scales."""


def agreement(x: Array, y: Array, shared_scale: bool) -> RankAgreement:
    """Returns the agreement of two levels. x, y: (n,) values of the same candidates at the levels, in one unit."""
    n = len(x)
    if n < FEWEST:
        return RankAgreement(n, None, None, None, None, None)
    rho = spearman(x, y)
    low, high = (interval(rho, n) if rho is not None else None) or (None, None)
    mae = float(np.mean(np.abs(y - x))) if shared_scale else None
    bias = float(np.mean(y - x)) if shared_scale else None
    return RankAgreement(n, rho, low, high, mae, bias)


def spearman(x: Array, y: Array) -> float | None:
    """Returns Pearson's correlation of the ranks, with mean ranks for ties; None if x or y is constant."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return rungs.spearman(x, y, np.full(len(x), 1 / len(x)))


def interval(rho: float, n: int, z: float = 1.959964) -> tuple[float, float] | None:
    """Returns the 95 % interval by Fisher's transform with variance (1 + rho**2 / 2) / (n - 3), for n >= 4. Returns
    None for rho = 1 or -1, where the transform is infinite and a width of 0 would be wrong.

    Source: Bonett and Wright, Psychometrika 65, 23 (2000).
    """
    if abs(rho) > 1.0 - 1e-9:
        return None
    centre, half = math.atanh(rho), z * math.sqrt((1 + rho * rho / 2) / (n - 3))
    return math.tanh(centre - half), math.tanh(centre + half)
