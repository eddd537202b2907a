"""The control gap: the payoff by the terminal rung less the score by a control that is never rewarded.

A control differs from the terminal rung also for honest policies, since it has another level. So a gap alone shows
nothing. A gap that grows from the first policy to a later one shows that the later one has learnt what the terminal
rung likes and the control does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sciagent.rewards.guards.clustered import Array, cluster_sums, clustered_mean

DRAWS = 1999  # random permutations of the episodes
SEED = 0


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
    now, before = clustered_mean(gaps, episodes), clustered_mean(first_gaps, first_episodes)
    if now is None or before is None:
        return None
    growth = now.value - before.value
    error = None
    if now.error is not None and before.error is not None:
        error = float(np.hypot(now.error, before.error))
    sums = np.concatenate([cluster_sums(gaps, episodes), cluster_sums(first_gaps, first_episodes)])
    sizes = np.concatenate(
        [cluster_sums(np.ones(len(gaps)), episodes), cluster_sums(np.ones(len(first_gaps)), first_episodes)]
    )
    return GapGrowth(growth, error, _share_as_large(sums, sizes, now.clusters, growth))


def _share_as_large(sums: Array, sizes: Array, ours: int, growth: float) -> float:
    """Returns the share of permutations with a growth of at least `growth`. sums, sizes: (m,) sum and number of the
    gaps of each episode; the first `ours` belong to the later policy."""
    rng, slack, as_large = np.random.default_rng(SEED), 1e-12, 1
    for _ in range(DRAWS):
        order = rng.permutation(len(sums))
        mine, others = order[:ours], order[ours:]
        drawn = sums[mine].sum() / sizes[mine].sum() - sums[others].sum() / sizes[others].sum()
        as_large += bool(drawn >= growth - slack)
    return as_large / (DRAWS + 1)
