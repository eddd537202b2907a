"""How far one rung ranks like the next: rank correlation with its interval, and errors where a scale is shared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sciagent.scheduling.arrays import Array
from sciagent.scheduling.audit import rungs

KEPT = 5000  # candidates that the agreement of rungs in an audit, or of a judge, is taken over
FEWEST = 5  # below this many pairs no figure is given
# The zero and the scale of these energies belong to the method: two levels of them are compared by rank alone.
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
    """How two levels agree on the same candidates."""

    n: int
    """Pairs."""
    spearman: float | None
    """Rank correlation; None where it is not defined."""
    low: float | None
    """Lower end of its 95 % interval."""
    high: float | None
    """Upper end of its 95 % interval."""
    mae: float | None
    """Mean absolute difference; None where the two levels have scales of their own."""
    bias: float | None
    """Mean of y - x; None where the two levels have scales of their own."""


def agreement(x: Array, y: Array, shared_scale: bool) -> RankAgreement:
    """x, y: (n,) the same molecules at two levels, one unit."""
    n = len(x)
    if n < FEWEST:
        return RankAgreement(n, None, None, None, None, None)
    rho = spearman(x, y)
    low, high = (interval(rho, n) if rho is not None else None) or (None, None)
    mae = float(np.mean(np.abs(y - x))) if shared_scale else None
    bias = float(np.mean(y - x)) if shared_scale else None
    return RankAgreement(n, rho, low, high, mae, bias)


def spearman(x: Array, y: Array) -> float | None:
    """Pearson's correlation of the ranks, ties shared; None where one of them does not vary."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return rungs.spearman(x, y, np.full(len(x), 1 / len(x)))


def interval(rho: float, n: int, z: float = 1.959964) -> tuple[float, float] | None:
    """95 % interval by Fisher's transform with the variance (1 + rho**2 / 2) / (n - 3); n >= 4. None where the ranks
    agree or disagree fully: the transform is infinite there, and a width of nothing would be a lie.

    Source: Bonett and Wright, Psychometrika 65, 23 (2000).
    """
    if abs(rho) > 1.0 - 1e-9:
        return None
    centre, half = math.atanh(rho), z * math.sqrt((1 + rho * rho / 2) / (n - 3))
    return math.tanh(centre - half), math.tanh(centre + half)
