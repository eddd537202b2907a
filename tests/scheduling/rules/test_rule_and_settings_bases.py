"""A rule sees who waits for which rung, and buys the same in a campaign and in the bench."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.rules import SCHEDULERS
from sciagent.scheduling.rules.exhaustive import Exhaustive
from sciagent.scheduling.rules.halving import Halving
from sciagent.scheduling.rules.rank_by_one_rung import BestRung
from sciagent.scheduling.rules.rule_and_settings_bases import FIRST, PaidLadder, RungRule, Waiting, waiting_in
from sciagent.scheduling.rules.thresholds import Thresholds
from sciagent_bench.rivals.campaign_rules_and_fitted_ones import ranks
from tests.scheduling.rules.arrays import NAN, waiting, worths


def pool(scores: list[list[float]]) -> CandidatePool:
    """Three rungs of cost 1, 10 and 100; what has an answer was bought."""
    seen = np.array(scores, dtype=float)
    made = CandidatePool(seen, ~np.isnan(seen), np.tile([1.0, 10.0, 100.0], (len(seen), 1)))
    made.out = ~np.isnan(seen[:, -1])
    made.worth = worths(ranks(seen, 1))
    return made


def six_of_seven() -> CandidatePool:
    answered = [0.1, 0.9, 0.5, 0.8, 0.2, 0.3]
    return pool([*([a, 7.0 if a == 0.9 else NAN, NAN] for a in answered), [NAN] * 3])


def standing(made: CandidatePool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The rung that each candidate waits for, and its expected utility."""
    position, expected = np.full(len(made.out), -1), np.full(len(made.out), NAN)
    for at in waiting_in(made):
        position[at.rows], expected[at.rows] = at.rung, at.worth[:, 1]
    return position, expected


def bought(rule: RungRule, made: CandidatePool, slots: int) -> list[tuple[int, int]]:
    made.slots = slots
    return [(one.row, one.rung) for one in rule.choose(made, 1e9)]


def test_the_expected_utility_is_the_rank_of_the_last_answer_towards_the_goal() -> None:
    position, expected = standing(six_of_seven())
    assert position.tolist() == [1, 2, 1, 1, 1, 1, 0]
    np.testing.assert_allclose(
        expected, np.array([0.5, 3.0, 3.5, 4.5, 1.5, 2.5, NAN]) / 6
    )  # one answer above: rank 1 / 2
    falling = ranks(six_of_seven().scores, -1)
    np.testing.assert_allclose(falling, np.array([5.5, 3.0, 2.5, 1.5, 4.5, 3.5, NAN]) / 6)


def test_an_answer_that_failed_leaves_the_one_before() -> None:
    made = pool([[0.1, NAN, NAN], [0.9, NAN, NAN]])
    made.closed[1, 1] = True
    position, expected = standing(made)
    assert position.tolist() == [1, 2]
    assert expected.tolist() == [0.25, 0.75]


def test_thresholds_buys_the_best_first() -> None:
    made = pool([[0.1, NAN, NAN], [0.9, NAN, NAN]])
    made.worth = worths(np.array([0.7, 0.2]))
    assert bought(Thresholds(), made, 2) == [(0, 1), (1, 1)]


def test_halving_promotes_what_asha_would() -> None:
    """Six answers and eta 3: two places on the second rung, one is taken; the next goes to the best that waits there.
    One answer on the second rung gives no place on the third."""
    assert bought(Halving(3.0), six_of_seven(), 1) == [(3, 1)]
    falling = six_of_seven()
    falling.worth = worths(ranks(falling.scores, -1))
    assert bought(Halving(3.0), falling, 2) == [(0, 1), (6, 0)]


def test_exhaustive_goes_on_with_the_first_that_came() -> None:
    assert bought(Exhaustive(), six_of_seven(), 2) == [(1, 2), (0, 1)]


def test_exhaustive_keeps_the_places_of_a_counted_rung_for_the_first_that_may_come() -> None:
    made = pool([[NAN] * 3, [0.5, 0.5, NAN], [0.5, 0.5, NAN]])
    made.room = (None, None, 2)
    assert bought(Exhaustive(), made, 9) == [(1, 2), (0, 0)], "the first may still come to the last place"


def test_candidates_at_work_wait_for_nothing() -> None:
    made = pool([[NAN] * 3, [NAN] * 3])
    made.pending[0] = made.closed[0, 0] = True
    ladder = waiting_in(made)
    assert [at.rows.tolist() for at in ladder] == [[1], [], []]
    assert (ladder[0].started, ladder[0].running) == (1, 1)


def test_a_rung_without_room_leaves_the_shares_of_the_others_alone() -> None:
    made = six_of_seven()
    made.room, made.started = (0, None, None), (9, 1, 0)
    assert bought(Halving(3.0), made, 9) == [(3, 1), (2, 1)]


def test_what_everyone_gets_is_the_first_rung_or_the_one_that_ranks() -> None:
    made = six_of_seven()
    assert [(one.row, one.rung) for one in Thresholds().for_everyone(made)] == [(6, 0)]
    ranks = BestRung(made.paid[1], made.paid[2]).for_everyone(made)
    assert {one.rung for one in ranks} == {1} and len(ranks) == 6


def test_the_best_come_first_and_equal_ones_in_order_of_arrival() -> None:
    at = waiting(FIRST, [3, 5, 7, 9], [0.2, 0.9, NAN, 0.9])
    assert [at.rows[at.best(n)].tolist() for n in (0, 1, 3, 9)] == [[], [5], [5, 9, 3], [5, 9, 3, 7]]


def test_the_chance_goes_before_the_expected_utility_and_that_before_the_margin() -> None:
    worth = np.array(
        [
            [1, 1.0, 9.0, NAN],
            [30, 0.2, 0.0, 0.3],
            [30, 0.2, 0.1, 0.3],
            [30, 0.3, -5.0, 0.3],
            [100, 0.1, 0.0, 1.0],
            [0, 1.0, 0.0, 0.0],
        ]
    )
    at = Waiting(FIRST, np.arange(6), worth)
    assert [at.best(n).tolist() for n in (1, 3, 6)] == [[4], [4, 3, 2], [4, 3, 2, 1, 0, 5]]
    assert at.words(1) == "; P(hit) 30 %, expected utility 0.20"
    assert at.words(0) == "; P(hit) unknown, expected utility 1.00", "the chance of 1 % only orders it"


@pytest.mark.parametrize("kind", [scheduler.name() for scheduler in SCHEDULERS if scheduler.name() != "priced"])
def test_every_choice_has_a_reason_that_opens_with_the_rule_and_a_propensity(kind: str) -> None:
    [scheduler] = [each for each in SCHEDULERS if each.name() == kind]
    rule = scheduler(kind=kind).rule(PaidLadder(("xtb", "dft"), (Tier.SIMULATION, Tier.HIGH_FIDELITY), seed=1))
    ladder = [waiting(0, [1, 2, 3], started=9), waiting(1, [4, 5], [0.3, 0.6])]
    choices = rule.next(ladder, 4)
    assert len(choices) == 4
    assert all(c.why.startswith(kind) for c in choices)
    assert all(0 < c.propensity <= 1 for c in choices)
    assert rule.next(ladder, 4) == choices


def test_only_a_scheduler_that_knows_its_chance_states_one() -> None:
    for scheduler in SCHEDULERS:
        chance = scheduler(kind=scheduler.name()).terminal_chance()
        assert (chance is not None) == scheduler.knows_chance
