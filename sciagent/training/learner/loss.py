"""The loss of trained tokens. Every function takes n tokens and returns one number per token; the step adds them up.

The policy gradient is that of PPO and GRPO with the clipping of DAPO (Yu et al. 2025, arXiv:2503.14476). Tokens whose
ratio says that sampler and trainer disagree are dropped on both sides (IcePop; Ling team 2025, arXiv:2510.18855).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from sciagent.training.learner.settings import LossSettings


class PolicyTerms(NamedTuple):
    """The policy gradient of n tokens."""

    loss: Any
    """(n,)"""
    ratio: Any
    """(n,) ρ; 1 for dropped tokens."""
    dropped: Any
    """(n,) whether the ratio lies outside the mask; such tokens have loss and gradient 0."""


def distribution(logits: Any, temperature: Any, allowed: Any | None) -> Any:
    """Returns (n, v) log-probabilities of the distribution that tokens are drawn from.

    logits: (n, v). temperature: (n,). allowed: (n, v) booleans, the tokens that a grammar allows; None for all.
    """
    logits = logits.float() / temperature[:, None]
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    return torch.log_softmax(logits, dim=-1)


def policy_gradient(logprobs: Any, behaviour: Any, advantages: Any, settings: LossSettings) -> PolicyTerms:
    """Returns -min(ρA, clip(ρ)A) with ρ = exp(logprobs - behaviour), and 0 for tokens whose ρ lies outside the mask.

    logprobs: (n,) of the policy. behaviour: (n,) of what drew the tokens. advantages: (n,).
    """
    log_ratio = logprobs - behaviour
    ratio = log_ratio.detach().exp()
    dropped = (ratio < settings.mask_low) | (ratio > settings.mask_high)
    # an infinite ratio would make the gradient of a dropped token nan
    ratio = log_ratio.masked_fill(dropped, 0.0).exp()
    clipped = ratio.clamp(settings.clip_low, settings.clip_high)
    loss = -torch.minimum(ratio * advantages, clipped * advantages)
    return PolicyTerms(loss.masked_fill(dropped, 0.0), ratio, dropped)


def imitation(logprobs: Any, advantages: Any) -> Any:
    """Returns -A log p: (n,), the loss of supervised fine-tuning where A = 1."""
    return -advantages * logprobs


def kl_to_reference(logprobs: Any, reference: Any) -> Any:
    """Returns (n,) estimates of KL(policy ‖ reference) at sampled tokens, none of them negative.

    logprobs, reference: (n,) of the sampled tokens. Source: Schulman (2020), "Approximating KL divergence", k3.
    """
    difference = reference - logprobs
    return torch.expm1(difference) - difference


def entropy(table: Any) -> Any:
    """Returns (n,) entropies in nats. table: (n, v) log-probabilities; a token that a grammar excludes adds nothing."""
    p = table.exp()
    return -(p * table.masked_fill(p == 0, 0.0)).sum(dim=-1)


def reverse_kl(table: Any, teachers: Sequence[Any], weights: Sequence[float]) -> Any:
    """Returns Σ_k w_k KL(policy ‖ teacher k) over the whole vocabulary: (n,).

    table: (n, v) log-probabilities of the policy. teachers: (n, v) log-probabilities of each. A token that a grammar
    excludes has probability 0 and adds nothing.
    """
    p = table.exp()
    gaps = [weight * (table - teacher) for teacher, weight in zip(teachers, weights, strict=True)]
    gap = torch.stack(gaps).sum(dim=0)
    return (p * gap.masked_fill(p == 0, 0.0)).sum(dim=-1)
