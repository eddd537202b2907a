"""The value head in the training step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from sciagent.training.learner.rows import EpisodeTurns, RowTurn, TrainingRow
from sciagent.training.learner.settings import CriticSettings, StepSettings
from sciagent.training.learner.step import Learner
from sciagent.training.learner.values.critic import ValueBatch, value_loss
from tests.training.learner.made_rows import CONTEXT, sampled_rows

SETTINGS = StepSettings(1e-3, critic=CriticSettings(learning_rate=1e-2, passes=1))


def episodes(model: Any, n: int = 4) -> list[TrainingRow]:
    """Rows of two turns each; an episode earns its number in its last turn."""
    rows = []
    for number, row in enumerate(sampled_rows(model, n)):
        first = row.mask.index(False, CONTEXT)
        turns = RowTurn(0, CONTEXT, first), RowTurn(1, first + 5, len(row.ids))
        rows.append(replace(row, episode=EpisodeTurns(str(number), (0.0, float(number)), turns)))
    return rows


def test_a_value_head_learns_what_episodes_earn(model: Any) -> None:
    learner, rows = Learner(model, SETTINGS), episodes(model)
    told = [learner.step(rows) for _ in range(40)]
    assert told[0].explained_variance == 0 and told[-1].explained_variance > 0.9  # type: ignore[operator]
    assert told[-1].value_loss < 0.1 * told[0].value_loss  # type: ignore[operator]


def test_the_first_advantages_are_the_discounted_rewards(model: Any) -> None:
    rows = episodes(model)
    told = Learner(model, SETTINGS).step(rows)
    lengths = [
        (turn.end - turn.begin, number, turn.number) for number, row in enumerate(rows) for turn in row.episode.turns
    ]  # type: ignore[union-attr]
    expected = -sum(n * reward * (1 if turn else 0.95) for n, reward, turn in lengths) / sum(n for n, *_ in lengths)
    assert told.loss == pytest.approx(expected, rel=1e-5) and told.masked == 0


def test_cutting_a_step_into_micro_batches_changes_nothing(model: Any) -> None:
    rows = episodes(model)
    whole, parts = (Learner(model, replace(SETTINGS, most_tokens=most)) for most in (10_000, 1))
    seen = []
    for learner in (whole, parts):
        head = learner.model.head
        torch.nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(1))
        before = [weights.detach().clone() for weights in learner.model.parameters()]
        told = learner.step(rows)
        seen.append((told.loss, told.value_loss, told.explained_variance, told.grad_norm))
        with torch.no_grad():
            for weights, old in zip(learner.model.parameters(), before, strict=True):
                weights.copy_(old)
    assert seen[0] == pytest.approx(seen[1], rel=1e-4)


def test_the_value_loss_is_clipped_as_in_ppo() -> None:
    batch = ValueBatch(None, None, before=torch.tensor([0.0, 0.0]), target=torch.tensor([1.0, 1.0]))
    values = torch.tensor([0.1, 0.5], requires_grad=True)
    loss = value_loss(values, batch, 0.2)
    loss.sum().backward()
    assert loss.tolist() == pytest.approx([0.5 * 0.9**2, 0.5 * 0.8**2])
    assert values.grad is not None and values.grad.tolist() == pytest.approx([-0.9, 0.0])


def test_the_policy_and_its_state_go_on_with_the_value_head(model: Any) -> None:
    learner, rows = Learner(model, SETTINGS), episodes(model)
    learner.step(rows)
    assert learner.policy is model and "head.weight" in learner.state()["weights"]
    with pytest.raises(ValueError, match="rewards of their episodes"):
        learner.step(sampled_rows(model, 1))
