"""How many of all hits a campaign found, from an audit of the candidates that it dropped.

Missed hits are those among the dropped. Of them a were audited, with propensities π; u, unknown, were not. The sum of
(1 - π) / π over the a is an unbiased estimate of u (Horvitz and Thompson), and the sum of (1 - π) / π² one of the
variance of its error. The limits on u are those of a binomial trial with this mean and variance, s successes of chance
p beside u failures, which for one π common to all is the trial that took place, with p = π and s = a:

    upper: the largest u with P(fewer than s successes) > 2.5 %, where mean, variance and s have one more hit in them,
           of the least π that a candidate not audited had: a law that is wrong may hide hits there
    lower: the smallest u with P(at least s successes, given that there are enough to say anything) > 2.5 %

Exact where all π are equal: whatever the number of hits, the interval holds in 95 % of the campaigns in which it is
given; this is why the lower limit is conditional, for five audited hits may be luck. Approximate where they differ: as
π falls it is the gamma interval of Fay and Feuer, which kept its promise wherever it was tried and has no proof. With
two different π the error above was at most 2.5 % too, and came close: what assumes nothing can hardly be narrower.
Of candidates with a small π as many as 3.7 / π may be hits that no audit shows; this, not the law, makes it wide. The
law comes in by π alone; no p_hit is believed.

Sources: Clopper and Pearson, Biometrika 26, 404 (1934); Horvitz and Thompson, J. Am. Stat. Assoc. 47, 663 (1952); Fay
and Feuer, Stat. Med. 16, 791 (1997).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from scipy.special import betainc

from sciagent.scheduling.arrays import Array, Mask

ENOUGH = 5  # audited hits
TAIL = 0.025


@dataclass(frozen=True)
class Span:
    """A 95 % interval and the estimate in it."""

    low: float
    estimate: float
    high: float


@dataclass(frozen=True)
class Recall:
    """own: of all hits, those that the scheduler found by its own choice. with_audit: those and the audited ones, found
    by then too. missed: hits among the dropped, audited or not. All None where words says why."""

    own: Span | None
    with_audit: Span | None
    missed: Span | None
    words: str


def recall(chosen: int, pi: Array, audited: Mask, hit: Mask) -> Recall:
    """chosen: hits by the scheduler's own choice. pi, audited, hit: (n,) of all dropped candidates, the propensities of
    the last draw; hit is False for those not audited. To be asked once all audits have ended: one that ended without an
    answer is no hit.

    Raises ValueError where a pi is not in (0, 1], or a hit or a candidate with pi = 1 was not audited.
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
    """Hits among the dropped. pi: (a,) of the audited hits. least: of those not audited. left: as many were not."""
    a = len(pi)
    mean, variance = float(((1 - pi) / pi).sum()), float(((1 - pi) / pi**2).sum())
    low = _lower(mean, variance, a, left)
    high = _upper(mean + (1 - least) / least, variance + (1 - least) / least**2, left)
    return Span(a + low, a + min(mean, left), a + high)


def _upper(mean: float, variance: float, left: int) -> int:
    """mean, variance: of u, with the imagined hit."""
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
    """Chance of success, and successes, in the binomial trial whose failures have this mean and variance."""
    p = mean / variance
    return p, mean * p / (1 - p)
