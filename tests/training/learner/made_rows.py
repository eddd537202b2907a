"""Training rows whose behaviour is that of a model, and gradients of a learner."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch

from sciagent.training.learner.learner_rows_and_rendered_conversations import TrainingRow
from sciagent.training.learner.training_step import Learner

CONTEXT = 6


def logprobs(model: Any, ids: Sequence[int], temperature: float = 1.0) -> tuple[float, ...]:
    """(t,) log-probabilities of the ids, each after those before it; 0 for the first."""
    with torch.inference_mode():
        table = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0, :-1].float() / temperature, dim=-1)
    return (0.0, *table[torch.arange(len(ids) - 1), torch.tensor(ids[1:])].tolist())


def sampled_rows(model: Any, n: int = 6, drift: float = 0.0, seed: int = 1) -> list[TrainingRow]:
    """Rows of different lengths, with an observation in their middle. drift: standard deviation of the log-ratio."""
    rng = random.Random(seed)
    rows = []
    for number in range(n):
        answer = 4 + 3 * number
        ids = tuple(rng.randrange(3, 300) for _ in range(CONTEXT + 2 * answer + 5))
        mask = (*[False] * CONTEXT, *[True] * answer, *[False] * 5, *[True] * answer)
        advantages = tuple(rng.gauss(0, 1) if used else 0.0 for used in mask)
        known = logprobs(model, ids)
        behaviour = tuple(known[i] + rng.gauss(0, drift) if used else 0.0 for i, used in enumerate(mask))
        rows.append(TrainingRow(ids, mask, advantages, behaviour, reward=float(number)))
    return rows


def gradient(learner: Learner, rows: Sequence[TrainingRow]) -> tuple[float, torch.Tensor]:
    """The loss and the gradient of all weights, as one vector."""
    learner.optimiser.zero_grad()
    metrics = learner.gradient(rows)
    return metrics.loss, torch.cat([p.grad.flatten() for p in learner.model.parameters() if p.grad is not None])
