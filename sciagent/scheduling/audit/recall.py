"""Estimates the fraction of all hits that a campaign found, from an audit of the dropped candidates.

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
from dataclasses import dataclass

from scipy.special import betainc

from sciagent.scheduling.arrays import Array, Mask

ENOUGH = 5  # audited hits that an interval needs
TAIL = 0.025


@dataclass(frozen=True)
class Span:
    """An estimate with its 95 % interval."""

    low: float
    estimate: float
    high: float


@dataclass(frozen=True)
class Recall:
    """own: recall of the hits that the scheduler chose. with_audit: recall with the audited hits. missed: number of
    hits among the dropped candidates, audited or not. Each is None if `words` explains why there is no estimate."""

    own: Span | None
    with_audit: Span | None
    missed: Span | None
    words: str


def recall(chosen: int, pi: Array, audited: Mask, hit: Mask) -> Recall:
    """Estimates the recall, once all audits have ended. chosen: hits by the scheduler's choice. pi, audited, hit: (n,)
    of all dropped candidates; pi of the last draw; hit is False without an audit, or if the audit gave no answer.

    Raises ValueError if a pi is not in (0, 1], or a hit or a candidate with pi = 1 was not audited.
    """
    if not ((pi > 0) & (pi <= 1)).all():
        raise ValueError("every dropped candidate needs a propensity in (0, 1]; draw once more")
    if (~audited & (hit | (pi == 1))).any():
        raise ValueError("an audit is missing: of a candidate that is a hit or was certain to be drawn")
    hits, left = int(hit.sum()), int((~audited).sum())
    if left and hits < ENOUGH:
        words = f"recall cannot be estimated: n = {hits} audited hit{'' if hits == 1 else 's'}, {ENOUGH} are needed"
        return Recall(None, None, None, words)
    missed = missed_hits(pi[hit], float(pi[~audited].min(initial=1.0)), left)
    if not chosen + hits:
        return Recall(None, None, missed, "recall cannot be estimated: there is no hit")
    own, with_audit = (
        Span(*(part / (chosen + whole) for whole in (missed.high, missed.estimate, missed.low)))
        for part in (chosen, chosen + hits)
    )
    words = (
        f"recall {own.estimate:.2f} (95 % interval {own.low:.2f} to {own.high:.2f}): {chosen} hits found by choice, "
        f"{hits} among {int(audited.sum())} audited of {len(pi)} dropped"
    )
    return Recall(own, with_audit, missed, words)


def missed_hits(pi: Array, least: float, left: int) -> Span:
    """Returns the number of missed hits. pi: (a,) of audited hits. least: smallest unaudited pi. left: unaudited."""
    a = len(pi)
    mean, variance = float(((1 - pi) / pi).sum()), float(((1 - pi) / pi**2).sum())
    low = _lower(mean, variance, a, left)
    high = _upper(mean + (1 - least) / least, variance + (1 - least) / least**2, left)
    return Span(a + low, a + min(mean, left), a + high)


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
