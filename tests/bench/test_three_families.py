"""Synthetic ladders that are hard for simple rules: what the priced ladder finds, its law unknown at the start."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent_bench.replay_cases import OfFamily
from sciagent_bench.run_trials import Trial, run

N, BUDGET, SEEDS = 5000, 0.05, 2
pytestmark = pytest.mark.long


def recalls(family: str, scheduler: str) -> np.ndarray:
    source = OfFamily(family, N, 0.01)
    return np.array([run(source, Trial(scheduler, seed, BUDGET))[0] for seed in range(SEEDS)], dtype=float)


@pytest.mark.parametrize(("family", "least"), [("worthless-middle", 0.52), ("flat", 0.17)])
def test_priced_finds_its_share_and_is_behind_no_simple_rule(family: str, least: float) -> None:
    """With 50 hits the law costs more of what there is to find than in the committed benchmark with 200."""
    priced = recalls(family, "priced")
    assert priced.mean() >= least
    for rule in ("halving", "best_rung", "thresholds"):
        other = recalls(family, rule)
        spread = 2 * np.sqrt((priced.var(ddof=1) + other.var(ddof=1)) / SEEDS)
        assert priced.mean() >= other.mean() - max(spread, 0.04), rule
