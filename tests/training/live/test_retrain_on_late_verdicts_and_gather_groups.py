"""Late verdicts: training on the change of the rewards, and what comes too late."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from sciagent import Campaign
from sciagent.agent import install_and_find_models
from sciagent.agent.install_and_find_models import add_folder
from sciagent.agent.messages_sampling_and_policy_client import (
    EpisodeQuestion,
    Message,
    PolicyError,
    Sampled,
    Tokens,
    ToolCall,
)
from sciagent.campaign.driving.driver import Driver
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.store.learning import evaluations_and_turn_uses
from sciagent.training.command_answers import TrainedStep
from sciagent.training.learner.learner_rows_and_rendered_conversations import TrainingRow
from sciagent.training.learner.load_and_publish import LoadedModel
from sciagent.training.learner.training_step import Learner
from sciagent.training.live.live_run import train_live
from sciagent.training.live.retrain_on_late_verdicts_and_gather_groups import LateVerdicts, TrainedGroup, differences
from sciagent.training.rollouts.random_edit_policy import ScriptedPolicy
from sciagent.training.settings import LearnerSettings
from tests.support.tiny_model import write_tiny_model
from tests.training.learner.made_rows import gradient, logprobs, sampled_rows
from tests.training.live.test_live_run import settings_for, used, written

PAID = """
campaign: {name}
subject: molecule
seed: 1
objectives:
  - {{property: heavy_atoms, min: 6}}
ladder:
  - {{rung: checks, verifier: molecule.checks}}
  - {{rung: paid, verifier: fn.paid}}
