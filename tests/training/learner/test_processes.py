"""Several processes of `accelerate launch` on a CPU train as one does, and leave the same behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from safetensors.torch import load_file

from sciagent.agent import install_and_find_models
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.training.command_answers import TrainedPolicy, TrainedStep
from sciagent.training.learner import training_run
from sciagent.training.settings import TrainingSettings
from tests.support.vllm import ROOT
from tests.training.learner.made_sets import six_answers

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
LAUNCH = ("-m", "accelerate.commands.launch", "--num_processes", "2", "--main_process_port", "0")


def launched(run_settings: TrainingSettings, module: str, *launch: str) -> subprocess.CompletedProcess[str]:
    """Trains in two processes. module: takes the arguments of sciagent."""
    folder = run_settings.out.parent
    steps = ("--epochs", "3", "--rows-per-step", "3", "--learning-rate", "1e-3", "--threads", "1", "--save-every", "2")
    options = [*steps, "--json", "--lora", str(run_settings.lora)]
    run = (
        "train",
        "sft",
        str(run_settings.rows),
        "--model",
        run_settings.model,
        "--out",
        str(run_settings.out),
        "--name",
        run_settings.new_name,
    )
    places = {"SCIAGENT_LEDGER": str(folder / "ledger.db"), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *LAUNCH, *(launch or ("--multi_gpu",)), "-m", module, *run, *options],
        cwd=folder,
        env=os.environ | places,
        timeout=200,
        capture_output=True,
        text=True,
        check=False,
    )


def printed(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr[-6000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def run_settings(ledger: Ledger, tmp_path: Path, tiny: str) -> TrainingSettings:
    """Six verified answers, three a step, three times."""
    rows = six_answers(ledger, tmp_path)
    name = f"one-{tmp_path.name}"[:60]
    return TrainingSettings(
        training="sft",
        rows=rows,
        model=tiny,
        out=tmp_path / "one",
        name=name,
        rows_per_step=3,
        epochs=3,
        learning_rate=1e-3,
        threads=1,
    )


def alone(run_settings: TrainingSettings, ledger: Ledger) -> tuple[TrainedPolicy, list[TrainedStep]]:
    told = list[TrainedStep]()
    return training_run.train(run_settings, ledger, lambda step, of: told.append(step)), told


def same_weights(run_settings: TrainingSettings, other: TrainingSettings) -> None:
    """Asserts that two runs moved the weights alike."""
    one, two = (load_file(each.out / "policy" / "model.safetensors") for each in (run_settings, other))
    begun = load_file(install_and_find_models.find(run_settings.model).folder / "model.safetensors")
    assert one.keys() == two.keys() == begun.keys()
    moved = {name: float((one[name] - begun[name]).norm()) for name in begun}
    assert max(moved.values()) > 0
    assert all((one[name] - two[name]).norm() <= 1e-2 * moved[name] for name in begun)


@pytest.mark.long
def test_two_processes_train_as_one_and_go_on_after_a_kill(
    run_settings: TrainingSettings, ledger: Ledger, tmp_path: Path
) -> None:
    answer, told = alone(run_settings, ledger)
    both = run_settings.with_changes(out=tmp_path / "two", name=f"two-{tmp_path.name}"[:60])
    killed = launched(both, "tests.training.learner.killed_launch")
    assert killed.returncode != 0 and not (both.out / "policy").exists()
    *steps, end = printed(launched(both, "sciagent"))
    assert [line["step"] for line in steps] == [3, 4, 5, 6], "the checkpoint is of step 2; one process prints"
    metrics = [json.loads(line) for line in (both.out / "metrics.jsonl").read_text().splitlines()]
    for other, own in zip(metrics, told, strict=True):
        wanted = ("step", "tokens", "loss", "entropy", "grad_norm")
        assert [other[name] for name in wanted] == pytest.approx([getattr(own, name) for name in wanted], rel=1e-4)
    same_weights(run_settings, both)
    with ledger.read() as connection:
        policies = connection.execute(sa.select(t.policy.c.name)).scalars().all()
    assert sorted(policies) == sorted(filter(None, [end["policy"], answer.policy, answer.parent]))


@pytest.mark.slow
@pytest.mark.parametrize("rank", ["0", "4"])
def test_weights_that_are_sharded_are_published_whole(
    run_settings: TrainingSettings, ledger: Ledger, tmp_path: Path, rank: str
) -> None:
    one = run_settings.with_changes(lora=int(rank))
    both = one.with_changes(out=tmp_path / "two", name=f"two-{tmp_path.name}"[:60])
    alone(one, ledger)
    sharded = ("--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP")
    printed(launched(both, "tests.training.learner.sharded_launch", *sharded))
    same_weights(one, both)
