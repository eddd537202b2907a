"""Tasks that are out count against a goal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.scheduling.aims import Aims
from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.hit_chances import hit_chances
from sciagent.scheduling.in_flight import enough, further
from sciagent.scheduling.rules.priced import Priced


@pytest.mark.parametrize(("count", "hits", "verified"), [(2, 0, 0), (10, 0, 0), (10, 5, 10), (1, 0, 20), (3, 2, 2)])
def test_without_a_law_as_many_tasks_are_out_as_the_share_of_hits_asks_for(
    count: int, hits: int, verified: int
) -> None:
    p, n = (hits + 1) / (verified + 2), enough(count, hits, verified)
    assert hits + n * p >= count - 1e-6 > hits + (n - 1) * p


def test_a_goal_that_is_reached_needs_no_more_tasks() -> None:
    assert enough(2, 2, 5) == enough(2, 3, 5) == further(0, (), [0.5]) == 0


@pytest.mark.parametrize(
    ("out", "ahead", "expected"),
    [
        ([], [0.9, 0.6, 0.5, 0.1], 3),
        ([0.9, 0.6], [0.5, 0.1], 1),
        ([0.9, 0.6, 0.5], [0.5, 0.1], 0),
        ([0.1], [0.2, 0.2], 2),
    ],
)
def test_each_task_counts_with_its_own_chance(out: Sequence[float], ahead: Sequence[float], expected: int) -> None:
    """Two hits are missing; the last list is too short for them."""
    assert further(2, out, ahead) == expected


def test_the_chances_are_those_of_the_law_now() -> None:
    values = np.linspace(0.0, 1.0, 40)
    pool = CandidatePool(np.full((40, 2), np.nan), np.zeros((40, 2), dtype=bool), np.tile([0.001, 1.0], (40, 1)))
    priced, out = Priced(Aims.with_threshold(2, 0.8, 1), None, 0, 20.0), np.array([5, 35])
    assert hit_chances(priced, pool, out, pool.open) is None, "there is no law"
    pool.scores[:, 0], pool.closed[:, 0] = values, True
    pool.scores[::4, 1], pool.closed[::4, 1], pool.out[::4] = values[::4], True, True
    pool.tried[:] = 40, 10
    priced.choose(pool, 10.0)
    pool.closed[out, PaidIndex(1)] = pool.pending[out] = True
    chances = hit_chances(priced, pool, out, pool.open)
    assert chances is not None and chances.out[0] < 0.2 < 0.8 < chances.out[1]
    assert list(chances.ahead) == sorted(chances.ahead, reverse=True) and len(chances.ahead) == len(pool.open)
