"""The loss of single tokens, against the formulas."""

from __future__ import annotations

import math

import pytest
import torch

from sciagent.training.learner import micro_batches_and_loss
from sciagent.training.settings import LearnerConstants

SETTINGS = LearnerConstants()


def one(ratio: float, advantage: float) -> tuple[float, float, bool]:
    """Loss, its derivative by the log-probability, and whether the token was dropped."""
    logprob = torch.tensor([math.log(ratio) - 1.0], requires_grad=True)
    terms = micro_batches_and_loss.policy_gradient(logprob, torch.tensor([-1.0]), torch.tensor([advantage]), SETTINGS)
    terms.loss.sum().backward()
    assert logprob.grad is not None
    return terms.loss.item(), logprob.grad.item(), bool(terms.dropped.item())


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected", "slope"),
    [
        (1.0, 2.0, -2.0, -2.0),
        (1.2, 2.0, -2.4, -2.4),
        (1.5, 2.0, -2.56, 0.0),  # better than expected, and already more likely by more than the limit
        (1.5, -2.0, 3.0, 3.0),  # worse than expected: it is still made less likely
        (0.7, -2.0, 1.6, 0.0),
        (0.7, 2.0, -1.4, -1.4),
    ],
)
def test_the_ratio_is_clipped_on_the_side_of_the_advantage(
    ratio: float, advantage: float, expected: float, slope: float
) -> None:
    assert one(ratio, advantage) == (pytest.approx(expected, rel=1e-5), pytest.approx(slope, rel=1e-5), False)


@pytest.mark.parametrize("ratio", [0.49, 5.01, 1e-30, 1e60])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_a_token_on_which_sampler_and_trainer_disagree_is_dropped(ratio: float, advantage: float) -> None:
    assert one(ratio, advantage) == (0.0, 0.0, True)


def test_kl_to_the_reference_has_the_mean_of_the_exact_divergence() -> None:
    policy, reference = (
        torch.log_softmax(torch.randn(1, 7, generator=torch.Generator().manual_seed(n)), -1) for n in (0, 1)
    )
    exact = (policy.exp() * (policy - reference)).sum().item()
    each = micro_batches_and_loss.kl_to_reference(policy[0], reference[0])
    assert (policy[0].exp() * each).sum().item() == pytest.approx(exact, rel=1e-5) and each.min() >= 0


def test_a_grammar_and_a_temperature_change_the_distribution() -> None:
    logits, allowed = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[True, False, True]])
    table = micro_batches_and_loss.distribution(logits, torch.tensor([0.5]), allowed)
    assert table[0].exp().tolist() == pytest.approx([1 / (1 + math.exp(4)), 0.0, 1 / (1 + math.exp(-4))])
    assert micro_batches_and_loss.entropy_of(table).item() == pytest.approx(
        -sum(p * math.log(p) for p in table[0].exp().tolist() if p)
    )


def test_reverse_kl_to_weighted_teachers_is_that_of_the_definition() -> None:
    rng = torch.Generator().manual_seed(3)
    logits, *given = (torch.randn(4, 9, generator=rng, dtype=torch.float64) for _ in range(3))
    logits.requires_grad_(True)
    teachers, weights = [torch.log_softmax(each, -1) for each in given], (0.3, 1.7)
    micro_batches_and_loss.reverse_kl(torch.log_softmax(logits, -1), teachers, weights).sum().backward()
    found, logits.grad = logits.grad, None
    p = torch.softmax(logits, -1)
    sum(
        (w * (p * (p.log() - teacher)).sum() for w, teacher in zip(weights, teachers, strict=True)), torch.tensor(0.0)
    ).backward()
    assert torch.allclose(found, logits.grad, atol=1e-12) and found.abs().max() > 0.01


def test_tokens_that_a_grammar_excludes_add_nothing_to_the_reverse_kl() -> None:
    logits = torch.randn(2, 5, generator=torch.Generator().manual_seed(4), requires_grad=True)
    allowed = torch.tensor([[True, True, False, False, True]]).expand(2, 5)
    table = micro_batches_and_loss.distribution(logits, torch.ones(2), allowed)
    teacher = micro_batches_and_loss.distribution(torch.zeros(2, 5), torch.ones(2), allowed)
    found = micro_batches_and_loss.reverse_kl(table, [teacher], [1.0])
    found.sum().backward()
    assert found.tolist() == pytest.approx((math.log(3) - micro_batches_and_loss.entropy_of(table)).tolist(), rel=1e-5)
    assert torch.isfinite(logits.grad).all() and (logits.grad[:, 2:4] == 0).all()  # type: ignore[index]


def test_the_entropy_has_a_gradient_where_a_grammar_excludes_tokens() -> None:
    """It is that of the allowed tokens alone."""
    logits = torch.tensor([[1.0, 2.0, 5.0]], dtype=torch.float64, requires_grad=True)
    few = logits.detach()[:, :2].clone().requires_grad_(True)
    micro_batches_and_loss.entropy_of(
        micro_batches_and_loss.distribution(logits, torch.ones(1), torch.tensor([[True, True, False]]))
    ).sum().backward()
    micro_batches_and_loss.entropy_of(micro_batches_and_loss.distribution(few, torch.ones(1), None)).sum().backward()
    assert logits.grad is not None and few.grad is not None
    assert logits.grad[0].tolist() == pytest.approx([*few.grad[0].tolist(), 0.0])
