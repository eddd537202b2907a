"""Late verdicts: training on the change of the rewards, and what comes too late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from sciagent import Campaign
from sciagent.agent.models import add_folder
from sciagent.campaign.driving.driver import Driver
from sciagent.store.learning import uses
from sciagent.training.learner.rows import TrainingRow
from sciagent.training.learner.settings import StepSettings
from sciagent.training.learner.step import Learner
from sciagent.training.live.late import differences
from tests.support.tiny_model import write_tiny_model
from tests.training.learner.made_rows import gradient, sampled_rows
from tests.training.live.test_running import run, used, wish_of, written

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
proposer: {{kind: llm, model: {model}, seeds: molecules.csv, max_tokens: 150, tools: [modify]}}
scheduler: {{kind: exhaustive}}
workers: 1
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIAGENT_MODELS", str(tmp_path_factory.mktemp("models")))
        folder = write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny", context=4096)
        add_folder(folder, "tiny", lambda text: None)
        yield folder


def learner_of(folder: Path) -> Learner:
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    return Learner(AutoModelForCausalLM.from_pretrained(folder), StepSettings())


def scored(rows: list[TrainingRow], factor: float) -> list[TrainingRow]:
    return [replace(row, advantages=tuple(factor * each for each in row.advantages)) for row in rows]


def test_a_gradient_of_the_difference_adds_up_to_that_of_the_final_reward(tiny: Path) -> None:
    """At lag 0, at the same weights: the policy gradient is linear in the advantages where no ratio is clipped."""
    learner = learner_of(tiny)
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


@pytest.mark.long
def test_verdicts_of_an_earlier_step_are_trained_within_the_lag_and_else_become_pairs(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sciagent

    sciagent.verifier(measures="heavy_atoms", unit="1", name="fn.paid", cost=0.01)(paid)
    file = written(tmp_path, "late", text=PAID)
    ledger = Campaign.from_yaml(file, tmp_path / "ledger.db").ledger.store
    settle, calls = Driver.settle, iter(range(100))

    def patient_in_the_second_step(self: Driver, seconds: float) -> bool:
        return settle(self, seconds) if next(calls) in (0, 2) else False  # the first call is for the seeds

    monkeypatch.setattr(Driver, "settle", patient_in_the_second_step)
    wish = wish_of(tmp_path, file, steps=4, groups=1, siblings=12, turns=1, further=0)
    answer, told = run(wish, ledger)
    assert answer.steps == 4 and answer.stopped_by == "steps"
    assert [step.late for step in told] == [0, 1, 0, 0]
    with ledger.read() as connection:
        versions = [version for _, _, version in uses.of_groups(connection, [1])]
    assert len(set(versions)) == 2, "the group is used with its first rewards, and with the later ones"
    assert len({(use["turn_id"], use["reward_version_id"]) for use in used(ledger)}) == len(used(ledger))
    card = (tmp_path / "run" / "pairs" / "README.md").read_text(encoding="utf-8")
    assert "Episodes that were read: 24;" in card, "those of the two groups whose verdicts came too late"
    assert pq.read_schema(tmp_path / "run" / "pairs" / "train.parquet").metadata[b"dataset"] == b"preference"
