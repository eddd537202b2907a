"""Counting candidates that are with people by their chances under a law."""

from __future__ import annotations

import numpy as np

from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.scheduling.aims import Aims
from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.rules.priced import Priced
from sciagent_bench.lab.hit_chances import enough_by_law


def test_each_task_counts_with_its_own_chance_by_the_law_now() -> None:
    values = np.linspace(0.0, 1.0, 40)
    pool = CandidatePool(np.full((40, 2), np.nan), np.zeros((40, 2), dtype=bool), np.tile([0.001, 1.0], (40, 1)))
    priced, (poor, good) = Priced(Aims.with_threshold(2, 0.8, 1), None, 0, 20.0), np.array([[5], [35]])
    assert enough_by_law(2, priced, pool, good, pool.open) is None, "there is no law"
    pool.scores[:, 0], pool.closed[:, 0] = values, True
    pool.scores[::4, 1], pool.closed[::4, 1], pool.out[::4] = values[::4], True, True
    pool.tried[:] = 40, 10
    priced.choose(pool, 10.0)
    pool.closed[[5, 35], PaidIndex(1)] = pool.pending[[5, 35]] = True
    none, after_poor, after_good = (
        enough_by_law(2, priced, pool, np.array(out, dtype=np.intp), pool.open) for out in ([], poor, good)
    )
    assert none is not None and none == after_poor and after_good == none - 1
    assert enough_by_law(0, priced, pool, poor, pool.open) == 0
    assert enough_by_law(99, priced, pool, poor, pool.open) == len(pool.open), "all of them are too few"
