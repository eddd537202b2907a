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

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
from scipy.special import ndtr, ndtri, owens_t

from sciagent.scheduling.arrays import Array
from sciagent.scheduling.law.transforms import TruthTransform, between

NODES, WEIGHTS = np.polynomial.legendre.leggauss(41)
NODES, WEIGHTS = (NODES + 1) / 2, WEIGHTS / 2  # of (0, 1)
DRAWS = 256  # of all properties at once, the same for every candidate
PAIRS = 4096  # the same of two answers each
BLOCK = 1 << 12  # candidates at a time
TAIL = 1e-9  # probabilities closer to 0 or 1 are taken as this
BISECTIONS = 30
FARTHEST = -37.0  # standard deviations: below lies no number


class Payoff(Protocol):
    """means, variances: (q, n) of the q properties, in the unit of their transforms."""

    def expected(self, means: Array, variances: Array) -> Array:
        """(n,) in [0, 1]."""

    def moments(self, means: Array, variances: Array, shares: Array) -> tuple[Array, Array]:
        """(n,) E[payoff] and E[E[payoff | S]²], in agreement with each other; S is a set of rungs that tells the share
        shares, (q,), of each variance. For a sample of candidates."""


@dataclass(frozen=True)
class Hits:
    """1 where every property lies within its limits."""

    truths: tuple[TruthTransform, ...]

    def expected(self, means: Array, variances: Array) -> Array:
        expected: Array = np.ones(means.shape[1])
        for truth, mean, variance in zip(self.truths, means, variances, strict=True):
            expected = expected * between(mean, np.sqrt(variance), truth.low, truth.high)
        return expected

    def moments(self, means: Array, variances: Array, shares: Array) -> tuple[Array, Array]:
        second: Array = np.ones(means.shape[1])
        for truth, mean, variance, share in zip(self.truths, means, variances, shares, strict=True):
            second = second * _both_between(mean, np.sqrt(variance), truth.low, truth.high, float(share))
        return self.expected(means, variances), second


def _both_between(mean: Array, sd: Array, low: float, high: float, share: float) -> Array:
    """Probability that two answers of N(mean, sd²), which have `share` of the variance in common, both lie between.

    The mean over the first, given that it lies there, of the chance of the second: smooth, however narrow the window
    and however much is told, where a mean over what is told would have to find a window of that width."""
    chance = between(mean, sd, low, high)
    if share >= 1 - 1e-9:
        return chance
    if math.isinf(low) and math.isinf(high):
        return np.ones_like(mean)
    if math.isinf(low) or math.isinf(high):
        u = (mean - low) / sd if math.isinf(high) else (high - mean) / sd
        return both_above(u, share)
    below, above = (low - mean) / sd, (high - mean) / sd
    flipped = below + above > 0  # the window lies in the lower half, where probabilities do not cancel
    below, above = np.where(flipped, -above, below), np.where(flipped, -below, above)
    start, end = ndtr(np.maximum(below, FARTHEST)), ndtr(np.maximum(above, FARTHEST))
    first = ndtri(start + (end - start) * NODES[:, None])
    rest = np.full_like(first, math.sqrt((1 - share) * (1 + share)))
    centre = share * first
    then = ndtr((above - centre) / rest) - ndtr((below - centre) / rest)
    both: Array = chance * (WEIGHTS @ then)
    return both


@dataclass(frozen=True)
class Graded:
    """Any payoff of the properties, by quasi-Monte Carlo with common draws. of: (q, ...) in the unit of the transforms
    to (...) in [0, 1]."""

    of: Callable[[Array], Array]
    q: int

    def expected(self, means: Array, variances: Array) -> Array:
        draws, weights = normal(self.q, DRAWS)
        expected = np.empty(means.shape[1])
        for start in range(0, len(expected), BLOCK):
            part = slice(start, start + BLOCK)
            spread = np.sqrt(variances[:, None, part]) * draws.T[:, :, None]  # (q, draws, n)
            expected[part] = weights @ self.of(means[:, None, part] + spread)
        return expected

    def moments(self, means: Array, variances: Array, shares: Array) -> tuple[Array, Array]:
        """The second is the mean product of the payoffs of two answers that have in common what is told: unbiased,
        where the square of a mean is not."""
        draws, weights = normal(2 * self.q, PAIRS)
        first_draws, new_draws = draws[:, : self.q], draws[:, self.q :]
        second_draws = shares * first_draws + np.sqrt((1 - shares) * (1 + shares)) * new_draws
        first, second = np.empty(means.shape[1]), np.empty(means.shape[1])
        for place, (mean, sd) in enumerate(zip(means.T, np.sqrt(variances).T, strict=True)):
            worth = self.of((mean + sd * first_draws).T)
            first[place] = weights @ worth
            second[place] = weights @ (worth * self.of((mean + sd * second_draws).T))
        return first, second


@cache
def normal(q: int, n: int) -> tuple[Array, Array]:
    """(n, q) draws of low discrepancy, always the same, and the weights (n,), of sum 1, under which they are standard
    normal; n: a power of two. They are spread wider than that, for payoffs are often rare."""
    from scipy.stats import qmc  # half a second, and only utilities need it

    wider = 1 + min(0.5, 0.7 / math.sqrt(q))
    drawn = wider * ndtri(qmc.Sobol(q, seed=0).random(n))
    weights = np.exp(-(drawn**2).sum(1) / 2 * (1 - wider**-2))
    return drawn, weights / weights.sum()


def to_u(expected: Array) -> Array:
    """Probit of an expected payoff."""
    u: Array = ndtri(np.clip(expected, TAIL, 1 - TAIL))
    return u


def both_above(u: Array, share: Array | float) -> Array:
    """Φ2(u, u; share)."""
    both: Array = ndtr(u) - 2 * owens_t(u, np.sqrt((1 - share) / (1 + share)))
    return both


def share_told(expected: Array, second: Array) -> Array:
    """(n,) the share of a normal answer's variance that moves an expected payoff so far; see above."""
    u = to_u(expected)
    low, high = np.zeros_like(u), np.ones_like(u)
    for _ in range(BISECTIONS):
        share = (low + high) / 2
        more = both_above(u, share) < second
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
            w / total * np.log(np.maximum(d(v), 1e-3)) for d, w, v in zip(desirabilities, weights, values, strict=True)
        )
        return np.maximum(np.exp(logs) - record, 0.0) / max(1 - record, 1e-9)

    return of
