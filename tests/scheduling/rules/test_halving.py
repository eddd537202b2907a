"""One in eta goes on, the best of those that wait, as soon as there is a place."""

from __future__ import annotations

import pytest

from sciagent.scheduling.rules.halving import Halving
from tests.scheduling.rules.arrays import room, waiting


def ids(choices: list) -> list[tuple[int, int]]:  # type: ignore[type-arg]
    return [(c.id, c.position) for c in choices]


def test_nothing_goes_on_before_eta_were_answered() -> None:
    ladder = [waiting(1, [5, 6, 7]), waiting(2, [1, 2], [0.9, 0.5])]
    assert ids(Halving(3).choose(ladder, [room(started=2), room()], 1)) == [(5, 1)]
    assert ids(Halving(3).choose(ladder, [room(started=3), room()], 1)) == [(1, 2)]


def test_what_runs_has_not_answered() -> None:
    ladder = [waiting(1, [5]), waiting(2, [1], [0.9])]
    assert ids(Halving(3).choose(ladder, [room(started=4, running=2), room()], 1)) == [(5, 1)]


def test_the_share_is_kept_and_the_best_that_wait_go_first() -> None:
    ladder = [waiting(1, [20, 21]), waiting(2, [4, 3, 9, 6], [0.2, 0.8, 0.8, 0.5])]
    choices = Halving(3).choose(ladder, [room(started=13), room(started=1)], 8)
    assert ids(choices) == [(3, 2), (9, 2), (6, 2), (20, 1), (21, 1)]  # floor(13 / 3) - 1 = 3 places
    assert choices[0].why == "halving: best of those waiting; place 2 on 13 answers below, eta 3"
    assert choices[-1].why == "halving: next in order at the first paid rung"


def test_the_deepest_rung_comes_first_on_a_ladder_of_three() -> None:
    ladder = [waiting(1, [9]), waiting(2, [5, 6], [0.3, 0.4]), waiting(3, [1, 2], [0.1, 0.7])]
    taken = [room(started=8), room(started=4), room(started=1)]
    assert ids(Halving(2).choose(ladder, taken, 5)) == [(2, 3), (9, 1)]  # 4 // 2 - 1 places, 8 // 2 - 4 places
    assert ids(Halving(2).choose(ladder, [room(started=10), *taken[1:]], 5)) == [(2, 3), (6, 2), (9, 1)]


def test_a_budget_by_count_is_kept() -> None:
    ladder = [waiting(1, [9]), waiting(2, [5, 6], [0.3, 0.4])]
    assert ids(Halving(2).choose(ladder, [room(started=20), room(remaining=1)], 5)) == [(6, 2), (9, 1)]
    assert ids(Halving(2).choose(ladder, [room(remaining=0, started=20), room(remaining=0)], 5)) == []


def test_a_whole_run_promotes_the_best_ninth_and_nobody_waits() -> None:
    """81 candidates with known scores, one worker at a time: 81, 27 and 9 are run, and the best is among the 9."""
    score = {i: ((i * 37) % 81 + 1) / 82 for i in range(81)}
    at = {1: list(score), 2: [], 3: []}
    started = {1: 0, 2: 0, 3: 0}
    for _ in range(10_000):
        ladder = [waiting(p, at[p], None if p == 1 else [score[i] for i in at[p]]) for p in (1, 2, 3)]
        chosen = Halving(3).choose(ladder, [room(started=started[p]) for p in (1, 2, 3)], 1)
        if not chosen:
            break
        one = chosen[0]
        at[one.position].remove(one.id)
        started[one.position] += 1
        if one.position < 3:
            at[one.position + 1].append(one.id)
        last = one
    assert started == {1: 81, 2: 27, 3: 9}
    assert max(score, key=score.__getitem__) not in at[2] + at[3]
    assert last.position == 3


def test_eta_of_one_is_no_halving() -> None:
    with pytest.raises(ValueError, match="larger than 1"):
        Halving(1.0)
