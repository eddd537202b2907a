"""The payoff of an answer, in [0, 1], for several properties or a window, and how much a rung tells about it.

The programme of `scheduling.value` uses one number, u, with hits above 0. For one property with one limit, u is mean /
standard deviation. Otherwise u is the probit of the expected payoff p. What a set of rungs S tells is then expressed as
the share s of a normal answer's variance for which p would vary as much,

    E[E[payoff | S]²] = E[Φ((u + sqrt(s) z) / sqrt(1 - s))²] = Φ2(u, u; s) = Φ(u) - 2 T(u, sqrt((1 - s) / (1 + s)))

with T Owen's function. For one limit on one property this is exact. Otherwise the first two moments of the future
prediction are right, but not its shape. Given the rungs, the errors of the properties are taken as independent.

Source of the last identity: Owen, Ann. Math. Stat. 27, 1075 (1956).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtr, ndtri, owens_t

from sciagent.scheduling.arrays import Array
from sciagent.scheduling.law.transforms import TruthTransform, between

NODES, WEIGHTS = np.polynomial.legendre.leggauss(41)
NODES, WEIGHTS = (NODES + 1) / 2, WEIGHTS / 2  # on the interval (0, 1)
DRAWS = 256  # draws of all properties, the same for every candidate
PAIRS = 4096  # draws of pairs of answers, the same for every candidate
BLOCK = 1 << 12  # candidates computed at a time
TAIL = 1e-9  # probabilities are kept this far from 0 and 1
BISECTIONS = 30
FARTHEST = -37.0  # standard deviations below which the normal distribution underflows


@dataclass(frozen=True)
class Hits:
    """A payoff of 1 if every property lies within its limits, else 0. means, variances: (q, n) of the q properties, in
    the unit of their transforms."""

    truths: tuple[TruthTransform, ...]

    def expected(self, means: Array, variances: Array) -> Array:
        """Returns (n,) expected payoffs, in [0, 1]."""
        expected: Array = np.ones(means.shape[1])
        for truth, mean, variance in zip(self.truths, means, variances, strict=True):
            expected = expected * between(mean, np.sqrt(variance), truth.low, truth.high)
        return expected

    def moments(self, means: Array, variances: Array, shares: Array) -> tuple[Array, Array]:
        """Returns (n,) E[payoff] and E[E[payoff | S]²], consistent with each other. The set of rungs S explains the
        fraction shares, (q,), of each variance. For few candidates."""
        second: Array = np.ones(means.shape[1])
        for truth, mean, variance, share in zip(self.truths, means, variances, shares, strict=True):
            second = second * _both_between(mean, np.sqrt(variance), truth.low, truth.high, float(share))
        return self.expected(means, variances), second


def _both_between(mean: Array, sd: Array, low: float, high: float, share: float) -> Array:
    """Returns the probability that two answers of N(mean, sd²), correlated by `share`, both lie between low and high.
    It is the mean, over first answers in the window, of the second one's probability: smooth for any window and share,
    while a mean over the shared part would have to resolve windows of that width."""
    chance = between(mean, sd, low, high)
    if share >= 1 - 1e-9:
        return chance
    if math.isinf(low) and math.isinf(high):
        return np.ones_like(mean)
    if math.isinf(low) or math.isinf(high):
        u = (mean - low) / sd if math.isinf(high) else (high - mean) / sd
        return both_above(u, share)
    below, above = (low - mean) / sd, (high - mean) / sd
    flipped = below + above > 0  # mirrored so that the window lies in the lower half, where probabilities do not cancel
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
    """Any payoff of the properties, with the methods of `Hits`, by quasi-Monte Carlo with common draws. of: (q, ...)
    values in the unit of the transforms to (...) in [0, 1]."""

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
        """As `Hits.moments`. The second one is the mean product of the payoffs of two answers that share the explained
        part; unlike the square of a mean, it is unbiased."""
        draws, weights = normal(2 * self.q, PAIRS)
        first_draws, new_draws = draws[:, : self.q], draws[:, self.q :]
        second_draws = shares * first_draws + np.sqrt((1 - shares) * (1 + shares)) * new_draws
        first, second = np.empty(means.shape[1]), np.empty(means.shape[1])
        for place, (mean, sd) in enumerate(zip(means.T, np.sqrt(variances).T, strict=True)):
            worth = self.of((mean + sd * first_draws).T)
            first[place] = weights @ worth
            second[place] = weights @ (worth * self.of((mean + sd * second_draws).T))
        return first, second


Payoff = Hits | Graded


@cache
def normal(q: int, n: int) -> tuple[Array, Array]:
    """Returns (n, q) fixed low-discrepancy draws, and weights (n,) of sum 1 that make them standard normal. n: a power
    of two. The draws are spread wider than normal, since payoffs are often rare."""
    from scipy.stats import qmc  # imported here, since it takes half a second and only utilities need it

    wider = 1 + min(0.5, 0.7 / math.sqrt(q))
    drawn = wider * ndtri(qmc.Sobol(q, seed=0).random(n))
    weights = np.exp(-(drawn**2).sum(1) / 2 * (1 - wider**-2))
    return drawn, weights / weights.sum()


def to_u(expected: Array) -> Array:
    """Returns the probit of an expected payoff."""
    u: Array = ndtri(np.clip(expected, TAIL, 1 - TAIL))
    return u


def both_above(u: Array, share: Array | float) -> Array:
    """Returns Φ2(u, u; share)."""
    both: Array = ndtr(u) - 2 * owens_t(u, np.sqrt((1 - share) / (1 + share)))
    return both


def share_told(expected: Array, second: Array) -> Array:
    """Returns (n,) shares of a normal answer's variance that give the same second moment (see the module)."""
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
    """Returns the payoff of a weighted geometric mean of desirabilities, each of one property in its transform's unit.

    record: utility to exceed; the payoff is then (utility - record)+ / (1 - record).
    """
    total = sum(weights)

    def of(values: Array) -> Array:
        logs = sum(
            w / total * np.log(np.maximum(d(v), 1e-3)) for d, w, v in zip(desirabilities, weights, values, strict=True)
        )
        return np.maximum(np.exp(logs) - record, 0.0) / max(1 - record, 1e-9)

    return of
