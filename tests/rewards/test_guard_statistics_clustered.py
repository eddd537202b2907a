from __future__ import annotations

import numpy as np
import pytest

from sciagent.rewards.guard_statistics import clustered_mean


def test_the_error_is_that_of_the_episodes_not_of_their_candidates() -> None:
    """Drawn many times: ten episodes of five candidates that share most of their value."""
    rng, means, errors = np.random.default_rng(1), [], []
    episodes = np.repeat(np.arange(10), 5).tolist()
    for _ in range(2000):
        values = np.repeat(rng.normal(size=10), 5) + 0.3 * rng.normal(size=50)
        found = clustered_mean(values, episodes)
        assert found is not None and found.error is not None
        means.append(found.value)
        errors.append(found.error)
    spread = float(np.std(means))
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(spread, rel=0.05)
    assert spread > 2 * np.sqrt(1.09 / 50), "fifty independent candidates would seem twice as sure"


def test_weights_count_as_repeats_do() -> None:
    values, episodes = np.array([1.0, 0.0, 0.5]), [1, 2, 3]
    weighted = clustered_mean(values, episodes, np.array([2.0, 1.0, 1.0]))
    repeated = clustered_mean(np.array([1.0, 1.0, 0.0, 0.5]), [1, 1, 2, 3])
    assert weighted is not None and repeated is not None
    assert weighted[:2] == pytest.approx(repeated[:2])


def test_one_episode_has_no_error_and_no_weight_has_no_mean() -> None:
    alone = clustered_mean(np.array([1.0, 0.0]), [7, 7])
    assert alone is not None and (alone.value, alone.error, alone.n) == (0.5, None, 2)
    assert clustered_mean(np.zeros(0), []) is None
    assert clustered_mean(np.ones(2), [1, 2], np.zeros(2)) is None
