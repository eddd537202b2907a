"""A policy with a value head, which is a linear layer on the last hidden states.

The layer predicts in units of its targets: a value is `centre + scale * layer(state)`, where centre and scale are the
running mean and standard deviation of the targets. Its learning rate then fits rewards of any size. When both change,
the layer is changed so that the values stay as they are.

Checkpoints hold the value head with its centre and scale, published policies do not.

Source: van Hasselt, Guez, Hessel, Mnih and Silver (2016), "Learning values across many orders of magnitude",
arXiv:1602.07714.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.distributed.tensor import DTensor, distribute_tensor

RATE = 0.1
"""Share of the targets of one step in the running mean and variance."""
SMALLEST = 1e-6
"""Targets with a smaller standard deviation are all equal."""


class ValuedOutput(NamedTuple):
    """The output of a policy with a value head."""

    logits: Any
    """Logits of the policy, unchanged."""
    values: Any
    """(m,) values of the wanted states, in single precision."""
    states: Any
    """(m, h) the wanted states, in single precision."""


class PolicyWithValues(torch.nn.Module):  # type: ignore[misc]
    """A model and its value head in one module, so that `accelerate` shares the gradients of both among processes."""

    def __init__(self, policy: Any) -> None:
        """policy: of transformers or peft. All values are 0 until the value head is fitted."""
        super().__init__()
        self.policy = policy
        self.head = torch.nn.Linear(policy.config.get_text_config().hidden_size, 1)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self.centre = 0.0
        self.scale = 0.0

    def forward(self, input_ids: Any, value_row: Any, value_place: Any, **more: Any) -> ValuedOutput:
        """input_ids: (b, t). value_row, value_place: (m,) sequences and places of the last token of the wanted states.
        more: goes to the policy."""
        found = self.policy(input_ids=input_ids, output_hidden_states=True, **more)
        states = found.hidden_states[-1][value_row, value_place]
        with torch.autocast(states.device.type, enabled=False):
            states = states.float()
            return ValuedOutput(found.logits, self.centre + self.scale * self.head(states)[:, 0], states)

    @property
    def unit(self) -> float:
        """The running standard deviation of the targets; 0 until the value head is fitted."""
        return self.scale

    def fit(self, states: Any, targets: Sequence[float], updates: int, learning_rate: float) -> None:
        """Fits the value head alone to targets, from the beginning; the policy stays as it is.

        states: (m, h). targets: (m,). Targets that are all equal leave it as it is, since they have no scale. Without
        updates, all values are the mean of the targets. Every process has to call it with the same numbers.
        """
        centre, variance = _moments(targets)
        if math.sqrt(variance) <= SMALLEST:
            return
        self.centre = centre
        self.scale = math.sqrt(variance)
        wanted = (torch.tensor(targets, device=states.device) - self.centre) / self.scale
        # states have much in common, and what they have in common explains nothing
        common = states.mean(dim=0)
        differing = states - common
        weight = torch.zeros(states.shape[1], device=states.device, requires_grad=True)
        bias = torch.zeros((), device=states.device, requires_grad=True)
        optimiser = torch.optim.AdamW([weight, bias], lr=learning_rate, weight_decay=0.0)
        for _ in range(updates):
            optimiser.zero_grad()
            (0.5 * (differing @ weight + bias - wanted) ** 2).mean().backward()
            optimiser.step()
        with torch.no_grad():
            _assign(self.head.weight, weight[None])
            _assign(self.head.bias, (bias - weight @ common)[None])

    def follow(self, targets: Sequence[float]) -> None:
        """Lets centre and scale follow the targets of a step; the values stay as they are."""
        centre, variance = _moments(targets)
        old_centre, old_scale = self.centre, self.scale
        moved = centre - old_centre
        new_centre = old_centre + RATE * moved
        new_variance = (1 - RATE) * (old_scale**2 + RATE * moved**2) + RATE * variance
        new_scale = max(math.sqrt(new_variance), SMALLEST)
        with torch.no_grad():
            self.head.weight.mul_(old_scale / new_scale)
            self.head.bias.mul_(old_scale / new_scale).add_((old_centre - new_centre) / new_scale)
        self.centre = new_centre
        self.scale = new_scale


def _moments(numbers: Sequence[float]) -> tuple[float, float]:
    """Returns mean and variance; (0, 0) of no numbers."""
    if not numbers:
        return 0.0, 0.0
    mean = sum(numbers) / len(numbers)
    return mean, sum((number - mean) ** 2 for number in numbers) / len(numbers)


def _assign(parameter: Any, value: Any) -> None:
    """Gives a parameter, which may be sharded among processes (FSDP), a whole value."""
    if isinstance(parameter, DTensor):
        value = distribute_tensor(value, parameter.device_mesh, parameter.placements)
    parameter.copy_(value)
