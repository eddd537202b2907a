from __future__ import annotations

import numpy as np

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase
from sciagent.scheduling.rules.priced import EARLY_LESSON_SHARE, FEW_ANSWERS, LATER_LESSON_SHARE, Lessons

BELOW = [PaidIndex(0), PaidIndex(1)]
LAST = PaidIndex(2)


def pool_of(known: tuple[int, int], verified: int, costs: tuple[float, float]) -> CandidatePool:
    """Returns a pool of 100. known: verified candidates with each of the two lower rungs."""
    scores = np.full((100, 3), np.nan)
    scores[:verified, 2] = 1.0
    for j, n in enumerate(known):
        scores[:n, j] = 1.0
    return CandidatePool(scores, ~np.isnan(scores), np.tile([*costs, 1.0], (100, 1)))


def lessons(pool: CandidatePool, batch: int = 1) -> list[int]:
    """Returns the rungs that are added to as many verifications."""
    bought = [Purchase(99 - i, LAST, 1.0) for i in range(batch)]
    return [one.rung for one in Lessons().with_lessons(pool, bought, BELOW) if one.rung != LAST]


def test_the_rung_that_is_known_least_comes_first() -> None:
    assert lessons(pool_of((2, 1), 2, (0.06, 0.06))) == [1]
    assert lessons(pool_of((1, 2), 2, (0.06, 0.06))) == [0]


def test_rungs_of_a_candidate_run_from_below() -> None:
    assert lessons(pool_of((3, 2), 10, (0.06, 0.06))) == [0, 1]


def test_first_answers_may_cost_more() -> None:
    first, later = (
        pool_of((FEW_ANSWERS - 1, FEW_ANSWERS - 1), FEW_ANSWERS - 1, (0.05, 0.05)),
        pool_of((FEW_ANSWERS, FEW_ANSWERS), FEW_ANSWERS, (0.05, 0.05)),
    )
    assert lessons(first) == [0, 1] and EARLY_LESSON_SHARE * first.spent > 0.1 > LATER_LESSON_SHARE * first.spent
    assert lessons(later) == [0] and EARLY_LESSON_SHARE * later.spent > 0.1 > LATER_LESSON_SHARE * later.spent


def test_a_dear_rung_has_fewer_first_answers() -> None:
    assert lessons(pool_of((2, 9), 5, (0.1, 0.1))) == [0]
    assert lessons(pool_of((3, 9), 5, (0.1, 0.1))) == []


def test_none_follows_a_higher_rung() -> None:
    pool = pool_of((0, 0), 10, (0.01, 0.01))
    pool.closed[99, 1] = True
    assert lessons(pool) == []
