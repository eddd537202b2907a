"""One rung ranks everything, the terminal one takes the best, and nothing else is run."""

from __future__ import annotations

import pytest

from sciagent.domain.rung_positions_and_tiers import PaidIndex, Tier
from sciagent.scheduling.rules.rank_by_one_rung import BestRung, BestRungSpec
from sciagent.scheduling.rules.rule_and_settings_bases import PaidLadder
from tests.scheduling.rules.arrays import NAN, waiting

# the second of four rungs ranks
LADDER = [waiting(0, [1, 2, 3]), waiting(1, [4]), waiting(2, [5, 6], [0.2, 0.9]), waiting(3, [])]
SECOND, TERMINAL = PaidIndex(1), PaidIndex(3)


def test_what_waits_below_is_ranked_first_and_jumps_the_rungs_between() -> None:
    choices = BestRung(SECOND, TERMINAL).next(LADDER, 9)
    assert [(c.row, c.rung) for c in choices] == [(1, 1), (2, 1), (3, 1), (4, 1), (6, 3), (5, 3)]
    assert choices[0].why == "best_rung: ranked by this rung alone"
    assert choices[4].why == "best_rung: best of those that wait; expected utility 0.90"


def test_the_terminal_rung_waits_while_there_are_places_for_fewer() -> None:
    assert [c.rung for c in BestRung(SECOND, TERMINAL).next(LADDER, 4)] == [1, 1, 1, 1]


def test_budgets_count_where_it_is_sent_and_not_where_it_waits() -> None:
    tight = [
        waiting(0, [1, 2, 3], remaining=0),
        waiting(1, [4], remaining=2),
        waiting(2, [5, 6], [0.2, 0.9], remaining=0),
        waiting(3, [], remaining=1),
    ]
    choices = BestRung(SECOND, TERMINAL).next(tight, 9)
    assert [(c.row, c.rung) for c in choices] == [(1, 1), (2, 1), (6, 3)]


def test_without_a_rung_to_rank_by_all_go_to_the_terminal_one_once() -> None:
    choices = BestRung(PaidIndex(0), PaidIndex(0)).next([waiting(0, [3, 4], [NAN, 0.5])], 9)
    assert [(c.row, c.rung) for c in choices] == [(4, 0), (3, 0)]


@pytest.mark.parametrize(("rung", "ranks"), [(None, 2), ("checks", 0), ("gfn1", 2)])
def test_the_last_rung_below_the_terminal_that_is_not_fast_ranks_unless_another_is_named(
    rung: str | None, ranks: int
) -> None:
    tiers = (Tier.FAST, Tier.SIMULATION, Tier.SIMULATION, Tier.FAST, Tier.HIGH_FIDELITY)
    ladder = PaidLadder(("checks", "xtb", "gfn1", "score", "dft"), tiers, seed=1)
    rule = BestRungSpec(kind="best_rung", rung=rung).rule(ladder)
    choices = rule.next([waiting(0, [7]), *(waiting(j, []) for j in range(1, 4)), waiting(4, [8])], 9)
    assert [(c.row, c.rung) for c in choices] == [(7, ranks), (8, 4)]


def test_the_terminal_rung_ranks_if_it_is_the_only_one() -> None:
    for tiers in ((), (Tier.SIMULATION,)):
        rule = BestRungSpec(kind="best_rung", rung=None).rule(PaidLadder(("dft",)[: len(tiers)], tiers, seed=1))
        assert rule.first_rung == 0
