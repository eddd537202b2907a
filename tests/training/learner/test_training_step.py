"""The training step on a tiny model: what gets a gradient, and what changes nothing."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sciagent.training.learner.learner_rows_and_rendered_conversations import AnswerSpan, TrainingRow
from sciagent.training.learner.micro_batches_and_loss import micro_batch
from sciagent.training.learner.training_step import DivergedError, Learner, Teacher
from sciagent.training.settings import LearnerSettings
from tests.training.learner.made_rows import CONTEXT, gradient, logprobs, sampled_rows


def test_context_gets_no_gradient(model: Any) -> None:
    rows, kept = sampled_rows(model, 3, drift=0.1), []

    def whole(input_ids: Any, **_: Any) -> Any:
        logits = model(input_ids=input_ids).logits
        logits.retain_grad()
        kept.append(logits)
        return SimpleNamespace(logits=logits)

    learner = Learner(model, LearnerSettings())
    learner.model = whole
    learner._loss(micro_batch(rows, None, "cpu"))[0].backward()
    [logits] = kept
    for row, given in zip(rows, logits.grad, strict=True):
        for place, slope in enumerate(given):
            trained = place + 1 < len(row.ids) and row.mask[place + 1]
            assert bool((slope != 0).any()) == trained, place


def test_a_policy_that_drew_its_tokens_itself_has_the_ratio_1(model: Any) -> None:
    rows = sampled_rows(model)
    metrics = Learner(model, LearnerSettings(), reference=copy.deepcopy(model)).step(rows)
    advantages = [a for row in rows for a, used in zip(row.advantages, row.mask, strict=True) if used]
    assert metrics.loss == pytest.approx(-sum(advantages) / len(advantages), abs=1e-5)
    assert metrics.masked == 0 and metrics.kl == pytest.approx(0, abs=1e-6) and metrics.tokens == len(advantages)
    assert metrics.reward == 2.5 and 0 < metrics.entropy < 6 and metrics.grad_norm > 0


def test_cutting_a_step_into_micro_batches_changes_nothing(model: Any) -> None:
    rows = sampled_rows(model, drift=0.2)
    rows[1] = replace(rows[1], behaviour=None, weight=0.5)
    loss, whole = gradient(Learner(model, LearnerSettings(most_tokens=10000)), rows)
    for most in (1, 90):
        again, parts = gradient(Learner(model, LearnerSettings(most_tokens=most)), rows[::-1])
        assert again == pytest.approx(loss, abs=1e-6)
        assert torch.allclose(parts, whole, atol=1e-6 * float(whole.abs().max()) + 1e-7)


def test_cutting_a_trajectory_into_a_row_for_each_turn_changes_nothing(model: Any) -> None:
    rows = sampled_rows(model, 3, drift=0.2)
    cut = []
    for row in rows:
        end = row.mask.index(False, CONTEXT)
        n = len(row.ids)
        first = [place < end for place in range(n)]
        cut.append(_masked(row, [a and b for a, b in zip(row.mask, first, strict=True)], end))
        cut.append(_masked(row, [a and not b for a, b in zip(row.mask, first, strict=True)], n))
    learner = Learner(model, LearnerSettings())
    (loss, whole), (again, parts) = gradient(learner, rows), gradient(learner, cut)
    assert again == pytest.approx(loss, abs=1e-6) and torch.allclose(parts, whole, atol=1e-5)


def _masked(row: TrainingRow, mask: list[bool], end: int) -> TrainingRow:
    assert row.behaviour is not None
    return TrainingRow(row.ids[:end], tuple(mask[:end]), row.advantages[:end], row.behaviour[:end])


def test_dropped_tokens_are_counted_and_teach_nothing(model: Any) -> None:
    [row] = sampled_rows(model, 1)
    assert row.behaviour is not None
    places = [place for place, used in enumerate(row.mask) if used]
    far = tuple(b - 3.0 if place in places[:2] else b for place, b in enumerate(row.behaviour))
    learner = Learner(model, LearnerSettings())
    rest = tuple(used and place not in places[:2] for place, used in enumerate(row.mask))
    (_, with_far), (_, without) = (
        gradient(learner, [each]) for each in (replace(row, behaviour=far), replace(row, mask=rest))
    )
    n = len(places)
    assert learner.gradient([replace(row, behaviour=far)]).masked == pytest.approx(2 / n)
    assert torch.allclose(with_far, without * (n - 2) / n, atol=1e-6)


def test_imitation_is_the_loss_of_transformers(model: Any) -> None:
    [row] = sampled_rows(model, 1)
    labels = torch.tensor([[token if used else -100 for token, used in zip(row.ids, row.mask, strict=True)]])
    expected = model(input_ids=torch.tensor([row.ids]), labels=labels).loss
    model.zero_grad()
    expected.backward()
    slopes = torch.cat([p.grad.flatten() for p in model.parameters()])
    ones = tuple(map(float, row.mask))
    loss, found = gradient(Learner(model, LearnerSettings()), [TrainingRow(row.ids, row.mask, ones)])
    assert loss == pytest.approx(expected.item(), rel=1e-5) and torch.allclose(found, slopes, atol=1e-4)


def test_a_teacher_sees_its_own_context_before_the_same_tokens(model: Any) -> None:
    [row] = sampled_rows(model, 1)
    hint = (7, 8, 9, 10)
    taught = TrainingRow(row.ids, row.mask, (0.0,) * len(row.ids), teacher_context=(*row.ids[:CONTEXT], *hint))
    teacher = copy.deepcopy(model).requires_grad_(False)
    settings = LearnerSettings(distillation=2.0)
    loss, found = gradient(Learner(model, settings, teachers=[Teacher(teacher, 0.5)]), [taught])
    student = torch.log_softmax(model(input_ids=torch.tensor([row.ids])).logits[0, :-1], -1)
    shown = (*row.ids[:CONTEXT], *hint, *row.ids[CONTEXT:])
    given = torch.log_softmax(teacher(input_ids=torch.tensor([shown])).logits[0, :-1], -1)[len(hint) :]
    used = [place - 1 for place, trained in enumerate(row.mask) if trained]
    explicit = (student.exp() * (student - given)).sum(-1)[used].mean()
    model.zero_grad()
    explicit.backward()
    slopes = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert loss == pytest.approx(explicit.item(), rel=1e-5) and torch.allclose(found, slopes, atol=1e-5)


def test_going_back_to_a_state_gives_the_same_weights(model: Any) -> None:
    learner, rows = Learner(model, LearnerSettings(learning_rate=0.001)), sampled_rows(model, drift=0.1)
    learner.step(rows)
    state = copy.deepcopy(learner.state())

    def after() -> list[torch.Tensor]:
        learner.step(rows)
        return [weights.detach().clone() for weights in learner.model.parameters()]

    once = after()
    learner.restore(state)
    assert all(torch.equal(a, b) for a, b in zip(once, after(), strict=True))


def test_rows_without_a_token_to_train_are_refused(model: Any) -> None:
    row = TrainingRow((1, 2), (False, False), (0.0, 0.0))
    with pytest.raises(ValueError, match="no token to train"):
        Learner(model, LearnerSettings()).step([row])
    with pytest.raises(ValueError, match="no parameters"):
        Learner(model.requires_grad_(False), LearnerSettings())


def test_the_probability_of_what_was_drawn_at_another_temperature_is_taken_at_it(model: Any) -> None:
    [row] = sampled_rows(model, 1)
    known = logprobs(model, row.ids, 0.6)
    drawn = replace(
        row,
        behaviour=tuple(k if used else 0.0 for k, used in zip(known, row.mask, strict=True)),
        spans=(AnswerSpan(CONTEXT, len(row.ids), 0.6),),
    )
    assert Learner(model, LearnerSettings()).step([drawn]).masked == 0


def test_a_checkpoint_of_an_adapter_holds_no_weights_of_the_base_model() -> None:
    """The output layer shares its weights with the input embedding, so that they have two names."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    base = LlamaForCausalLM(LlamaConfig(vocab_size=64, tie_word_embeddings=True, **shape))
    learner = Learner(
        get_peft_model(base, LoraConfig(r=2, target_modules="all-linear")), LearnerSettings(learning_rate=0.01)
    )
    row = TrainingRow((1, 2, 3, 4), (False, True, True, True), (1.0,) * 4)
    learner.step([row])
    state = copy.deepcopy(learner.state())
    names = [name for name, each in learner.model.named_parameters() if each.requires_grad]
    assert sorted(state["weights"]) == sorted(names) and all("lora" in name for name in names)
    once = learner.step([row])
    learner.restore(state)
    assert learner.step([row]).loss == once.loss


def test_a_gradient_that_is_not_finite_changes_no_weights(model: Any) -> None:
    learner, rows = Learner(model, LearnerSettings(learning_rate=1e30)), sampled_rows(model, drift=0.1)
    learner.step(rows)
    before = [weights.detach().clone() for weights in model.parameters()]
    with pytest.raises(DivergedError, match="lower --learning-rate"):
        learner.step(rows)
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
