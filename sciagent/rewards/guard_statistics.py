"""Statistics that guard a policy: tests that may be looked at after every step, control gap, diversity, exploitation
index.

A test raises no false alarm more often because it is looked at often. A gambler bets that the mean of bounded values
lies above a limit. If it does not, the wealth is not expected to grow, so that it ever reaches 1 / level with a
probability of at most `level`, however often it is looked at (Ville 1939). The bets need no distribution, no equal
variances, and no number of steps that is fixed beforehand.

Sources: Waudby-Smith and Ramdas, J. R. Stat. Soc. B 86, 1 (2024), for bets on means of bounded values; Shin, Ramdas and
Rinaldo, arXiv:2203.03532, for gamblers that begin at every step, so that a late change is found as well.

Means have standard errors that allow for the likeness of candidates of one episode. A policy answers each episode anew,
but the candidates of an episode resemble each other. So the episodes are the independent units: the deviations of an
episode are added before they are squared.

Source: Liang and Zeger, Biometrika 73, 13 (1986).

The control gap is the payoff by the terminal rung less the score by a control that is never rewarded. A control differs
from the terminal rung also for honest policies, since it has another level. So a gap alone shows nothing. A gap that
grows from the first policy to a later one shows that the later one has learnt what the terminal rung likes and the
control does not.

Diversity counts distinct scaffolds, and the distances between the candidates of an episode or a group.

The exploitation index is what a law promises for candidates that nobody verified, less what they turn out to be worth.
Nobody knows what the unverified candidates are worth. But a lot with a known chance π has sent other candidates of the
same kind to the terminal rung. Each of these verified candidates counts (1 - π) / π times, since so many like it were
not drawn. Their mean payoff then estimates, without bias, what the law should have promised.

A policy that is rewarded by a law finds the candidates of which the law thinks too well. The index then rises above 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln

from sciagent.chemistry.fingerprints_and_families import Features
from sciagent.chemistry.subjects.base import Subject

Array = NDArray[np.float64]


class ClusteredMean(NamedTuple):
    """A weighted mean with its standard error."""

    value: float
    error: float | None
    """Standard error; None for fewer than two clusters."""
    n: int
    """Number of values."""
    clusters: int
    """Number of clusters, such as episodes."""


def clustered_mean(values: Array, clusters: Sequence[int], weights: Array | None = None) -> ClusteredMean | None:
    """Returns sum(w x) / sum(w) with its standard error; None without values or without weight.

    values, clusters, weights: (n,); clusters: the number of the cluster of each value; weights: 1 if left out.
    """
    weights = np.ones(len(values)) if weights is None else weights
    total = float(weights.sum())
    if not total > 0:
        return None
    mean = float(weights @ values) / total
    sums = cluster_sums(weights * (values - mean), clusters)
    m = len(sums)  # number of clusters
    error = None
    if m >= 2:
        error = float(np.sqrt(m / (m - 1) * (sums**2).sum())) / total
    return ClusteredMean(mean, error, n=len(values), clusters=m)


def cluster_sums(values: Array, clusters: Sequence[int]) -> Array:
    """Returns (m,) sums of the values of each of the m clusters."""
    _, places = np.unique(np.asarray(clusters), return_inverse=True)
    return np.bincount(places, weights=values).astype(np.float64)


RELATIVE_TOLERANCE = 1e-6  # error of an upper bound, as a share of the range of the values
STAKES = np.array([0.05, 0.1, 0.2, 0.4, 0.8])  # shares of the largest possible stake; the wealth is divided among them


class SequentialTest:
    """A test of whether the mean of values lies above a limit. The values come step by step."""

    def __init__(self) -> None:
        self._logs: Array = np.zeros((0, len(STAKES)))  # log-wealth of the gambler of each first step and stake

    def add(self, values: Sequence[float], limit: float, low: float) -> None:
        """Adds the values of a step.

        values: (n,) each at least `low`; given all earlier ones, their mean is at most `limit` under the hypothesis.
        limit: above low. It may differ from step to step, if it depends on earlier steps alone.
        """
        self._logs = np.vstack([self._logs, np.zeros(len(STAKES))])
        excess = (np.asarray(values, dtype=float) - limit) / (limit - low)
        self._logs = self._logs + np.log1p(np.outer(STAKES, excess)).sum(axis=1)

    @property
    def log_wealth(self) -> float:
        """The logarithm of the wealth of all gamblers.

        The gambler of the k-th step has 1 / (k (k + 1)) at the beginning, and keeps it until that step. The gamblers of
        the steps to come are counted, too: they have 1 / (number of steps + 1) together.
        """
        steps = len(self._logs)
        if not steps:
            return 0.0
        k = np.arange(1, steps + 1)
        log_shares = np.log(1 / (k * (k + 1.0)))[:, None] - np.log(len(STAKES))
        log_begun = np.logaddexp.reduce(self._logs + log_shares, axis=None)
        log_to_come = -np.log(steps + 1.0)
        return float(np.logaddexp(log_begun, log_to_come))

    def rejects(self, level: float) -> bool:
        """Returns whether the mean lies above the limit.

        The probability that this is ever wrong, at any step, is at most `level`.
        """
        return self.log_wealth >= -math.log(level)


def upper_bound(values: Sequence[float], level: float, low: float, high: float) -> float:
    """Returns a bound above the mean of values from `low` to `high`, which fails with a probability of at most `level`.

    values: (n,). The bound may be taken again after each further value. Without values it is `high`.
    """
    x = np.asarray(values, dtype=float)
    needed = math.log(len(STAKES) / level)  # log of the growth 1 / level, summed over stakes that begin with 1 each

    def excess_log_wealth(mean: float) -> float:
        """Returns how far gamblers against this mean have come beyond the wealth that refutes it."""
        gains = np.log1p(np.outer(STAKES, (mean - x) / (high - mean))).sum(axis=1)
        return float(np.logaddexp.reduce(gains)) - needed

    tolerance = RELATIVE_TOLERANCE * (high - low)
    top = high - tolerance
    if excess_log_wealth(top) <= 0:
        return high
    start = max(low, float(x.mean()))
    if excess_log_wealth(start) >= 0:
        return start
    return float(brentq(excess_log_wealth, start, top, xtol=tolerance))


N_PERMUTATIONS = 1999  # random permutations of the episodes
SEED = 0  # of the permutations, so that a test can be repeated
ROUNDING = 1e-12  # difference of two growths that counts as none


class GapGrowth(NamedTuple):
    """The growth of the control gap from one policy to another."""

    value: float
    error: float | None
    """Standard error; None if a policy has fewer than two episodes."""
    p: float
    """Probability of so large a growth, or a larger one, if the policies do not differ."""


def gap_growth(
    gaps: Array, episodes: Sequence[int], first_gaps: Array, first_episodes: Sequence[int]
) -> GapGrowth | None:
    """Compares the gaps of a policy with those of the first one; returns None if either has none.

    gaps, episodes: (n,) payoff less control score of a candidate, and its episode. The test permutes whole episodes
    between the two policies, so that it needs no distribution and holds for few episodes.
    """
    now = clustered_mean(gaps, episodes)
    before = clustered_mean(first_gaps, first_episodes)
    if now is None or before is None:
        return None
    growth = now.value - before.value
    error = None
    if now.error is not None and before.error is not None:
        error = float(np.hypot(now.error, before.error))
    sums = np.concatenate([cluster_sums(gaps, episodes), cluster_sums(first_gaps, first_episodes)])
    own_sizes = cluster_sums(np.ones(len(gaps)), episodes)
    first_sizes = cluster_sums(np.ones(len(first_gaps)), first_episodes)
    sizes = np.concatenate([own_sizes, first_sizes])
    return GapGrowth(growth, error, _share_as_large(sums, sizes, now.clusters, growth))


def _share_as_large(sums: Array, sizes: Array, ours: int, growth: float) -> float:
    """Returns the share of permutations with a growth of at least `growth`. sums, sizes: (m,) sum and number of the
    gaps of each episode; the first `ours` belong to the later policy."""
    rng = np.random.default_rng(SEED)
    n_as_large = 1  # the observed growth itself
    for _ in range(N_PERMUTATIONS):
        order = rng.permutation(len(sums))
        later = order[:ours]
        first = order[ours:]
        permuted_growth = sums[later].sum() / sizes[later].sum() - sums[first].sum() / sizes[first].sum()
        if permuted_growth >= growth - ROUNDING:
            n_as_large += 1
    return n_as_large / (N_PERMUTATIONS + 1)


def distinct_scaffolds(counts: Iterable[int], sample: int) -> float | None:
    """Returns the expected number of scaffolds in a random sample of `sample` proposals; None if there are fewer.

    counts: number of proposals of each scaffold. A policy that proposed more would otherwise look more diverse.

    Source: Hurlbert, Ecology 52, 577 (1971).
    """
    n = np.fromiter(counts, dtype=float)
    total = float(n.sum())
    if not 0 < sample <= total:
        return None
    p_missed = np.zeros(len(n))  # probability that the sample holds none of a scaffold
    can_miss = total - n >= sample
    n_others = total - n[can_miss]
    # the number of samples from other scaffolds over the number of all samples: C(n_others, sample) / C(total, sample)
    log_others = gammaln(n_others + 1) - gammaln(n_others - sample + 1)
    p_missed[can_miss] = np.exp(log_others - gammaln(total + 1) + gammaln(total - sample + 1))
    return float((1 - p_missed).sum())


def nearest_distances(subject: Subject, found: Sequence[Features]) -> Array:
    """Returns (n,) 1 less the similarity of each candidate to the most similar of the others.

    A candidate that occurs twice has the distance 0. One candidate alone has none: (0,).
    """
    if len(found) < 2:
        return np.zeros(0)
    nearest = np.zeros(len(found))
    for place in range(1, len(found)):
        alike = np.array(subject.similarities(found[place], found[:place]))
        nearest[:place] = np.maximum(nearest[:place], alike)
        nearest[place] = alike.max()
    return 1.0 - nearest


@dataclass(frozen=True)
class KeptPromise:
    """The promises of a law for the candidates of a policy, and what a lot made of them."""

    promised: ClusteredMean
    """Expected payoff of the candidates that were not verified."""
    kept: ClusteredMean
    """Payoff of the candidates that a lot has sent to the terminal rung, weighted to stand for the others."""
    error: float | None
    """Standard error of the index; None for fewer than two episodes on either side."""
    p: float | None
    """Probability of so large an index, or a larger one, if the law's promises were right on average."""

    @property
    def index(self) -> float:
        """The promised payoff less the kept one."""
        return self.promised.value - self.kept.value


