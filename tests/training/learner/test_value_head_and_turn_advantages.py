"""The value head in the training step."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from sciagent.agent.policies.schema_tokens import packed
from sciagent.training.learner.learner_rows_and_rendered_conversations import (
    AnswerSpan,
    EpisodeTurns,
    RowTurn,
    TrainingRow,
)
from sciagent.training.learner.training_step import Learner
from sciagent.training.learner.value_head_and_turn_advantages import ValueBatch, value_loss
from sciagent.training.settings import CriticSettings, LearnerSettings
from tests.training.learner.made_rows import CONTEXT, sampled_rows

SETTINGS = LearnerSettings(learning_rate=0.001, critic=CriticSettings(learning_rate=0.01, passes=1))


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
    assert told[-1].explained_variance > 0.9  # type: ignore[operator]
    assert told[-1].value_loss < 0.1 * told[0].value_loss  # type: ignore[operator]


def advantages_of(learner: Learner, rows: Sequence[TrainingRow]) -> list[tuple[float, float]]:
    """Takes a step; returns for each turn of the rows its reward and the advantage that it was trained with."""
    trained: list[Sequence[TrainingRow]] = []
    gradient = learner.gradient

    def kept(rows: Sequence[TrainingRow], batches: Any = None) -> Any:
        trained.append(rows)
        return gradient(rows, batches)

    learner.gradient = kept  # type: ignore[method-assign]
    learner.step(rows)
    return [
        (row.episode.rewards[turn.number], row.advantages[turn.begin])  # type: ignore[misc]
        for row in trained[0]
        if row.episode is not None
        for turn in row.episode.turns
    ]


BOARDS, SIBLINGS = 32, 8
HIT, MISS, BOARD, ARM = 5, 6, 10, 60  # token ids; boards and arms from here on


def rare_hits(rates: Sequence[float], turns_of_episode: int, seed: int) -> list[TrainingRow]:
    """Rows of a bandit of several turns. rates: chance of a hit in each turn, by board, whatever arm is drawn.

    Each turn shows the board, draws one of 20 arms evenly, and shows whether it was a hit, which earns 1."""
    rng = random.Random(seed)
    rows = []
    for board, rate in enumerate(rates):
        for sibling in range(SIBLINGS):
            ids, turns = [1], list[RowTurn]()
            rewards = [float(rng.random() < rate) for _ in range(turns_of_episode)]
            for number, reward in enumerate(rewards):
                turns.append(RowTurn(number, len(ids) + 1, len(ids) + 2))
                ids += [BOARD + board, ARM + rng.randrange(20), HIT if reward else MISS]
            mask = tuple(any(place == turn.begin for turn in turns) for place in range(len(ids)))
            behaviour = tuple(-math.log(20) if used else 0.0 for used in mask)
            episode = EpisodeTurns(f"{board} {sibling}", tuple(rewards), tuple(turns))
            if "group" in EpisodeTurns._fields:
                episode = episode._replace(group=str(board))
            schemas = tuple(AnswerSpan(turn.begin, turn.end, 1.0, "arms") for turn in turns)
            zeros = (0.0,) * len(ids)
            rows.append(TrainingRow(tuple(ids), mask, zeros, behaviour, spans=schemas, episode=episode))
    return rows


def bandit_learner(model: Any, learning_rate: float, critic: CriticSettings) -> Learner:
    """Returns a learner to which all arms are equally likely at first."""

    def allowed(span: AnswerSpan, ids: Sequence[int]) -> Any:
        arms = torch.zeros(1, model.config.vocab_size, dtype=torch.bool)
        arms[0, ARM : ARM + 20] = True
        return packed(arms.numpy())

    torch.nn.init.zeros_(model.lm_head.weight)
    return Learner(model, LearnerSettings(learning_rate=learning_rate, critic=critic), allowed=allowed)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_first_step_has_a_baseline(model: Any, seed: int) -> None:
    """Hits come at a rate of 0.03 a turn. Without a baseline, a turn that missed would be praised for later hits."""
    learner = bandit_learner(model, 1e-3, CriticSettings())
    found = advantages_of(learner, rare_hits([0.03] * BOARDS, 4, seed))
    advantages = [advantage for _, advantage in found]
    missed = [advantage for reward, advantage in found if not reward]
    assert abs(sum(advantages) / len(advantages)) < 0.02
    assert -0.06 < sum(missed) / len(missed) < 0.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_value_head_is_fitted_before_the_first_update_of_the_policy(model: Any, seed: int) -> None:
    """Hits come at a rate of 0.03 a turn, all of them on one board."""
    rates = [0.96 if board == 5 else 0.0 for board in range(BOARDS)]
    learner = bandit_learner(model, 0.0, CriticSettings(learning_rate=1e-2, passes=1))
    first = learner.step(rare_hits(rates, 1, seed))
    assert first.explained_variance is not None and first.explained_variance > 0.3
    unseen = learner.step(rare_hits(rates, 1, 100 + seed))
    assert unseen.explained_variance is not None and unseen.explained_variance > 0.3


def test_the_fit_of_the_value_head_leaves_the_policy_as_it_is(model: Any) -> None:
    learner, rows = Learner(model, SETTINGS), episodes(model)
    before = [weights.detach().clone() for weights in model.parameters()]
    gradient, seen = learner.gradient, list[bool]()

    def checked(rows: Sequence[TrainingRow], batches: Any = None) -> Any:
        seen.append(all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)))
        assert learner.model.head.weight.abs().max() > 0
        return gradient(rows, batches)

    learner.gradient = checked  # type: ignore[method-assign]
    learner.step(rows)
    assert seen == [True]
    assert not all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_rows_that_all_earned_the_same_leave_the_value_head_to_later_ones(model: Any) -> None:
    learner, rows = Learner(model, SETTINGS), episodes(model)
    same = [replace(row, episode=row.episode._replace(rewards=(0.0, 0.0))) for row in rows if row.episode is not None]
    assert learner.step(same).explained_variance is None and learner.model.unit == 0
    assert learner.step(rows).explained_variance != 0 and learner.model.unit > 0


@pytest.mark.parametrize("clip", [None, 0.2])
def test_rewards_of_any_size_need_the_same_number_of_updates(model: Any, clip: float | None) -> None:
    """The clip, too, is in standard deviations of the targets."""
    settings = LearnerSettings(
        learning_rate=0.0, critic=CriticSettings(learning_rate=0.001, passes=1, clip=clip), most_gradient=1e9
    )
    updates = []
    for factor in (1.0, 100.0):
        learner = Learner(copy.deepcopy(model), settings)
        rows = []
        for row in episodes(model):
            assert row.episode is not None
            rewards = tuple(factor * reward for reward in row.episode.rewards)  # type: ignore[operator]
            rows.append(replace(row, episode=row.episode._replace(rewards=rewards)))
        number = 1
        while (learner.step(rows).explained_variance or 0.0) < 0.7:
            number += 1
            assert number < 200
        updates.append(number)
    assert updates[0] == updates[1] > 1


def test_a_learner_goes_on_with_the_scale_of_its_checkpoint(model: Any) -> None:
    learner, rows = Learner(model, SETTINGS), episodes(model)
    learner.step(rows)
    state = copy.deepcopy(learner.state())
    wanted = learner.step(rows)
    other = Learner(copy.deepcopy(model), SETTINGS)
    other.restore(state)
    assert other.model.unit == state["values"]["scale"] > 0
    again = other.step(rows)
    assert again._replace(seconds=0.0) == wanted._replace(seconds=0.0)
    for one, two in zip(learner.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(one, two)


def test_cutting_a_step_into_micro_batches_changes_nothing(model: Any) -> None:
    rows = episodes(model)
    whole, parts = (Learner(model, SETTINGS.model_copy(update={"most_tokens": most})) for most in (10_000, 1))
    seen = []
    for learner in (whole, parts):
        before = [weights.detach().clone() for weights in learner.model.parameters()]
        told = learner.step(rows)
        seen.append((told.loss, told.value_loss, told.explained_variance, told.grad_norm))
        with torch.no_grad():
            for weights, old in zip(learner.model.parameters(), before, strict=True):
                weights.copy_(old)
    assert seen[0] == pytest.approx(seen[1], rel=1e-3)  # AdamW of the fit divides small gradients by their own size


def test_the_value_loss_is_clipped_as_in_ppo() -> None:
    batch = ValueBatch(None, None, before=torch.tensor([0.0, 0.0]), target=torch.tensor([1.0, 1.0]))
    values = torch.tensor([0.1, 0.5], requires_grad=True)
    loss = value_loss(values, batch, 0.2)
    loss.sum().backward()
    assert loss.tolist() == pytest.approx([0.5 * 0.9**2, 0.5 * 0.8**2])
    assert values.grad is not None and values.grad.tolist() == pytest.approx([-0.9, 0.0])
    assert value_loss(values, batch, None).tolist() == pytest.approx([0.5 * 0.9**2, 0.5 * 0.5**2]), "off by default"
    assert CriticSettings().clip is None


def test_the_policy_and_its_state_go_on_with_the_value_head(model: Any) -> None:
    learner, rows = Learner(model, SETTINGS), episodes(model)
    learner.step(rows)
    assert learner.policy is model and "head.weight" in learner.state()["weights"]
    with pytest.raises(ValueError, match="rewards of their episodes"):
        learner.step(sampled_rows(model, 1))
