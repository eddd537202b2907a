"""How far one rung ranks like the next: rank correlation with its interval, and errors where a scale is shared."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sciagent.scheduling.arrays import Array
from sciagent.scheduling.audit import rungs

KEPT = 5000  # pairs that statistics are taken over; beyond it an unbiased sample
FEWEST = 5  # below this many pairs no figure is given
# The zero and the scale of these energies belong to the method: two levels of them are compared by rank alone.
SCALE_OF_ITS_METHOD = frozenset({"homo", "lumo", "homo_lumo_gap", "total_energy", "singlet_triplet_gap"})


@dataclass
class Pairs:
    """Values of one property at two levels. x, y, ux, uy: canonical unit; ux, uy are NaN where unknown.

    n: pairs seen; `rows` holds all of them up to KEPT, then a uniform sample (Vitter's algorithm R, fixed seed).
    """

    n: int = 0
    censored: int = 0
    rows: list[tuple[float, float, float, float, bool]] = field(default_factory=list)
    _random: random.Random = field(default_factory=lambda: random.Random(0))

    def add(self, x: float, ux: float | None, y: float, uy: float | None, hit: bool) -> None:
        row = (x, math.nan if ux is None else ux, y, math.nan if uy is None else uy, hit)
        self.n += 1
        if len(self.rows) < KEPT:
            self.rows.append(row)
        elif (place := self._random.randrange(self.n)) < KEPT:
            self.rows[place] = row

    @property
    def x(self) -> Array:
        return np.array([r[0] for r in self.rows])

    @property
    def y(self) -> Array:
        return np.array([r[2] for r in self.rows])

    def drawn(self, n: int) -> list[tuple[float, float, float, float, bool]]:
        """At most n of them, the same ones every time."""
        return self.rows if len(self.rows) <= n else random.Random(1).sample(self.rows, n)

    def __iter__(self) -> Iterator[tuple[float, float, float, float, bool]]:
        return iter(self.rows)


@dataclass(frozen=True)
class RankAgreement:
    """spearman with its 95 % interval; None where it is not defined. mae, bias (y - x): None where the two levels have
    scales of their own. n: pairs used."""

    n: int
    spearman: float | None
    low: float | None
    high: float | None
    mae: float | None
    bias: float | None


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
