"""A rule on a board sees what it would see in a campaign, and buys what it would run there."""

from __future__ import annotations

import numpy as np

from sciagent.scheduling.candidate_pool import Board
from sciagent.scheduling.replay.ruled import FallingHalving, Ruled, choose_rung, standing
from sciagent.scheduling.rules.exhaustive import Exhaustive
from sciagent.scheduling.rules.halving import Halving

NAN = np.nan


def board(scores: list[list[float]]) -> Board:
    """Three rungs of cost 1, 10 and 100; what has a score was bought."""
    seen = np.array(scores, dtype=float)
    made = Board(seen, ~np.isnan(seen), np.tile([1.0, 10.0, 100.0], (len(seen), 1)))
    made.out = ~np.isnan(seen[:, -1])
    return made


SIX_OF_SEVEN = board(
    [[0.1, NAN, NAN], [0.9, 7.0, NAN], [0.5, NAN, NAN], [0.8, NAN, NAN], [0.2, NAN, NAN], [0.3, NAN, NAN], [NAN] * 3]
)


def test_the_score_is_the_rank_of_the_last_answer_towards_the_goal() -> None:
    position, score = standing(SIX_OF_SEVEN, 1)
    assert position.tolist() == [1, 2, 1, 1, 1, 1, 0]
    np.testing.assert_allclose(score, np.array([0.5, 3.0, 3.5, 4.5, 1.5, 2.5, NAN]) / 6)  # one answer above: rank 1 / 2
    _, falling = standing(SIX_OF_SEVEN, -1)
    np.testing.assert_allclose(falling, np.array([5.5, 3.0, 2.5, 1.5, 4.5, 3.5, NAN]) / 6)


def test_an_answer_that_failed_leaves_the_score_of_the_one_before() -> None:
    made = board([[0.1, NAN, NAN], [0.9, NAN, NAN]])
    made.closed[1, 1] = True
    position, score = standing(made, 1)
    assert position.tolist() == [1, 2]
    assert score.tolist() == [0.25, 0.75]


def test_halving_promotes_what_asha_would() -> None:
    """Six answers and eta 3: two places on the second rung, one is taken; the next goes to the best that waits there.
    One answer on the second rung gives no place on the third."""
    chosen = Ruled(Halving(3.0), 1, slots=1).choose(SIX_OF_SEVEN, 1e9)
    assert [(p.of, p.rung) for p in chosen] == [(3, 1)]
    chosen = Ruled(Halving(3.0), -1, slots=2).choose(SIX_OF_SEVEN, 1e9)
    assert [(p.of, p.rung) for p in chosen] == [(0, 1), (6, 0)]


def test_exhaustive_goes_on_with_the_first_that_came() -> None:
    chosen = Ruled(Exhaustive(), 1, slots=2).choose(SIX_OF_SEVEN, 1e9)
    assert [(p.of, p.rung) for p in chosen] == [(1, 2), (0, 1)]


def test_an_index_falls_with_what_was_spent_since_the_last_arrivals() -> None:
    rule, made = Ruled(Exhaustive(), 1, slots=1), board([[NAN] * 3, [NAN] * 3])
    assert [p.index for p in rule.choose(made, 1e9)] == [-1.0]
    made.scores[0, 0], made.closed[0, 0] = 0.5, True
    assert [p.index for p in rule.choose(made, 1e9)] == [-11.0]
    made.add(np.array([[1.0, 10.0, 100.0]]))
    assert [p.index for p in rule.choose(made, 1e9)] == [-10.0]


def test_falling_halving_keeps_half_of_the_budget_for_those_that_go_on() -> None:
    made = board([[NAN] * 3] * 50)
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
