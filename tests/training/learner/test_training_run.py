"""Training runs on a data set of verified answers: what they leave behind, and how they go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.agent import install_and_find_models
from sciagent.agent.messages_sampling_and_policy_client import Message, Sampling
from sciagent.agent.policies.local_model import LocalPolicy
from sciagent.agent.serving.load_adapters_and_served_model_cards import adapter_sha256
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.errors import UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.training.command_answers import TrainedPolicy, TrainedStep
from sciagent.training.learner import training_run
from sciagent.training.learner.run_state import RunFolder
from sciagent.training.settings import TrainingSettings
from tests.training.learner.made_sets import six_answers

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@pytest.fixture
def run_settings(ledger: Ledger, tmp_path: Path, tiny: str) -> TrainingSettings:
    """Six verified answers, three a step, four times."""
    rows = six_answers(ledger, tmp_path)
    return TrainingSettings(
        training="sft",
        rows=rows,
        model=tiny,
        out=tmp_path / "out",
        name=f"of-{tmp_path.name}"[:60],
        rows_per_step=3,
        epochs=4,
        save_every=3,
        threads=1,
        learning_rate=3e-3,
        most_tokens=2000,
    )


def run(run_settings: TrainingSettings, ledger: Ledger | None = None) -> tuple[TrainedPolicy, list[TrainedStep]]:
    told: list[TrainedStep] = []
    return training_run.train(run_settings, ledger, lambda step, of: told.append(step)), told


def weights(run_settings: TrainingSettings) -> bytes:
    return (run_settings.out / "policy" / "model.safetensors").read_bytes()


def test_a_model_learns_verified_answers_and_enters_models_and_ledger(
    run_settings: TrainingSettings, ledger: Ledger
) -> None:
    answer, told = run(run_settings, ledger)
    steps = answer.steps
    assert [step.step for step in told] == list(range(1, steps + 1)) and answer.stopped_by == "rows"
    assert told[-1].loss < 0.7 * told[0].loss and {step.masked for step in told} == {0.0}
    lines = [json.loads(line) for line in (run_settings.out / "metrics.jsonl").read_text().splitlines()]
    assert lines == [step.model_dump() for step in told] and lines[0]["kl"] is None
    card = install_and_find_models.find(run_settings.name)
    assert answer.policy == card.policy and answer.parent == install_and_find_models.find("tiny").policy
    policy = LocalPolicy(run_settings.name, device="cpu")
    said = policy.sample([Message("user", "Propose.")], [], Sampling(max_tokens=5, seed=1))
    assert said.policy == answer.policy and said.tokens is not None
    p = t.policy.c
    with ledger.read() as connection:
        rows = {row.name: row for row in connection.execute(sa.select(t.policy)).all()}
    assert rows[answer.policy].parent_id == rows[answer.parent].id and p.recipe is not None
    assert rows[answer.policy].recipe["training"] == "sft" and rows[answer.policy].base_sha256 == card.sha256
    again, more = run(run_settings, ledger)
    assert again == answer and not more, "a run that is complete has nothing left to do"


def test_a_run_that_was_ended_goes_on_to_the_same_weights(
    run_settings: TrainingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, told = run(run_settings)
    expected = weights(run_settings)
    other = run_settings.with_changes(out=run_settings.out.with_name("again"))

    def interrupted(step: TrainedStep, of: int) -> None:
        if step.step == 5:
            raise KeyboardInterrupt

    install_and_find_models.remove(run_settings.name)
    stopped = training_run.train(other, None, interrupted)
    assert (stopped.policy, stopped.stopped_by, stopped.steps) == (None, "interrupt", 5)
    answer, rest = run(other)
    assert [step.step for step in rest] == list(range(4, whole.steps + 1)), "the checkpoint is of step 3"
    assert weights(other) == expected and answer.policy == whole.policy
    losses = [json.loads(line)["loss"] for line in (other.out / "metrics.jsonl").read_text().splitlines()]
    assert losses == [step.loss for step in told]


def test_an_adapter_is_trained_alone_saved_apart_and_merged(
    run_settings: TrainingSettings, tmp_path: Path, ledger: Ledger
) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    answer, told = run(run_settings.with_changes(lora=4, kl=0.1), ledger)
    assert told[-1].loss < told[0].loss and told[0].kl == 0 < (told[-1].kl or 0)
    base = AutoModelForCausalLM.from_pretrained(install_and_find_models.find("tiny").folder)
    ids = torch.tensor([[3, 4, 5, 6]])
    before = base(input_ids=ids).logits
    adapted = PeftModel.from_pretrained(base, run_settings.out / "adapter")(input_ids=ids).logits
    merged = AutoModelForCausalLM.from_pretrained(run_settings.out / "policy")(input_ids=ids).logits
    assert torch.allclose(adapted, merged, atol=1e-4) and not torch.allclose(adapted, before, atol=1e-2)
    with ledger.read() as connection:
        rows = connection.execute(sa.select(t.policy.c.name, t.policy.c.adapter_sha256)).all()
    assert {name for name, adapter in rows if adapter is None} == {answer.parent, answer.policy}
    [(served, sha256)] = [row for row in rows if row.adapter_sha256 is not None]
    identity = PolicyIdentity(served, "in process", install_and_find_models.find("tiny").sha256, sha256)
    assert served == f"{run_settings.name}@{identity.hash[:8]}" and sha256 == adapter_sha256(
        run_settings.out / "adapter"
    )
    config = json.loads((run_settings.out / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == answer.parent, "another folder gives the same hash"
    assert config["target_modules"] == sorted(config["target_modules"])


def test_the_budget_of_the_divergence_ends_a_run(run_settings: TrainingSettings) -> None:
    answer, told = run(run_settings.with_changes(kl_budget=0.0001))
    assert answer.stopped_by == "kl_budget" and 1 < answer.steps < 8
    assert (told[-1].kl or 0) > 1e-4 >= (told[-2].kl or 0)
    assert answer.policy is not None


def test_a_finished_run_goes_on_to_more_steps(run_settings: TrainingSettings, tmp_path: Path) -> None:
    first, _ = run(run_settings.with_changes(steps=2))
    longer, told = run(run_settings.with_changes(steps=3))
    assert [step.step for step in told] == [3] and longer.steps == 3
    assert first.policy != longer.policy == install_and_find_models.find(run_settings.name).policy, (
        "the name is that of the last weights"
    )
    install_and_find_models.remove(run_settings.name)
    whole, _ = run(run_settings.with_changes(steps=3, out=tmp_path / "whole"))
    assert whole.policy == longer.policy


def test_what_cannot_be_done_is_refused_before_the_training(run_settings: TrainingSettings, tmp_path: Path) -> None:
    run(run_settings.with_changes(steps=1))

    def refused(text: str, **changed: Any) -> None:
        with pytest.raises(UsageError, match=text):
            run(run_settings.with_changes(**{"steps": 1} | changed))

    refused("holds a training run with another learning_rate, seed", seed=3, learning_rate=1e-4)
    refused("there is a model tiny already", name="tiny")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    refused("is no training run", out=tmp_path / "full", name="other")
    short = tmp_path / "broken"
    shutil.copytree(run_settings.out, short)
    (short / "checkpoint.pt").write_bytes(b"half")
    with pytest.raises(UsageError, match="cannot be read"):
        RunFolder(short, json.loads((short / "run.json").read_text())).restore(_Nobody())


class _Nobody:
    """Stands for a learner that is never asked."""

    accelerator = None
