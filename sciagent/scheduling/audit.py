"""Draws dropped candidates for an audit, each with a known probability.

Every candidate has a fixed lot, a number in (0, 1). It is audited once its propensity π reaches its lot. Propensities
never fall, so audits continue while candidates are dropped and the budget grows. The π of the last draw is then exactly
the probability that a candidate was audited so far, independently of the others (Poisson sampling).

    π_i = clip(τ sqrt(p_i / c_i), FLOOR B / Σ c, 1), but never below its last value;  τ such that Σ π_i c_i = B

sqrt(p / c) is Neyman's allocation: among all propensities with expected cost B, it gives the count of missed hits the
smallest variance if the law is right. An estimate that trusts the law would use p (1 - p) for p; this one also audits
candidates that the law takes for sure hits. The floor protects against a wrong law: the smallest propensity sets the
width of the interval of `recall`, which was narrowest with a floor of half to two thirds of an even audit.

Conditions for exactness: p, c and B of a candidate may depend on anything except its own lot. So pass for every
candidate, audited or not, its p when it was dropped, and a budget that the audit's own spend does not reduce. A law
that learns from audits violates this slightly, through the p of later candidates and thus through τ. The spend is B
only on average, and more while old propensities claim more. All audits drawn must be finished. A candidate no longer
counts as dropped if the scheduler returns to it, or would have returned to it without the audit.

Sources: Neyman, J. R. Stat. Soc. 97, 558 (1934); permanent random numbers: Ohlsson, in Business Survey Methods (1995).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from sciagent.scheduling.arrays import Array

FLOOR = 0.5  # smallest propensity, as a fraction of that of an even audit
FAINTEST = 1e-12  # lower limit of p, since the law may be wrong


def lots(seed: int, keys: Iterable[str]) -> Array:
    """Returns (n,) lots, uniform on (0, 1), one per candidate key. A key has the same lot in every call."""
    hashes = [blake2b(f"{seed}:{key}".encode(), digest_size=8).digest() for key in keys]
    return (np.array([int.from_bytes(h) >> 12 for h in hashes], dtype=float) + 0.5) / 2**52


def propensities(p_hit: Array, cost: Array, budget: float, before: Array) -> Array:
    """Returns (n,) propensities with expected cost `budget`, or more if `before` and the floor require it.

    p_hit, cost: (n,) hit probability by the law when dropped; cost of finishing, above 0, in any unit. budget: of all
    audits so far and of this draw, in that unit. before: (n,) propensities of the last draw, 0 for later candidates.
    """
    even = min(budget / cost.sum(), 1.0) if len(cost) else 1.0
    least = np.maximum(before, even if even == 1 else FLOOR * even)
    slope = np.sqrt(np.maximum(p_hit, FAINTEST) / cost)
    # the expected cost is piecewise linear in τ: a candidate's slope starts where τ exceeds `least` and ends at π = 1
    knots = np.concatenate([least / slope, 1 / slope])
    order = np.argsort(knots)
    knots = knots[order]
    rise = np.cumsum(np.concatenate([cost * slope, -cost * slope])[order])[:-1] * np.diff(knots)
    spend = least @ cost + np.concatenate([[0.0], np.cumsum(np.maximum(rise, 0.0))])
    tau = float(np.interp(budget, spend, knots)) if len(cost) else 0.0
    return np.clip(tau * slope, least, 1.0)
