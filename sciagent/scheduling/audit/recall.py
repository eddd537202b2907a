"""Estimates the number of missed hits from an audit of the dropped candidates.

Missed hits are hits among the dropped candidates: a were audited, with propensities π; u, an unknown number, were not.
The sum of (1 - π) / π over the a audited hits estimates u without bias (Horvitz and Thompson); that of (1 - π) / π²
estimates the variance of the error. The limits on u are those of a binomial trial with this mean and variance, s
successes of probability p and u failures. If all π are equal, this is the actual trial, with p = π and s = a:

    upper: the largest u with P(fewer than s successes) > 2.5 %; mean, variance and s then include one more hit, with
        the smallest π of an unaudited candidate, since a wrong law may hide hits there
    lower: the smallest u with P(at least s successes, given enough audited hits for an interval) > 2.5 %

Exact if all π are equal: for any number of hits, the interval is right in 95 % of the campaigns that get one. The lower
limit is conditional, since five audited hits may be luck. If the π differ, the interval is approximate. For small π it
becomes the gamma interval of Fay and Feuer, which held in all tests but is not proven. With two different π, the error
at the upper limit came close to 2.5 %, so no limit without assumptions can be much narrower. Up to 3.7 / π hits may
hide among candidates with a small π; this makes the interval wide. No p_hit is trusted.

Sources: Clopper and Pearson, Biometrika 26, 404 (1934); Horvitz and Thompson, J. Am. Stat. Assoc. 47, 663 (1952); Fay
and Feuer, Stat. Med. 16, 791 (1997).
"""

from __future__ import annotations

from bisect import bisect_left

from scipy.special import betainc

from sciagent.domain.answers.status import EstimateWithInterval
from sciagent.scheduling.arrays import Array

ENOUGH = 5  # audited hits that an interval needs
TAIL = 0.025


def missed_hits(pi: Array, least: float, left: int) -> EstimateWithInterval:
    """Returns the number of hits among the dropped candidates, once all audits have ended. pi: (a,) of audited hits.
    least: smallest unaudited pi. left: number of unaudited candidates."""
    a = len(pi)
    mean, variance = float(((1 - pi) / pi).sum()), float(((1 - pi) / pi**2).sum())
    low = _lower(mean, variance, a, left)
    high = _upper(mean + (1 - least) / least, variance + (1 - least) / least**2, left)
    return EstimateWithInterval(low=a + low, estimate=a + min(mean, left), high=a + high)


def _upper(mean: float, variance: float, left: int) -> int:
    """Returns the upper limit on u. mean, variance: of u, with the additional hit."""
    if variance == 0:
        return 0
    p, s = _trial(mean, variance)
    # fewer than s successes in s - 1 + u trials
    return bisect_left(range(1, left + 1), True, key=lambda u: bool(betainc(u, s, 1 - p) <= TAIL))


def _lower(mean: float, variance: float, a: int, left: int) -> int:
    if variance == 0:
        return 0
    p, s = _trial(mean, variance)
    enough = s * ENOUGH / a if a > ENOUGH else s

    def holds(u: int) -> bool:
        given = betainc(enough, u + s - enough + 1, p)
        return bool(given > 0 and betainc(s, u + 1, p) > TAIL * given)

    return bisect_left(range(left), True, key=holds)


def _trial(mean: float, variance: float) -> tuple[float, float]:
    """Returns success probability and successes of the binomial trial whose failures have this mean and variance."""
    p = mean / variance
    return p, mean * p / (1 - p)
