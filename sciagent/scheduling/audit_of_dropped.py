"""The audit of dropped candidates. In order: the draw with known probabilities (`propensities`), the guard of the hits
(`guard`), the estimate of missed hits (`missed_hits`), and the agreement of rungs (`agreements`).

Every candidate has a fixed lot, a number in (0, 1). It is audited once its propensity π reaches its lot. Propensities
never fall, so audits continue while candidates are dropped and the budget grows. The π of the last draw is then exactly
the probability that a candidate was audited so far, independently of the others (Poisson sampling).

    π_i = clip(τ sqrt(p_i / c_i), FLOOR B / Σ c, 1), but never below its last value;  τ such that Σ π_i c_i = B

p is the probability of a hit by the law (the model that predicts answers of rungs), c the cost of finishing the
candidate, and B the budget of all audits.

sqrt(p / c) is Neyman's allocation: among all propensities with expected cost B, it gives the count of missed hits the
smallest variance if the law is right. An estimate that trusts the law would use p (1 - p) for p; this one also audits
candidates that the law takes for sure hits. The floor protects against a wrong law: the smallest propensity sets the
width of the interval of `recall`, which was narrowest with a floor of half to two thirds of an even audit.

Conditions for exactness: p, c and B of a candidate may depend on anything except its own lot. So pass for every
candidate, audited or not, its p when it was dropped, and a budget that the audit's own spend does not reduce. A law
that learns from audits violates this slightly, through the p of later candidates and thus through τ. The spend is B
only on average, and above B while the propensities of earlier draws cost more. All audits drawn must be finished. A
candidate no longer counts as dropped if the scheduler returns to it, or would have returned to it without the audit.

Sources: Neyman, J. R. Stat. Soc. 97, 558 (1934); permanent random numbers: Ohlsson, in Business Survey Methods (1995).

The conformal guard is a score below which candidates may be dropped, so that few hits are lost. alpha is the fraction
of hits that may be lost. Given the scores s of n known hits, each at the time when it would have been dropped, the
threshold t is the largest of these scores with (#{s < t} + 1) / (n + 1) <= alpha. If the next hit is exchangeable with
them, its score is below t with a probability of at most alpha, however wrong the model behind the score is. This needs
n >= 1/alpha - 1 hits. With fewer hits, the guard is not armed and allows no drop.

An audit verifies a random sample of candidates that would be dropped. It finds hit i with a probability π_i, which is
not the same for all hits. Each hit therefore has the weight 1/π_i. The next hit, whose π is unknown, has the largest
weight, 1/least, with `least` the smallest π: (Σ_{s < t} 1/π_i + 1/least) / (Σ 1/π_i + 1/least) <= alpha. The guarantee
is exact for independent hits from one distribution. In a campaign it is approximate, because the model and the proposer
change. It holds on average, not for each kind of candidate.

Sources: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2005); Tibshirani, Foygel Barber, Candès
and Ramdas, NeurIPS 2019, arXiv 1904.06019.

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

The audit also measures how well each rung agrees with the next higher rung and with the terminal rung. Only promising
candidates were run on an expensive rung, so the raw pairs are biased: among the promoted candidates, the mean of a
noisy rung is too high. With weights 1 / π of the higher rung, audited candidates represent the dropped ones. Bias and
RMSE then hold for all candidates: exactly, on average over the draw, except for the sum of weights in the denominator
(Hájek).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

import numpy as np

from sciagent.domain.answers.status_and_comparison import EstimateWithInterval, GuardState, RungAgreement
from sciagent.scheduling.array_types import Array

FLOOR = 0.5  # smallest propensity, as a fraction of that of an even audit
MIN_P_HIT = 1e-12  # lower limit of p, since the law may be wrong


def lots(seed: int, keys: Iterable[str]) -> Array:
    """Returns (n,) lots, uniform on (0, 1), one per candidate key. A key has the same lot in every call."""
    hashes = [blake2b(f"{seed}:{key}".encode(), digest_size=8).digest() for key in keys]
    numbers = [int.from_bytes(digest) >> 12 for digest in hashes]  # 52 bits, as many as a float holds exactly
    return (np.array(numbers, dtype=float) + 0.5) / 2**52


def propensities(p_hit: Array, cost: Array, budget: float, before: Array) -> Array:
    """Returns (n,) propensities with expected cost `budget`, or more if `before` and the floor require it.

    p_hit, cost: (n,) hit probability by the law when dropped; cost of finishing, above 0, in any unit. budget: of all
    audits so far and of this draw, in that unit. before: (n,) propensities of the last draw, 0 for later candidates.
    """
    if not len(cost):
        return np.empty(0)
    even = min(budget / cost.sum(), 1.0)  # propensity of an audit of all candidates alike
    floor = 1.0 if even == 1 else FLOOR * even  # if the budget audits all, all are audited
    least = np.maximum(before, floor)
    slope = np.sqrt(np.maximum(p_hit, MIN_P_HIT) / cost)
    # the expected cost is piecewise linear in τ: a candidate's slope starts where τ exceeds `least` and ends at π = 1
    knots = np.concatenate([least / slope, 1 / slope])
    order = np.argsort(knots)
    knots = knots[order]
    slope_changes = np.concatenate([cost * slope, -cost * slope])[order]
    slopes = np.cumsum(slope_changes)[:-1]
    rises = np.maximum(slopes * np.diff(knots), 0.0)
    spend = least @ cost + np.concatenate([[0.0], np.cumsum(rises)])
    tau = float(np.interp(budget, spend, knots))
    return np.clip(tau * slope, least, 1.0)


_SLACK = 1e-9  # tolerance for rounding, since 1/alpha - 1 is often a whole number


def guard(scores: Array, alpha: float, pi: Array, least: float) -> GuardState:
    """Returns the guard.

    scores: (n,) of hits, higher for more promising ones. alpha: fraction of hits that may be dropped, in (0, 1). pi:
    (n,) probability that each hit became known, 1 if the scheduler chose it. least: smallest pi that the next hit may
    have. `GuardState.missing` counts hits of the propensity `least`.
    """
    weights = least / pi  # the next hit has weight 1
    total = float(weights.sum())
    lacking = 1 / alpha - 1 - total
    if lacking > _SLACK:
        missing = math.ceil(lacking - _SLACK)
        has_equal_weights = (weights == 1).all()
        counted = "" if has_equal_weights else f", which count as {total:.1f} by their propensities"
        words = f"not armed: n = {len(scores)} hits{counted}; {missing} more are needed for {alpha:.0%}"
        return GuardState(threshold=None, missing=missing, words=words)
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    cumulative_weights = np.concatenate([[0.0], np.cumsum(weights[order])])
    weight_below = cumulative_weights[np.searchsorted(ranked, ranked)]  # of the hits with lower scores
    is_allowed = weight_below + 1 <= alpha * (total + 1) + _SLACK
    threshold = float(ranked[is_allowed][-1])
    words = (
        f"armed: a hit has a score below {threshold:.4g} with a probability of at most {alpha:.0%} (n = {len(scores)})"
    )
    return GuardState(threshold=threshold, missing=0, words=words)


ENOUGH = 5  # audited hits that an interval needs
TAIL = 0.025  # probability of an error at each end of the interval


def missed_hits(pi: Array, least: float, left: int) -> EstimateWithInterval:
    """Returns the number of hits among the dropped candidates, once all audits have ended. pi: (a,) propensities of
    the audited hits. least: smallest propensity of an unaudited candidate. left: number of unaudited candidates."""
    a = len(pi)
    mean = float(((1 - pi) / pi).sum())
    variance = float(((1 - pi) / pi**2).sum())
    low = _lower(mean, variance, a, left)
    high = _upper(mean + (1 - least) / least, variance + (1 - least) / least**2, left)
    return EstimateWithInterval(low=a + low, estimate=a + min(mean, left), high=a + high)


def _upper(mean: float, variance: float, left: int) -> int:
    """Returns the upper limit on u. mean, variance: of u, with the additional hit."""
    from scipy.special import betainc  # not above: `lots` is needed where nothing else of SciPy is

    if variance == 0:
        return 0
    p, s = _trial(mean, variance)

    def is_unlikely_with_next(u: int) -> bool:
        """Whether fewer than s successes in s - 1 + u trials are too unlikely."""
        return bool(betainc(u, s, 1 - p) <= TAIL)

    return bisect_left(range(1, left + 1), True, key=is_unlikely_with_next)


def _lower(mean: float, variance: float, a: int, left: int) -> int:
    """Returns the lower limit on u. mean, variance: of u. a: number of audited hits."""
    from scipy.special import betainc  # as above

    if variance == 0:
        return 0
    p, s = _trial(mean, variance)
    successes_for_interval = s * ENOUGH / a if a > ENOUGH else s

    def is_likely(u: int) -> bool:
        has_interval = betainc(successes_for_interval, u + s - successes_for_interval + 1, p)
        return bool(has_interval > 0 and betainc(s, u + 1, p) > TAIL * has_interval)

    return bisect_left(range(left), True, key=is_likely)


def _trial(mean: float, variance: float) -> tuple[float, float]:
    """Returns success probability and successes of the binomial trial whose failures have this mean and variance."""
    p = mean / variance
    return p, mean * p / (1 - p)


MIN_RANKED_PAIRS = 3  # pairs that a rank correlation needs


def agreements(
    name: str, labels: Sequence[str], scores: Array, propensity: Array, has_one_scale: bool = True
) -> Iterator[RungAgreement]:
    """Compares each rung with the next and, if that is another, the terminal rung.

    name: the property. labels: of k rungs, terminal rung last. scores: (n, k), NaN if unknown. propensity: (n, k)
    probability that a rung was run on a candidate. has_one_scale: whether the rungs' values may be subtracted.
    """
    last = len(labels) - 1
    pairs: list[tuple[int, int]] = []
    for lower in range(last):
        pairs.append((lower, lower + 1))
        if lower + 1 != last:
            pairs.append((lower, last))
    for lower, upper in pairs:
        have_both = ~np.isnan(scores[:, [lower, upper]]).any(1)
        x = scores[have_both, lower]
        y = scores[have_both, upper]
        weights = 1 / propensity[have_both, upper]
        n = len(x)
        share = weights / weights.sum()
        difference = x - y
        yield RungAgreement(
            property=name,
            lower=labels[lower],
            upper=labels[upper],
            n=n,
            effective=float(1 / (share**2).sum()) if n else 0.0,
            bias=float(share @ difference) if n and has_one_scale else None,
            rmse=float(np.sqrt(share @ difference**2)) if n and has_one_scale else None,
            spearman=weighted_spearman(x, y, share) if n >= MIN_RANKED_PAIRS else None,
        )


def weighted_spearman(x: Array, y: Array, share: Array) -> float | None:
    """Returns the rank correlation over all represented candidates; None if undefined. share: (n,) of sum 1."""
    x_ranks = _ranks(x, share)
    y_ranks = _ranks(y, share)
    x_centred = x_ranks - share @ x_ranks
    y_centred = y_ranks - share @ y_ranks
    spread = float(np.sqrt((share @ x_centred**2) * (share @ y_centred**2)))
    if spread <= 1e-12:
        return None
    return float(share @ (x_centred * y_centred)) / spread


def _ranks(x: Array, share: Array) -> Array:
    """Returns (n,) weighted ranks in [0, 1]: the share of smaller values, and half of the share of equal ones."""
    _, level = np.unique(x, return_inverse=True)
    level_shares = np.bincount(level, share)
    level_ranks = np.cumsum(level_shares) - level_shares / 2
    return level_ranks[level]
