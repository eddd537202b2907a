"""What an answer is worth, in [0, 1], when several properties decide or a window does; and how much a rung tells of it.

The programme of `scheduling.value` walks on one number, u: hits above 0. With one property and one limit that is
mean / standard deviation. With more, u is the probit of the expected payoff p, and what a set of rungs S tells is put
as the share s of a normal answer's variance for which p would move as much,

    E[E[payoff | S]²] = E[Φ((u + sqrt(s) z) / sqrt(1 - s))²] = Φ2(u, u; s) = Φ(u) - 2 T(u, sqrt((1 - s) / (1 + s)))

with T Owen's function. One limit on one property comes back exactly; else the first two moments of what will be known
are right and its shape is not. Properties err independently of each other here, given what the rungs said.

Source of the last identity: Owen, Ann. Math. Stat. 27, 1075 (1956).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, owens_t
from scipy.stats import qmc

from sciagent.scheduling.law.transforms import TruthTransform, between

Array = NDArray[np.float64]

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
DRAWS = 128  # of all properties at once, the same for every candidate
TAIL = 1e-9  # probabilities closer to 0 or 1 are taken as this
BISECTIONS = 30


class Payoff(Protocol):
    """means, variances: (q, n) of the q properties, in the unit of their transforms."""

    def expected(self, means: Array, variances: Array) -> Array:
        """(n,) in [0, 1]."""

    def second(self, means: Array, variances: Array, told: Array) -> Array:
        """(n,) E[E[payoff | S]²], S a set of rungs that tells the share told, (q,), of each variance."""


@dataclass(frozen=True)
class Hits:
    """1 where every property lies within its limits."""

    truths: tuple[TruthTransform, ...]

    def expected(self, means: Array, variances: Array) -> Array:
        found: Array = np.ones(means.shape[1])
        for truth, mean, variance in zip(self.truths, means, variances, strict=True):
            found = found * between(mean, np.sqrt(variance), truth.low, truth.high)
        return found

    def second(self, means: Array, variances: Array, told: Array) -> Array:
        found: Array = np.ones(means.shape[1])
        for truth, mean, variance, share in zip(self.truths, means, variances, told, strict=True):
            sd, rest = np.sqrt(variance), np.sqrt(variance * max(1 - share, 0.0))
            if share >= 1 - 1e-9:
                found = found * between(mean, sd, truth.low, truth.high)
                continue
            inner = between(mean + np.sqrt(share) * sd * NODES[:, None], rest, truth.low, truth.high)
            found = found * (WEIGHTS @ inner**2)
        return found


@dataclass(frozen=True)
class Graded:
    """Any payoff of the properties, by quasi-Monte Carlo with common draws. of: (q, ...) in the unit of the transforms
    to (...) in [0, 1]."""

    of: Callable[[Array], Array]
    q: int

    def expected(self, means: Array, variances: Array) -> Array:
        found: Array = self.of(self._spread(means, variances, normal(self.q, DRAWS))).mean(0)
        return found

    def second(self, means: Array, variances: Array, told: Array) -> Array:
        """The outer and the inner draws are 32 and 32: for a sample of candidates, not for all."""
        outer, inner = normal(2 * self.q, 32), normal(2 * self.q, 64)[32:]
        known = self._spread(means, variances * told[:, None], outer[:, : self.q])  # (q, 32, n)
        rest = np.sqrt(variances * (1 - told[:, None]))
        then = known[:, :, None, :] + rest[:, None, None, :] * inner[:, self.q :].T[:, None, :, None]
        found: Array = (self.of(then).mean(1) ** 2).mean(0)
        return found

    def _spread(self, means: Array, variances: Array, draws: Array) -> Array:
        """(q, draws, n)."""
        found: Array = means[:, None, :] + np.sqrt(variances)[:, None, :] * draws.T[:, :, None]
        return found


def normal(q: int, n: int) -> Array:
    """(n, q) standard normal draws of low discrepancy, always the same; n: a power of two."""
    drawn: Array = ndtri(qmc.Sobol(q, seed=0).random(n))
    return drawn


def to_u(expected: Array) -> Array:
    """Probit of an expected payoff."""
    found: Array = ndtri(np.clip(expected, TAIL, 1 - TAIL))
    return found


def told(expected: Array, second: Array) -> Array:
    """(n,) the share of a normal answer's variance that moves an expected payoff so far; see above."""
    u = to_u(expected)
    low, high = np.zeros_like(u), np.ones_like(u)
    for _ in range(BISECTIONS):
        share = (low + high) / 2
        more = ndtr(u) - 2 * owens_t(u, np.sqrt((1 - share) / (1 + share))) < second
        low, high = np.where(more, share, low), np.where(more, high, share)
    return (low + high) / 2


def utility_payoff(
    desirabilities: Sequence[Callable[[Array], Array]], weights: Sequence[float], record: float = 0.0
) -> Callable[[Array], Array]:
    """Payoff of a weighted geometric mean of desirabilities, each of one property in the unit of its transform.

    record: what must be beaten; the payoff is then (utility - record)+ / (1 - record).
    """
    total = sum(weights)

    def of(values: Array) -> Array:
        logs = sum(
            w / total * np.log(np.maximum(d(v), 1e-3))
            for d, w, v in zip(desirabilities, weights, values, strict=True)
        )  # fmt: skip
        found: Array = np.maximum(np.exp(logs) - record, 0.0) / max(1 - record, 1e-9)
        return found

    return of
