"""The chances of a hit by the law of the scheduler `priced`, of candidates that are with people and of those ahead."""

from __future__ import annotations

import numpy as np

from sciagent.scheduling.arrays import Places
from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.in_flight import Chances
from sciagent.scheduling.rules.priced import Priced


def hit_chances(priced: Priced, pool: CandidatePool, out: Places, ahead: Places) -> Chances | None:
    """Returns the chance of each row of `out` to be a hit, and those of the rows `ahead`, descending, as they were last
    evaluated. Rows of `out` are valued as if their terminal rung were still open. Returns None without a law, and where
    the goal is not to count hits."""
    if priced.aims.kind != "hits" or not priced.laws:
        return None
    if len(out):
        priced.evaluate(pool, out)
    chances = priced.expected[ahead[ahead < len(priced.expected)]]
    return Chances(priced.expected[out].tolist(), np.sort(chances[~np.isnan(chances)])[::-1].tolist())
