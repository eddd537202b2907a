from __future__ import annotations

import numpy as np
import pytest

from sciagent.rewards.guard_statistics import KeptPromise, kept_promise

N = 400


def drawn(truth: np.ndarray, chances: np.ndarray, rng: np.random.Generator, promised: np.ndarray) -> KeptPromise:
    """Draws a lot for each candidate, four of them an episode, and compares the promises with the draws."""
    episodes = np.arange(len(truth)) // 4
    hit, lot = (rng.random(len(truth)) < truth).astype(float), rng.random(len(truth)) < chances
    found = kept_promise(hit[lot], chances[lot], episodes[lot].tolist(), promised[~lot], episodes[~lot].tolist())
    assert found is not None
    return found


def test_a_right_law_has_an_index_of_zero_however_unequal_the_chances_are() -> None:
    """The chances follow the truth, as those of an audit do, so that the draws are better than the rest."""
    rng = np.random.default_rng(2)
    truth = rng.beta(1, 3, N)
    chances = np.clip(0.1 + 0.6 * truth, 0, 1)
    found = [drawn(truth, chances, rng, truth) for _ in range(300)]
    indices = np.array([each.index for each in found])
    assert abs(indices.mean()) < 3 * indices.std() / np.sqrt(len(indices))
    naive = np.mean([(truth * (1 - chances)).sum() / (1 - chances).sum() - (truth * chances).sum() / chances.sum()])
    assert naive < -0.05, "draws that are not weighted would hide an exploit of this size"
    false_alarms = np.mean([each.p is not None and each.p < 0.05 for each in found])
    assert false_alarms < 0.09


def test_a_law_that_promises_too_much_is_found() -> None:
    rng = np.random.default_rng(3)
    truth, chances = np.full(N, 0.1), np.full(N, 0.2)
    found = [drawn(truth, chances, rng, truth + 0.3) for _ in range(50)]
    assert np.mean([each.index for each in found]) == pytest.approx(0.3, abs=0.02)
    assert all(each.p is not None and each.p < 0.01 for each in found)


def test_a_few_misses_are_no_alarm() -> None:
    """Five misses in five draws of a promised .2 happen once in three campaigns."""
    promised = np.tile([0.15, 0.25], 20)
    found = kept_promise(np.zeros(5), np.full(5, 0.2), list(range(5)), promised, [n // 2 for n in range(40)])
    assert found is not None and found.p is not None
    assert found.index == pytest.approx(0.2)
    assert found.p > 0.1


def test_nothing_is_compared_where_all_or_none_were_drawn() -> None:
    one, none = np.ones(1), np.zeros(0)
    assert kept_promise(none, none, [], one, [1]) is None
    assert kept_promise(one, 0.5 * one, [1], none, []) is None
    assert kept_promise(one, one, [1], one, [2]) is None, "a sure draw stands for no other candidate"
    alone = kept_promise(one, 0.5 * one, [1], one, [2])
    assert alone is not None and (alone.error, alone.p) == (None, None)
