"""A rule on a pool sees what it would see in a campaign, and buys what it would run there."""

from __future__ import annotations

import numpy as np

from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.rules.exhaustive import Exhaustive
from sciagent_bench.rivals.campaign_rules_and_fitted_ones import FallingHalving, Ordered, choose_rung

NAN = np.nan


def pool(scores: list[list[float]]) -> CandidatePool:
    """Three rungs of cost 1, 10 and 100; what has a score was bought."""
    seen = np.array(scores, dtype=float)
    made = CandidatePool(seen, ~np.isnan(seen), np.tile([1.0, 10.0, 100.0], (len(seen), 1)))
    made.out = ~np.isnan(seen[:, -1])
    return made


def test_an_index_falls_with_what_was_spent_since_the_last_arrivals() -> None:
    rule, made = Ordered(Exhaustive()), pool([[NAN] * 3, [NAN] * 3])
    made.slots = 1
    assert [p.index for p in rule.choose(made, 1e9)] == [-1.0]
    made.scores[0, 0], made.closed[0, 0] = 0.5, True
    assert [p.index for p in rule.choose(made, 1e9)] == [-11.0]
    made.add(np.array([[1.0, 10.0, 100.0]]))
    assert [p.index for p in rule.choose(made, 1e9)] == [-10.0]


def test_falling_halving_keeps_half_of_the_budget_for_those_that_go_on() -> None:
    made = pool([[NAN] * 3] * 50)
    chosen = FallingHalving(1).choose(made, 60.0)
    assert [p.rung for p in chosen] == [0] * 30


def test_best_rung_weighs_what_a_rung_tells_against_what_it_costs() -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(20)
    pilot = np.column_stack([rng.standard_normal(20), truth + 0.3 * rng.standard_normal(20), truth + 0.01, truth])
    dear, cheap = np.array([[1.0, 10.0, 500.0, 1000.0]]), np.array([[1.0, 10.0, 11.0, 1000.0]])
    assert choose_rung(pilot, 2.0, dear, 50.0)[0] == 1
    assert choose_rung(pilot, 2.0, cheap, 50.0)[0] == 2
    assert choose_rung(pilot[:2], 2.0, cheap, 50.0) == (3, 1.0)  # nothing learned: straight to the terminal rung
