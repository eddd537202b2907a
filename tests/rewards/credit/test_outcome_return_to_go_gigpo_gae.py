from __future__ import annotations

import pytest

from sciagent.rewards.credit.outcome_return_to_go_gigpo_gae import (
    gae_advantages,
    gigpo_advantages,
    outcome_advantages,
    return_to_go_advantages,
)
from sciagent.rewards.credit.returns_and_baselines import outcome_of, returns


def test_an_undecided_reward_leaves_later_returns_decided() -> None:
    assert returns([1.0, 2.0, None, 3.0, 4.0]) == [None, None, None, 7.0, 4.0]
    assert outcome_of([1.0, None]) is None
    assert outcome_of([]) == 0.0


def test_an_undecided_sibling_is_left_out_of_the_mean_of_the_others() -> None:
    assert outcome_advantages([[1.0, 1.0], [None], [4.0]]) == [[-2.0, -2.0], [None], [2.0]]
    assert outcome_advantages([[1.0], [None]]) == [[None], [None]], "nothing to compare with"


def test_a_crash_at_the_third_of_six_turns_leaves_the_last_three_trainable() -> None:
    crashed = [0.0, 0.0, None, 1.0, 0.0, 2.0]
    whole = [1.0] * 6
    assert return_to_go_advantages([crashed, whole])[0] == [None, None, None, 0.0, 0.0, 1.0]


def test_a_turn_is_compared_with_the_siblings_that_reached_it() -> None:
    assert return_to_go_advantages([[1.0, 5.0], [2.0], [0.0, 1.0]]) == [[4.5, 4.0], [-1.5], [-3.0, -4.0]]


def test_generalised_advantages_equal_those_worked_out_by_hand() -> None:
    # surprises: 0 + 2/2 - 1 = 0; 1 + 1/2 - 2 = -1/2; 2 - 1 = 1. carried back with 1/2 * 1/2
    assert gae_advantages([0.0, 1.0, 2.0], [1.0, 2.0, 1.0], discount=0.5, decay=0.5) == [-0.0625, -0.25, 1.0]
    assert gae_advantages([None, 1.0], [0.0, 0.0], decay=1.0) == [None, 1.0]
    with pytest.raises(ValueError, match="zip"):
        gae_advantages([0.0], [1.0, 2.0])


def test_turns_in_the_same_state_are_compared_with_those_of_other_siblings() -> None:
    found = gigpo_advantages([[1.0, 3.0], [0.0, 1.0]], [["start", "a"], ["start", "b"]], weight=0.5)
    assert found == [[3.0 + 0.5 * 3.0, 3.0], [-3.0 - 0.5 * 3.0, -3.0]]
