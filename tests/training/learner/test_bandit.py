"""A bandit whose best arms are known: GRPO and PPO find them from rewards, and find nothing in those of others."""

from __future__ import annotations

import random
from collections.abc import Sequence
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
from sciagent.training.settings import CriticSettings, LearnerSettings

pytestmark = pytest.mark.long
ARMS = 20
FIRST = 40  # token id of the first arm
PROMPTS = tuple((5, 6, number) for number in range(10, 14))
SIBLINGS, STEPS = 16, 120
GRPO = LearnerSettings(learning_rate=0.003)
PPO = LearnerSettings(learning_rate=0.003, critic=CriticSettings(learning_rate=0.01, passes=2), value_loss=0.5)


def reward(prompt: int, arm: int) -> float:
    """1 for the best arm of the prompt, less the farther an arm is from it; 0.47 on average."""
    distance = abs(arm - (3 + 4 * prompt))
    return max(0.0, 1 - distance / 10)


def played(model: Any, settings: LearnerSettings, seed: int, shuffled: bool) -> float:
    """The mean reward of the policy after training, over all prompts and arms."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    places = torch.arange(FIRST, FIRST + ARMS)

    def allowed(span: AnswerSpan, ids: Sequence[int]) -> Any:
        arms = torch.zeros(1, model.config.vocab_size, dtype=torch.bool)
        arms[0, places] = True
        return packed(arms.numpy())

    def chances() -> torch.Tensor:
        with torch.no_grad():
            return torch.log_softmax(learner.policy(input_ids=torch.tensor(PROMPTS)).logits[:, -1, places], -1)

    torch.nn.init.zeros_(model.lm_head.weight)  # all arms are equally likely at first
    learner = Learner(model, settings, allowed=allowed)
    for _ in range(STEPS):
        table, rows = chances(), []
        drawn = torch.multinomial(table.exp(), SIBLINGS, replacement=True, generator=generator).tolist()
        for prompt, arms in enumerate(drawn):
            # a shuffle of the siblings' rewards would leave their mean, from which a value head still learns
            earned = [reward(prompt, rng.randrange(ARMS) if shuffled else arm) for arm in arms]
            for sibling, (arm, own) in enumerate(zip(arms, earned, strict=True)):
                advantage = own - (sum(earned) - own) / (SIBLINGS - 1)
                at = len(PROMPTS[prompt])
                rows.append(
                    TrainingRow(
                        (*PROMPTS[prompt], FIRST + arm),
                        (*[False] * at, True),
                        (*[0.0] * at, advantage),
                        (*[0.0] * at, float(table[prompt, arm])),
                        spans=(AnswerSpan(at, at + 1, 1.0, "arms"),),
                        reward=own,
                        episode=EpisodeTurns(f"{prompt} {sibling}", (own,), (RowTurn(0, at, at + 1),), str(prompt)),
                    )
                )
        told = learner.step(rows)
        assert settings.critic or told.masked == 0
    if settings.critic and not shuffled:
        assert told.value_loss is not None and told.value_loss < 0.01
    p = chances().exp()
    return sum(float(p[i, arm]) * reward(i, arm) for i in range(len(PROMPTS)) for arm in range(ARMS)) / len(PROMPTS)


@pytest.mark.parametrize("settings", [GRPO, PPO], ids=["grpo", "ppo"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_best_arms_are_found(model: Any, settings: LearnerSettings, seed: int) -> None:
    assert played(model, settings, seed, shuffled=False) >= 0.9


@pytest.mark.parametrize("settings", [GRPO, PPO], ids=["grpo", "ppo"])
def test_rewards_of_arms_drawn_by_chance_teach_nothing(model: Any, settings: LearnerSettings) -> None:
    assert played(model, settings, 1, shuffled=True) < 0.7
