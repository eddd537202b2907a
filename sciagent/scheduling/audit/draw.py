"""Which dropped candidates to audit, and with what probability each of them is.

Every candidate has one lot, a number in (0, 1) that never changes, and is audited once its propensity π reaches it.
Propensities only rise, so audits go on while candidates are dropped and the budget grows, and the π of the last draw is
the probability that a candidate was audited by then: exactly, and independently of all others (Poisson sampling).

    π_i = clip(τ sqrt(p_i / c_i), FLOOR B / Σ c, 1), but never below what it was;  τ such that Σ π_i c_i = B

sqrt(p / c) is Neyman's allocation: of all propensities of one expected cost B it leaves the count of missed hits the
least variance, if the law is right. p (1 - p) in place of p would be for an estimate that trusts the law; this one does
not, and must not pass over what the law thinks a sure hit. The floor is for a law that is wrong: the least propensity
sets the width of the interval of `recall`, which was narrowest with a floor of half to two thirds of an even audit.

What is exact, and when: p, c and B of a candidate may depend on anything but its own lot. So pass for every candidate
what was believed when it was dropped, audited ones with the others, and a budget that the audit's own outlay does not
lower. A law that learns from audits breaks this a little, by the p of those dropped later and so by τ. The outlay is B
only on average, and above it while old propensities claim more. All that are drawn must be finished. A candidate that
the scheduler turns back to leaves the dropped, as does an audited one that it would have turned back to.

Sources: Neyman, J. R. Stat. Soc. 97, 558 (1934); permanent random numbers: Ohlsson, in Business Survey Methods (1995).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from sciagent.scheduling.arrays import Array

FLOOR = 0.5  # of the propensity in an audit of all alike
FAINTEST = 1e-12  # p below which a law is not taken at its word


def lots(seed: int, keys: Iterable[str]) -> Array:
    """(n,) uniform on (0, 1), one for each candidate key: the same whenever, wherever and with whom it is asked for."""
    hashes = [blake2b(f"{seed}:{key}".encode(), digest_size=8).digest() for key in keys]
    return (np.array([int.from_bytes(h) >> 12 for h in hashes], dtype=float) + 0.5) / 2**52


def propensities(p_hit: Array, cost: Array, budget: float, before: Array) -> Array:
    """(n,) of expected cost `budget`; of more where `before` and the floor claim more.

    p_hit, cost: (n,) by the law when they were dropped; cost of finishing, above 0, in any unit. budget: of all audits
    so far and those of this draw, in that unit. before: (n,) those of the last draw, 0 for candidates dropped since.
    """
    even = min(budget / cost.sum(), 1.0) if len(cost) else 1.0
    least = np.maximum(before, even if even == 1 else FLOOR * even)
    slope = np.sqrt(np.maximum(p_hit, FAINTEST) / cost)
    # the expected cost rises with τ in straight pieces: a candidate joins where τ lifts it off `least`, leaves at π = 1
    knots = np.concatenate([least / slope, 1 / slope])
    order = np.argsort(knots)
    knots = knots[order]
    rise = np.cumsum(np.concatenate([cost * slope, -cost * slope])[order])[:-1] * np.diff(knots)
    spend = least @ cost + np.concatenate([[0.0], np.cumsum(np.maximum(rise, 0.0))])
    tau = float(np.interp(budget, spend, knots)) if len(cost) else 0.0
    return np.clip(tau * slope, least, 1.0)
