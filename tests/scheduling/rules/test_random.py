"""Every open candidate is as likely as any other, the propensity says how likely, and a seed repeats itself."""

from __future__ import annotations

from collections import Counter

import pytest

from sciagent.scheduling.rules.random import Random
from tests.scheduling.rules.arrays import waiting

TWO = [waiting(0, [1, 2, 3, 4]), waiting(1, [7, 8])]


def test_the_first_draw_is_uniform_over_all_rungs() -> None:
    drawn = Counter(Random(seed).next(TWO, 1)[0].row for seed in range(3000))
    assert set(drawn) == {1, 2, 3, 4, 7, 8}
    chi2 = sum((n - 500) ** 2 / 500 for n in drawn.values())
    assert chi2 < 20.5, "5 degrees of freedom, p = 0.001"


def test_propensities_are_those_of_drawing_without_replacement() -> None:
    choices = Random(0).next(TWO, 6)
    assert sorted(c.row for c in choices) == [1, 2, 3, 4, 7, 8]
    assert [c.propensity for c in choices] == pytest.approx([1 / 6, 1 / 5, 1 / 4, 1 / 3, 1 / 2, 1])
    assert {c.row: c.rung for c in choices} == {1: 0, 2: 0, 3: 0, 4: 0, 7: 1, 8: 1}
    assert choices[0].why == "random: drawn from 6 that could run"


def test_a_full_rung_takes_no_part_and_does_not_count() -> None:
    choices = Random(3).next([TWO[0], waiting(1, [7, 8], remaining=1)], 6)
    assert sum(c.rung == 1 for c in choices) == 1 and len(choices) == 5
    full = [TWO[0], waiting(1, [7, 8], remaining=0)]
    for seed in range(20):
        assert all(c.rung == 0 for c in Random(seed).next(full, 4))
    first = Random(0).next(full, 1)[0]
    assert first.propensity == pytest.approx(1 / 4)


def test_the_draw_depends_on_the_seed_and_on_what_waits_alone() -> None:
    assert Random(5).next(TWO, 3) == Random(5).next(TWO, 3)
    assert len({tuple(c.row for c in Random(seed).next(TWO, 3)) for seed in range(30)}) > 20
    others = [waiting(0, [1, 2, 3, 5]), waiting(1, [7, 8])]
    changed = [
        [c.row for c in Random(s).next(TWO, 6)][:3] != [c.row for c in Random(s).next(others, 6)][:3] for s in range(20)
    ]
    assert any(changed)


def test_nothing_waits_nothing_is_chosen() -> None:
    assert Random(0).next([waiting(0, [])], 4) == []
    assert Random(0).next(TWO, 0) == []
