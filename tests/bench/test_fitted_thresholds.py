"""Gates found on a known law are as good as those found by trying them all, and a campaign with them keeps to them."""

from __future__ import annotations

import numpy as np

from sciagent_bench.replay_once import simulate
from sciagent_bench.rivals.fitted_thresholds import CampaignThresholds, find_gates, try_gates
from sciagent_bench.synthetic_ladders import family

COSTS = np.array([1.0, 10.0, 100.0])


def law(first: float, second: float, between: float) -> np.ndarray:  # type: ignore[type-arg]
    return np.array([[1.0, between, first], [between, 1.0, second], [first, second, 1.0]])


def test_gates_match_a_search_of_a_grid() -> None:
    correlation, level, budget = law(0.5, 0.8, 0.5), 2.0, 8.0
    found = find_gates(correlation, level, COSTS, budget, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    x = rng.standard_normal((100_000, 3)) @ np.linalg.cholesky(correlation).T
    hit = (x[:, 2] > level).astype(float)
    grid = [
        try_gates(x[:, :2], hit, COSTS, budget, np.array([a, b]))[0]
        for a in np.linspace(0.3, 1, 15)
        for b in np.linspace(0.05, 0.7, 27)
    ]
    own, _ = try_gates(x[:, : len(found.rungs) - 1], hit, COSTS, budget, np.array(found.shares[:-1]))
    assert found.rungs == (0, 1, 2)
    assert own > 0.95 * max(grid)
    assert sum(c * s for c, s in zip(COSTS, found.shares, strict=True)) <= budget * (1 + 1e-9)


def test_a_rung_that_tells_nothing_is_left_out() -> None:
    found = find_gates(law(0.7, 0.0, 0.0), 2.0, COSTS, 8.0, np.random.default_rng(0))
    assert found.rungs == (0, 2)


def test_without_rungs_chance_decides() -> None:
    found = find_gates(np.eye(1), 2.0, COSTS[-1:], 8.0, np.random.default_rng(0))
    assert found.rungs == (0,)
    assert found.shares == (0.08,)


def test_the_whole_budget_is_spent_what_is_left_over_on_the_best_turned_away() -> None:
    truth = family("informative", 800, 3, 0.03)
    threshold = float(np.sort(truth.scores[:, -1])[-24]) - 1e-6
    rule = CampaignThresholds(threshold, 1, 0, 0.6 * truth.exhaustive)
    run = simulate(truth, rule, 0.6, enough=2.0)  # it goes on when all hits are found
    assert run.spent > 0.99 * 0.6 * truth.exhaustive
    assert sum(run.hit) >= 22


def test_a_rung_that_falls_as_the_truth_rises_is_read_the_other_way() -> None:
    truth = family("informative", 800, 3, 0.03)
    truth.scores[:, :-1] *= -1
    threshold = float(np.sort(truth.scores[:, -1])[-24]) - 1e-6
    run = simulate(truth, CampaignThresholds(threshold, 1, 0, 0.15 * truth.exhaustive), 0.15)
    assert sum(run.hit) >= 10
