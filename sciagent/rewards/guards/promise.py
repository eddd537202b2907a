"""The exploitation index: what a law promises for candidates that nobody verified, less what they turn out to be worth.

Nobody knows what the unverified candidates are worth. But a lot with a known chance π has verified others of the same
kind. Each of those counts (1 - π) / π times, since so many like it were not drawn, and their mean payoff then
estimates, without bias, what the law should have promised.

A policy that is rewarded by a law finds the candidates of which the law thinks too well. The index then rises above 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sciagent.rewards.guards.clustered import Array, ClusteredMean, clustered_mean


@dataclass(frozen=True)
class KeptPromise:
    """The promises of a law for the candidates of a policy, and what a lot made of them."""

    promised: ClusteredMean
    """Expected payoff of the candidates that were not verified."""
    kept: ClusteredMean
    """Payoff of those that a lot has sent to the terminal rung, weighted to stand for the others."""
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
    hits, their variance is taken as at least that of a hit of the promised probability, which n draws cannot tell
    from 0 or 1 by less than 1 / (2 n + 2): five misses in five draws do not show that a hit is impossible.
    """
    weights = (1 - chances) / chances
    kept, promised = clustered_mean(payoffs, drawn_in, weights), clustered_mean(expected, others_in)
    if kept is None or promised is None:
        return None
    if kept.error is None or promised.error is None:
        return KeptPromise(promised, kept, None, None)
    variance = kept.error**2
    if np.isin(payoffs, (0.0, 1.0)).all():
        least = 0.5 / (len(payoffs) + 1)
        p = min(max(promised.value, least), 1 - least)
        variance = max(variance, p * (1 - p) * float((weights**2).sum() / weights.sum() ** 2))
    error = float(np.sqrt(variance + promised.error**2))
    freedom = min(kept.clusters, promised.clusters) - 1
    return KeptPromise(promised, kept, error, _tail(promised.value - kept.value, error, freedom))


def _tail(difference: float, error: float, freedom: int) -> float:
    """Returns the probability that Student's t exceeds difference / error."""
    from scipy.special import stdtr

    return float(stdtr(freedom, -difference / error)) if error > 0 else float(difference <= 0)
