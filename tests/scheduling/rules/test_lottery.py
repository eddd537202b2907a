from __future__ import annotations

import numpy as np

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.audit_of_dropped import lots
from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.rules.lottery import Lottery


def test_every_rung_below_is_run_on_all_and_the_terminal_one_by_lot_alone() -> None:
    n, chance = 2000, 0.2
    pool = CandidatePool(np.full((n, 2), np.nan), np.zeros((n, 2), dtype=bool), np.ones((n, 2)))
    pool.lots = lots(3, (f"key {i}" for i in range(n)))
    pool.worth[:] = np.linspace(0, 1, n)[:, None]  # plays no part
    rule, verified = Lottery(chance, 2), []
    while purchases := rule.choose(pool, np.inf):
        pool.slots = 64
        for purchase in purchases:
            pool.closed[purchase.row, purchase.rung] = True
            assert purchase.propensity == (chance if purchase.rung == 1 else 1.0)
            verified += [purchase.row] if purchase.rung == PaidIndex(1) else []
    assert pool.closed[:, 0].all()
    assert sorted(verified) == np.flatnonzero(pool.lots < chance).tolist()
    assert abs(len(verified) / n - chance) < 4 * (chance * (1 - chance) / n) ** 0.5
    assert rule.leaves(PaidIndex(1))
    assert not rule.leaves(PaidIndex(0))
