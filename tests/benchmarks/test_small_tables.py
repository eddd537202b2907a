"""Real tables cut to small campaigns: a reduced form of what benchmarks/scheduling/README.md reports."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from benchmarks.scheduling.calibration import HERE
from sciagent_bench.draw_candidates_and_alter_rungs import Changed
from sciagent_bench.replay_cases import OfTable
from sciagent_bench.replay_score import MARKS
from sciagent_bench.run_trials import HINDSIGHT, Trial, run
from sciagent_bench.several_tables import read_collection

SEEDS = 4
TABLES = ("partition", "dipoles", "flash_points")  # none of those that the law was tuned on


@cache
def costs(table: str, scheduler: str, noise: float | None = None) -> np.ndarray:
    """(seeds, marks) costs of recalls of 150 candidates, a tenth of them hits."""
    source = Changed(OfTable(read_collection(HERE / "tables.yaml")[table].case(HERE)), 150, 0.1, noise)
    return np.array([run(source, Trial(scheduler, seed, None)) for seed in range(SEEDS)], dtype=float)[:, :3]


@pytest.mark.parametrize("table", TABLES)
def test_few_candidates_cost_little_more_than_thresholds_that_know_all_answers(table: str) -> None:
    ratio = costs(table, "priced").mean(0) / costs(table, HINDSIGHT).mean(0)
    assert MARKS[:3] == (0.5, 0.8, 0.9)
    assert ratio.prod() ** (1 / 3) < 1.35, ratio


@pytest.mark.long
def test_a_worthless_rung_costs_little() -> None:
    ratios = [costs(table, "priced", 0.05).mean(0) / costs(table, "priced").mean(0) for table in TABLES]
    assert np.exp(np.log(ratios).mean()) < 1.1, ratios
