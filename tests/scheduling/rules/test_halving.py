"""One in eta goes on, the best of those that wait, as soon as there is a place."""

from __future__ import annotations

from sciagent.scheduling.rules.halving import Halving, HalvingSpec
from tests.scheduling.rules.arrays import waiting


def ids(choices: list) -> list[tuple[int, int]]:  # type: ignore[type-arg]
    return [(c.row, c.rung) for c in choices]


def test_nothing_goes_on_before_eta_were_answered() -> None:
    above = waiting(1, [1, 2], [0.9, 0.5])
    assert ids(Halving(3).next([waiting(0, [5, 6, 7], started=2), above], 1)) == [(5, 0)]
    assert ids(Halving(3).next([waiting(0, [5, 6, 7], started=3), above], 1)) == [(1, 1)]


def test_what_runs_has_not_answered() -> None:
    ladder = [waiting(0, [5], started=4, running=2), waiting(1, [1], [0.9])]
    assert ids(Halving(3).next(ladder, 1)) == [(5, 0)]


def test_the_share_is_kept_and_the_best_that_wait_go_first() -> None:
    ladder = [waiting(0, [20, 21], started=13), waiting(1, [3, 4, 6, 9], [0.8, 0.2, 0.5, 0.8], started=1)]
    choices = Halving(3).next(ladder, 8)
    assert ids(choices) == [(3, 1), (9, 1), (6, 1), (20, 0), (21, 0)]  # floor(13 / 3) - 1 = 3 places
    assert choices[0].why == "halving: best of those waiting; place 2 on 13 answers below, eta 3"
    assert choices[-1].why == "halving: next in order at the first paid rung"


def test_the_deepest_rung_comes_first_on_a_ladder_of_three() -> None:
    above = [waiting(1, [5, 6], [0.3, 0.4], started=4), waiting(2, [1, 2], [0.1, 0.7], started=1)]
    # 4 // 2 - 1 places, 8 // 2 - 4 places
    assert ids(Halving(2).next([waiting(0, [9], started=8), *above], 5)) == [(2, 2), (9, 0)]
    assert ids(Halving(2).next([waiting(0, [9], started=10), *above], 5)) == [(2, 2), (6, 1), (9, 0)]


def test_a_budget_by_count_is_kept() -> None:
    one, none = (waiting(1, [5, 6], [0.3, 0.4], remaining=n) for n in (1, 0))
    assert ids(Halving(2).next([waiting(0, [9], started=20), one], 5)) == [(6, 1), (9, 0)]
    assert ids(Halving(2).next([waiting(0, [9], remaining=0, started=20), none], 5)) == []


def test_a_whole_run_promotes_the_best_ninth_and_nobody_waits() -> None:
    """81 candidates with known scores, one worker at a time: 81, 27 and 9 are run, and the best is among the 9."""
    score = {i: ((i * 37) % 81 + 1) / 82 for i in range(81)}
    at: dict[int, list[int]] = {0: list(score), 1: [], 2: []}
    started = {0: 0, 1: 0, 2: 0}
    for _ in range(10_000):
        ladder = [
            waiting(j, sorted(at[j]), [score[i] for i in sorted(at[j])] if j else None, started=started[j])
            for j in range(3)
        ]
        chosen = Halving(3).next(ladder, 1)
        if not chosen:
            break
        one = chosen[0]
        at[one.rung].remove(one.row)
        started[one.rung] += 1
        if one.rung < 2:
            at[one.rung + 1].append(one.row)
        last = one
    assert started == {0: 81, 1: 27, 2: 9}
    assert max(score, key=score.__getitem__) not in at[1] + at[2]
    assert last.rung == 2


def test_it_keeps_one_in_three_by_default() -> None:
    assert HalvingSpec(kind="halving").eta == 3.0
