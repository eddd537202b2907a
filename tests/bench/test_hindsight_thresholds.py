"""The least cost by thresholds, against every possible choice on small tables."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sciagent_bench.replay_cases import Case
from sciagent_bench.replay_once import Truth
from sciagent_bench.rivals.hindsight_thresholds import hindsight


def tried(case: Case, mark: float) -> float:
    """The same by trying all gates on two rungs or one."""
    scores, costs, hit = case.truth.scores, case.truth.costs[0], case.truth.hit
    wanted, n = np.ceil(mark * hit.sum() - 1e-9), len(hit)
    best = n * costs[-1]
    for first, second in product(range(2), range(2)):
        for a, b in product((1, -1), (1, -1)):
            if first == second and a != b:
                continue  # a window on one rung is no threshold
            for low, high in product(a * scores[:, first], b * scores[:, second]):
                seen = a * scores[:, first] >= low
                through = seen & (b * scores[:, second] >= high)
                if hit[through].sum() >= wanted:
                    more = 0.0 if first == second else seen.sum() * costs[second]
                    best = min(best, n * costs[first] + more + through.sum() * costs[-1])
    return float(best / case.truth.exhaustive)


@pytest.mark.parametrize("seed", range(4))
def test_the_least_cost_is_that_of_the_best_gates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(24)
    scores = np.column_stack([-truth + rng.standard_normal(24), truth + 0.3 * rng.standard_normal(24), truth])
    hit = truth > np.sort(truth)[-7]
    case = Case.of(Truth(scores, np.tile([0.1, 2.0, 20.0], (24, 1)), hit))
    assert hindsight(case, (0.5, 0.9)) == pytest.approx([tried(case, 0.5), tried(case, 0.9)])


def test_candidates_without_an_answer_come_last() -> None:
    scores = np.array([[np.nan, 5.0], [2.0, 4.0], [1.0, 1.0], [0.0, 0.0]])
    case = Case.of(Truth(scores, np.tile([0.0, 1.0], (4, 1)), np.array([True, True, False, False])))
    assert hindsight(case, (0.5, 1.0)) == [0.25, 1.0]
