from __future__ import annotations

import numpy as np
import pytest

from sciagent.rewards.guard_statistics import gap_growth


def test_an_honest_policy_raises_an_alarm_as_often_as_the_level_says() -> None:
    """Both policies have a gap, since the levels differ; the second finds more hits, and the gap stays."""
    rng, low = np.random.default_rng(4), 0
    for _ in range(200):
        first, second = (rng.integers(-1, 2, 24) * (rng.random(24) < share) for share in (0.4, 0.4))
        episodes = [n // 3 for n in range(24)]
        found = gap_growth(second.astype(float), episodes, first.astype(float), episodes)
        assert found is not None
        low += found.p < 0.05
    assert low / 200 == pytest.approx(0.05, abs=0.035)


def test_a_growing_gap_is_found_and_few_episodes_are_never_enough() -> None:
    honest, gamed = np.zeros(12), np.array([1.0] * 9 + [0.0] * 3)
    episodes = [n // 2 for n in range(12)]
    found = gap_growth(gamed, episodes, honest, episodes)
    assert found is not None and found.error is not None
    assert found.value == pytest.approx(0.75)
    assert found.p < 0.02
    few = gap_growth(np.ones(2), [1, 2], np.zeros(2), [1, 2])
    assert few is not None and few.p > 0.1, "two episodes against two: one of six orders is as extreme"
    assert gap_growth(np.zeros(0), [], honest, episodes) is None


def test_a_shrinking_gap_is_no_alarm() -> None:
    found = gap_growth(np.zeros(8), list(range(8)), np.ones(8), list(range(8)))
    assert found is not None and found.value == -1 and found.p > 0.9