goal: {{kind: hits}}
budget: {{proposals: 100000, core_seconds: 10000}}
proposer: {{kind: llm, model: {model}, seeds: molecules.csv, structured: false}}
scheduler: {{kind: exhaustive}}
workers: 1
"""
SMALL, LARGE = ("CCN", "CCCN", "CCF", "CCCF"), ("Cc1ccccc1", "Nc1ccccc1", "Fc1ccccc1", "CCc1ccncc1")
BROKEN = ("C1CC", "C1CCC(")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIAGENT_MODELS", str(tmp_path_factory.mktemp("models")))
        folder = write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny", context=4096)
        add_folder(folder, "tiny", lambda text: None)
        yield folder


def learner_of(folder: Path, settings: LearnerSettings) -> Learner:
    """Returns a learner whose reference has other weights than its policy."""
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    model, reference = (AutoModelForCausalLM.from_pretrained(folder) for _ in range(2))
    torch.nn.init.normal_(reference.lm_head.weight, std=0.05, generator=torch.Generator().manual_seed(1))
    return Learner(model, settings, reference=reference.requires_grad_(False))


def scored(rows: list[TrainingRow], factor: float) -> list[TrainingRow]:
    return [replace(row, advantages=tuple(factor * each for each in row.advantages)) for row in rows]


@pytest.mark.parametrize(
    "settings", [LearnerSettings(), LearnerSettings(entropy=0.01, kl=0.01)], ids=["plain", "regularised"]
)
def test_a_gradient_of_the_difference_adds_up_to_that_of_the_final_reward(
    tiny: Path, settings: LearnerSettings
) -> None:
    """At lag 0, at the same weights: the policy gradient is linear in the advantages where no ratio is clipped. The
    entropy bonus and the divergence from the reference count once, with the first training."""
    learner = learner_of(tiny, settings)
    rows = sampled_rows(learner.model, 6)
    changed, others = rows[:2], rows[2:]
    final = scored(changed, 0.3)
    total = sum(row.trained for row in rows)
    _, wanted = gradient(learner, [*final, *others])
    gradient(learner, rows)
    late = differences(changed, final, total)
    learner.gradient(late)
    together = torch.cat([p.grad.flatten() for p in learner.model.parameters() if p.grad is not None])
    assert torch.allclose(together, wanted, atol=1e-6) and not torch.allclose(together, gradient(learner, rows)[1])
    assert differences(changed, changed, total) == [], "nothing has changed"


def test_tokens_that_had_no_advantage_are_trained_with_the_whole_of_it() -> None:
    row = TrainingRow((1, 2, 3), (False, True, True), (0.0, 0.5, 0.5), (0.0, -1.0, -1.0))
    [late] = differences([], [row], 8)
    assert late.advantages == (0.0, 0.125, 0.125)


def paid(molecule: Any) -> tuple[float, float]:
    return float(molecule.heavy_atoms), 0.1


class Written:
    """An engine whose answers are written: in each step two that are broken, a small molecule and a large one. The
    learner knows the probabilities of their tokens."""

    def __init__(self) -> None:
        self._steps = 0

    def policy(self, learner: Learner, loaded: LoadedModel, version: PolicyIdentity) -> WrittenAnswers:
        self._steps += 1
        said = (*BROKEN, SMALL[self._steps - 1], LARGE[self._steps - 1])
        return WrittenAnswers(learner.policy, loaded.tokenizer, version, said)

    def close(self) -> None: ...


class WrittenAnswers(ScriptedPolicy):
    def __init__(self, model: Any, tokenizer: Any, version: PolicyIdentity, said: Sequence[str]) -> None:
        self._model, self._tokenizer, self._version, self._said = model, tokenizer, version, said
        self.name = version.name

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        return [self._answer(smiles) for smiles, _ in zip(self._said, questions, strict=True)]

    def identity(self, served: str) -> PolicyIdentity:
        return self._version

    def _answer(self, smiles: str) -> Sampled:
        message = Message("assistant", "", calls=(ToolCall("call_1", "propose", json.dumps({"smiles": smiles})),))
        prompt, ids = (1, 2, 3), tuple(self._tokenizer.encode(smiles))
        known = logprobs(self._model, prompt + ids)[len(prompt) :]
        tokens = Tokens(prompt, ids, known, (False,) * len(ids), "raw", "t", behaviour=known)
        return Sampled(message, "calls", tokens, self.name, len(prompt), len(ids), seconds=0.0)


@pytest.mark.parametrize("ahead", [0, 1])
def test_verdicts_of_an_earlier_step_are_trained_within_the_lag_and_else_become_pairs(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    import sciagent

    sciagent.verifier(measures="heavy_atoms", unit="1", name="fn.paid", cost=0.01)(paid)
    file = written(tmp_path, f"late{ahead}", text=PAID)
    ledger = Campaign.from_yaml(file, tmp_path / "ledger.db").ledger.store
    settle, calls = Driver.settle, iter(range(100))

    def patient_in_the_second_step(self: Driver, seconds: float) -> bool:
        return settle(self, seconds) if next(calls) in (0, 2) else False  # the first call is for the seeds

    monkeypatch.setattr(Driver, "settle", patient_in_the_second_step)
    few: dict[str, Any] = {"steps": 4, "groups": 1, "siblings": 4, "turns": 1, "further": 0}
    run_settings = settings_for(tmp_path, file, **few, ahead=ahead, lag=1 + ahead, learning_rate=1e-5)
    told: list[TrainedStep] = []
    answer = train_live(run_settings, ledger, lambda step, of: told.append(step), engine=Written())
    install_and_find_models.remove(run_settings.name)
    assert answer.steps == 4 and answer.stopped_by == "steps"
    assert [step.late for step in told] == [0, 1, 0, 0]
    with ledger.read() as connection:
        versions = [version for _, _, version in evaluations_and_turn_uses.of_groups(connection, [1])]
    assert len(set(versions)) == 2, "the group is used with its first rewards, and with the later ones"
    assert len({(use["turn_id"], use["reward_version_id"]) for use in used(ledger)}) == len(used(ledger))
    card = (tmp_path / "run" / "pairs" / "README.md").read_text(encoding="utf-8")
    assert "Episodes that were read: 8;" in card, "those of the two groups whose verdicts came too late"
    table = pq.read_table(tmp_path / "run" / "pairs" / "train.parquet")
    assert table.schema.metadata[b"dataset"] == b"preference"
    pairs = [(pair["group"], _smiles(pair["chosen"]), _smiles(pair["rejected"])) for pair in table.to_pylist()]
    wanted = [(step, LARGE[step - 1], worse) for step in (3, 4) for worse in (*BROKEN, SMALL[step - 1])]
    wanted += [(step, SMALL[step - 1], broken) for step in (3, 4) for broken in BROKEN]  # nearer to the window
    assert sorted(pairs) == sorted(wanted), "the verdicts say which answer is the better one"


def test_a_verdict_between_the_rewards_of_a_step_and_its_training_is_not_missed(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sciagent

    sciagent.verifier(measures="heavy_atoms", unit="1", name="fn.paid", cost=0.01)(paid)
    file = written(tmp_path, "between", text=PAID)
    ledger = Campaign.from_yaml(file, tmp_path / "ledger.db").ledger.store
    settle, changed, drivers = Driver.settle, LateVerdicts.changed, list[Driver]()

    def patient_with_the_seeds_alone(self: Driver, seconds: float) -> bool:
        drivers.append(self)
        return settle(self, seconds) if len(drivers) == 1 else False

    def late_in_the_second_step(self: LateVerdicts, step: int) -> list[TrainedGroup]:
        if step == 2:
            assert settle(drivers[-1], 60.0), "both groups have their verdicts now"
        return changed(self, step)

    monkeypatch.setattr(Driver, "settle", patient_with_the_seeds_alone)
    monkeypatch.setattr(LateVerdicts, "changed", late_in_the_second_step)
    few: dict[str, Any] = {"steps": 3, "groups": 1, "siblings": 4, "turns": 1, "further": 0}
    told: list[TrainedStep] = []
    run_settings = settings_for(tmp_path, file, **few, lag=1, learning_rate=1e-5)
    train_live(run_settings, ledger, lambda step, of: told.append(step), engine=Written())
    install_and_find_models.remove(run_settings.name)
    assert [step.late for step in told] == [0, 1, 1]


def _smiles(messages: Sequence[Any]) -> str:
    """Returns the molecule of an answer as it was written."""
    [message] = messages
    [call] = message["tool_calls"]
    return str(json.loads(call["function"]["arguments"])["smiles"])
