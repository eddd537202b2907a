"""A policy with a value head, which is a linear layer on the last hidden states.

Checkpoints hold the value head, published policies do not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class ValuedOutput(NamedTuple):
    """The output of a policy with a value head."""

    logits: Any
    """Logits of the policy, unchanged."""
    values: Any
    """(m,) values of the wanted states, in single precision."""


class PolicyWithValues(torch.nn.Module):  # type: ignore[misc]
    """A model and its value head in one module, so that `accelerate` shares the gradients of both among processes."""

    def __init__(self, policy: Any) -> None:
        """policy: of transformers or peft. All values are 0 at first."""
        super().__init__()
        self.policy = policy
        self.head = torch.nn.Linear(policy.config.get_text_config().hidden_size, 1)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, input_ids: Any, value_row: Any, value_place: Any, **more: Any) -> ValuedOutput:
        """input_ids: (b, t). value_row, value_place: (m,) sequences and places of the last token of the wanted states.
        more: goes to the policy."""
        found = self.policy(input_ids=input_ids, output_hidden_states=True, **more)
        states = found.hidden_states[-1][value_row, value_place]
        with torch.autocast(states.device.type, enabled=False):
            return ValuedOutput(found.logits, self.head(states.float())[:, 0])
