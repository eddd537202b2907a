"""One rung ranks everything, the terminal one takes the best, and nothing else is run."""

from __future__ import annotations

import pytest

from sciagent.scheduling.rules.best_rung import BestRung
from tests.scheduling.rules.arrays import NAN, room, waiting

# positions 1, 2, 3 are paid; 2 ranks, 4 is terminal
LADDER = [waiting(1, [1, 2, 3]), waiting(2, [4]), waiting(3, [5, 6], [0.2, 0.9]), waiting(4, [])]
FREE = [room(), room(), room(), room()]


def test_what_waits_below_is_ranked_first_and_jumps_the_rungs_between() -> None:
    choices = BestRung(2, 4).choose(LADDER, FREE, 9)
    assert [(c.id, c.position) for c in choices] == [(1, 2), (2, 2), (3, 2), (4, 2), (6, 4), (5, 4)]
    assert choices[0].why == "best_rung: ranked by this rung alone"
    assert choices[4].why == "best_rung: best of those that wait; score 0.900"


def test_the_terminal_rung_waits_while_there_are_places_for_fewer() -> None:
    assert [c.position for c in BestRung(2, 4).choose(LADDER, FREE, 4)] == [2, 2, 2, 2]


def test_budgets_count_where_it_is_sent_and_not_where_it_waits() -> None:
    tight = [room(remaining=0), room(remaining=2), room(remaining=0), room(remaining=1)]
    choices = BestRung(2, 4).choose(LADDER, tight, 9)
    assert [(c.id, c.position) for c in choices] == [(1, 2), (2, 2), (6, 4)]


def test_without_a_rung_to_rank_by_all_go_to_the_terminal_one_once() -> None:
    ladder = [waiting(1, [3, 4], [NAN, 0.5])]
    assert [(c.id, c.position) for c in BestRung(1, 1).choose(ladder, [room()], 9)] == [(4, 1), (3, 1)]


def test_the_rung_that_ranks_comes_before_the_terminal_one() -> None:
    with pytest.raises(ValueError, match="after the terminal"):
        BestRung(5, 4)
