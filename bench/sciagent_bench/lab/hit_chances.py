"""Counts what is with people by the law of the scheduler `priced`. Campaigns count it with the share of hits."""

from __future__ import annotations

import numpy as np

from sciagent.scheduling.arrays import Places
from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.rules.priced import Priced


def enough_by_law(missing: int, priced: Priced, pool: CandidatePool, out: Places, ahead: Places) -> int | None:
    """Returns how many rows `ahead`, those of the largest chances first, bring the missing hits together with the rows
    `out`: the least number with a sum of chances of at least `missing`.

    The chances are those of the last evaluation. Rows of `out` are valued as if their terminal rung were still open.
    Returns None without a law, and where the goal is not to count hits.
    """
    if priced.aims.kind != "hits" or not priced.laws:
        return None
    if len(out):
        priced.evaluate(pool, out)
    chances = priced.expected[ahead[ahead < len(priced.expected)]]
    largest_first = np.sort(chances[~np.isnan(chances)])[::-1]
    expected = priced.expected[out].sum() + np.concatenate([[0.0], np.cumsum(largest_first)])
    return int((expected < missing - 1e-9)[:-1].sum())
