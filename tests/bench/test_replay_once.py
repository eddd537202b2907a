"""A run buys in the scheduler's order until the budget is spent."""

from __future__ import annotations

import numpy as np

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase
from sciagent_bench.replay_once import Truth, simulate


class InOrder:
    """Buys the terminal rung for every open candidate, in the order of arrival."""

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        return [Purchase(row, PaidIndex(0), 1.0) for row in pool.open.tolist()]


def test_a_run_stops_when_its_share_of_the_budget_is_spent() -> None:
    truth = Truth(np.arange(10.0)[:, None], np.ones((10, 1)), np.arange(10) % 2 == 1)
    run = simulate(truth, InOrder(), 0.6, enough=2.0)
    assert run.of == [0, 1, 2, 3, 4, 5] and run.spent == 6.0
    assert sum(run.hit) == 3