def kept_promise(
    payoffs: Array, chances: Array, drawn_in: Sequence[int], expected: Array, others_in: Sequence[int]
) -> KeptPromise | None:
    """Compares the promises of a law with the draws of a lot; returns None without candidates on either side.

    payoffs, chances, drawn_in: (n,) payoff of verified candidates, chance with which each was drawn, and its episode.
    expected, others_in: (m,) expected payoff of candidates that were not drawn, and their episodes.

    The test is Student's, with as many degrees of freedom as the smaller side has episodes, less one. If payoffs are
    hits, their variance is at least the variance of a hit with the promised probability, since five misses in five
    draws do not show that a hit is impossible. For this, the probability is kept 1 / (2 n + 2) away from 0 and 1.
    """
    weights = (1 - chances) / chances
    kept = clustered_mean(payoffs, drawn_in, weights)
    promised = clustered_mean(expected, others_in)
    if kept is None or promised is None:
        return None
    if kept.error is None or promised.error is None:
        return KeptPromise(promised, kept, None, None)
    variance = kept.error**2
    if np.isin(payoffs, (0.0, 1.0)).all():
        margin = 0.5 / (len(payoffs) + 1)
        p = min(max(promised.value, margin), 1 - margin)
        share_of_variance = float((weights**2).sum() / weights.sum() ** 2)  # of a single draw's, in the weighted mean
        variance = max(variance, p * (1 - p) * share_of_variance)
    error = float(np.sqrt(variance + promised.error**2))
    freedom = min(kept.clusters, promised.clusters) - 1
    return KeptPromise(promised, kept, error, _tail(promised.value - kept.value, error, freedom))


def _tail(difference: float, error: float, freedom: int) -> float:
    """Returns the probability that Student's t exceeds difference / error."""
    from scipy.special import stdtr

    if error > 0:
        return float(stdtr(freedom, -difference / error))
    return float(difference <= 0)  # without an error the difference is certain
