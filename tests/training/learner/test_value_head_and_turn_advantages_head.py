"""The value head alone: how it is fitted, and how it follows the scale of its targets."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sciagent.training.learner.value_head_and_turn_advantages import PolicyWithValues

TARGETS = [float(number) for number in range(20)]


def states_of(valued: PolicyWithValues) -> Any:
    """States that have much in common, of which one number says what is earned."""
    states = torch.randn(len(TARGETS), valued.head.in_features, generator=torch.Generator().manual_seed(1)) + 5.0
    states[:, 0] = torch.tensor(TARGETS) / 5
    return states


def values_of(valued: PolicyWithValues, states: Any) -> Any:
    return valued.centre + valued.scale * valued.head(states)[:, 0]


def test_a_fit_without_updates_expects_the_mean(model: Any) -> None:
    valued = PolicyWithValues(model)
    assert valued.unit == 0 and not values_of(valued, states_of(valued)).any()
    valued.fit(states_of(valued), TARGETS, updates=0, learning_rate=1e-2)
    assert values_of(valued, states_of(valued)).tolist() == pytest.approx([9.5] * len(TARGETS))
    assert valued.unit == pytest.approx(33.25**0.5), "the standard deviation of 0 to 19"


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_a_fit_explains_targets_of_any_size(model: Any, factor: float) -> None:
    valued = PolicyWithValues(model)
    targets = [factor * target for target in TARGETS]
    valued.fit(states_of(valued), targets, updates=50, learning_rate=1e-2)
    errors = values_of(valued, states_of(valued)) - torch.tensor(targets)
    assert float(errors.var() / torch.tensor(targets).var()) < 0.1


def test_targets_that_are_all_equal_fit_nothing(model: Any) -> None:
    valued = PolicyWithValues(model)
    valued.fit(states_of(valued), [2.0] * len(TARGETS), updates=20, learning_rate=1e-2)
    assert valued.unit == 0 and not values_of(valued, states_of(valued)).any()


def test_a_moved_scale_leaves_the_values_as_they_are(model: Any) -> None:
    valued = PolicyWithValues(model)
    states = states_of(valued)
    valued.fit(states, TARGETS, updates=20, learning_rate=1e-2)
    before = values_of(valued, states)
    valued.update_scale([1000.0, 2000.0])
    assert valued.unit > 100
    assert torch.allclose(before, values_of(valued, states), rtol=1e-4, atol=1e-3)
