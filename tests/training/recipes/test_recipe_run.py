"""Whole runs of a recipe: from a random model to one that GRPO has trained, with real episodes, checks and gates."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sciagent.agent import install_and_find_models as models
from sciagent.training.command_answers import RecipeAnswer
from tests.support.typed import call, refused
from tests.training.recipes.made_recipes import MOLECULES, TASK, write_practice

RECIPE = """
recipe: small
model: {new: {hidden_size: 32, layers: 1, vocabulary: 700}}
tasks: [practice.yaml]
rewards: rewards.yaml
stages:
  - {kind: demonstrations, groups: 1, siblings: 6, turns: 2}
  - {kind: sft, epochs: 2, rows_per_step: 8, learning_rate: 3e-3, at_least: 0, per_scaffold: 100, save_every: 1}
  - {kind: grpo, credit: outcome, steps: 2, groups: 1, siblings: 3, turns: 1, learning_rate: 1e-3}
"""
GATED = """
evaluate:
  tasks: [held.yaml]
  seeds: [1, 2, 3]
  verifications: 2
  arms: {scripted: {policy: scripted}}
"""
TAUGHT = """
recipe: {name}
model: {model}
tasks: [{name}.yaml]
stages:
  - {{kind: demonstrations, groups: 4, siblings: 8, turns: 4}}
  - {{kind: sft, epochs: 30, rows_per_step: 8, learning_rate: 3e-3, per_scaffold: 100}}
"""
AUDIT = "  - {kind: audit, tasks: [held.yaml]}\n"
REWARDS = "prices: {llm_tokens: 1.0e-6}\nunsettled: settled\n"  # measured seconds would differ from run to run
MAIN = "from sciagent.cli.main import main; main()"


def write(folder: Path, recipe: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "recipe.yaml").write_text(recipe)
    write_practice(folder)
    (folder / "rewards.yaml").write_text(REWARDS)


def run(*more: str, recipe: str = "recipe", out: str = "out") -> tuple[int, list[dict[str, object]], RecipeAnswer]:
    """Exit code, the lines of the steps, and the answer."""
    done = call("train", f"{recipe}.yaml", "--out", out, "--threads", "1", "--json", *more)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    *steps, last = map(json.loads, done.stdout.splitlines())
    return done.exit_code, steps, RecipeAnswer.model_validate(last)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which the recipe has run up to its last stage."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write(folder, RECIPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("SCIAGENT_LEDGER", raising=False)
        patch.setenv("SCIAGENT_MODELS", str(folder / "models"))
        code, steps, answer = run("--until", "sft")
        assert (code, answer.stopped_by, answer.policy) == (0, "until", models.find("out-sft").policy)
        assert {step["stage"] for step in steps} == {"sft"}
        code, steps, answer = run()
        assert (code, answer.stopped_by, answer.steps) == (0, "stages", 2 + answer.stages[1].steps)
        assert [step["stage"] for step in steps] == ["grpo", "grpo"], "what is done is not done again"
        yield folder


@pytest.fixture
def done(undisturbed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same folder, as the working directory."""
    monkeypatch.chdir(undisturbed)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    monkeypatch.setenv("SCIAGENT_MODELS", str(undisturbed / "models"))
    return undisturbed


@pytest.mark.long
def test_each_stage_goes_on_from_the_last_and_again_nothing_is_done(done: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (done / "out").rglob("*.safetensors")}
    code, steps, answer = run()
    assert code == 0 and steps == []
    parents = [models.find(f"out-{name}").policy for name in ("new", "sft")]
    assert [stage.parent for stage in answer.stages[1:]] == parents
    assert answer.policy == models.find("out-grpo").policy and answer.parent == models.find("out-new").policy
    assert before == {path: path.stat().st_mtime_ns for path in (done / "out").rglob("*.safetensors")}
    page = (done / "out" / "report.html").read_text()
    assert "Loss on the live ladder" in page and "out-grpo@" in page


@pytest.mark.long
def test_a_changed_stage_is_refused(done: Path) -> None:
    (done / "changed.yaml").write_text(RECIPE.replace("epochs: 2", "epochs: 3"))
    assert "another stage than the recipe now has" in refused("train", "changed.yaml", "--out", "out")
    assert "known: demonstrations, grpo, sft" in refused("train", "recipe.yaml", "--out", "out", "--until", "ppo")


@pytest.mark.slow
def test_after_kills_the_weights_are_those_of_an_undisturbed_run(done: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    write(folder, RECIPE)
    environment = os.environ | {"SCIAGENT_MODELS": str(folder / "models"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", MAIN, "train", "recipe.yaml", "--out", "out", "--threads", "1"]
    for signs in ("02-sft/run/checkpoint.pt", "03-grpo/run/metrics.jsonl"):
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE)
        end = time.monotonic() + 120
        while not (folder / "out" / signs).is_file() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, process.stderr.read() if process.stderr else ""
    last = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    for stage in ("02-sft", "03-grpo"):
        files = [root / "out" / stage / "run" / "policy" / "model.safetensors" for root in (done, folder)]
        assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.long
def test_stages_with_teachers_are_added_at_the_end(done: Path) -> None:
    teachers = "  - {kind: hinted, steps: 1}\n  - {kind: distill, teachers: {out-sft: 1.0}, steps: 1}\n"
    (done / "taught.yaml").write_text(RECIPE + teachers)
    code, steps, answer = run(recipe="taught")
    assert code == 0 and [step["stage"] for step in steps] == ["hinted", "distill"]
    hinted, distilled = answer.stages[-2:]
    assert (hinted.parent, distilled.parent) == (models.find("out-grpo").policy, hinted.policy)
    assert answer.policy == distilled.policy == models.find("out-distill").policy


@pytest.mark.slow
def test_a_worse_policy_is_not_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that learned to make greasy molecules learns to make watery ones, and is compared on greasy ones."""
    greasy = TAUGHT.format(name="greasy", model="{new: {hidden_size: 64, layers: 2, vocabulary: 700}}")
    watery = TAUGHT.format(name="watery", model="greasy-sft") + AUDIT + GATED.replace("ations: 2", "ations: 10")
    for name, window in {"greasy": "[2.2, 20]", "watery": "[-20, 0.2]", "held": "[2.2, 20]"}.items():
        (tmp_path / f"{name}.yaml").write_text(TASK.format(name=name, window=window))
    (tmp_path / "molecules.csv").write_text(MOLECULES)
    (tmp_path / "greasy-recipe.yaml").write_text(greasy)
    (tmp_path / "watery-recipe.yaml").write_text(watery)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    code, _, answer = run(recipe="greasy-recipe", out="greasy")
    assert (code, answer.policy) == (0, models.find("greasy-sft").policy)
    code, _, answer = run(recipe="watery-recipe", out="watery")
    worse = answer.stages[-1]
    assert (code, answer.stopped_by, worse.stage, worse.taken) == (1, "worse", "sft", False)
    assert worse.difference is not None and worse.difference[2] < 0
    assert answer.policy is None, "nothing was taken over"
    (tmp_path / "watery-recipe.yaml").write_text(watery + "on_worse: keep\n")
    code, _, answer = run(recipe="watery-recipe", out="watery")
    assert (code, answer.stopped_by, answer.stages[-1].stage) == (0, "stages", "audit")
    assert "greasy-sft is the first policy, and the only one" in answer.stages[-1].told[0]
