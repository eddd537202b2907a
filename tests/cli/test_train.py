"""`sciagent train` as it is typed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sciagent.agent.install_and_find_models import add_folder
from sciagent.store.database.ledger import Ledger
from sciagent.training.dataset_building import build
from sciagent.training.settings import DatasetSettings
from tests.support.conversing import conversing
from tests.support.tiny_model import write_tiny_model
from tests.support.typed import call, data, told


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIAGENT_MODELS", str(tmp_path_factory.mktemp("models")))
        add_folder(write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny", context=4096), "tiny", lambda text: None)
        yield


@pytest.fixture
def folder(migrated_sqlite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: None) -> Path:
    """A ledger with an episode of two hits, and the data set `sft` of it."""
    shutil.copy(migrated_sqlite, tmp_path / "sciagent.db")
    ledger = Ledger(str(tmp_path / "sciagent.db"), artifacts=tmp_path / "sciagent-artifacts")
    made = conversing(ledger, tmp_path, "gaps")
    made.talk(1, ["CCO", "CCN"])
    made.verify("CCO", 5.0)
    made.verify("CCN", 6.0)
    build(ledger, DatasetSettings(kind="sft", campaigns=["gaps"]), tmp_path / "sft")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    return tmp_path


SFT = ("train", "sft", "sft", "--model", "tiny", "--rows-per-step", "1", "--threads", "1")


def test_a_person_sees_the_steps_and_the_new_model(folder: Path) -> None:
    done = call(*SFT, "--out", "taught", "--learning-rate", "1e-3")
    assert done.exit_code == 0, done.output
    first, second = (line for line in done.stderr.splitlines() if line.startswith("step "))
    assert first.startswith("step 1/2  loss ") and "  entropy " in second and "reward" not in first
    [policy] = [model["policy"] for model in data("models") if model["name"] == "taught"]
    assert f"{policy}, from tiny@" in done.stdout and "2 steps, ended by rows; in taught/policy" in done.stdout


def test_a_script_reads_a_line_of_json_for_each_step_and_one_at_the_end(folder: Path) -> None:
    lines = [json.loads(line) for line in told(*SFT, "--out", "lines", "--steps", "1", "--json").splitlines()]
    step, end = lines[-2:]
    assert {"step", "loss", "reward", "masked", "kl", "seconds"} <= set(step) and step["step"] == 1
    assert set(step["seconds"]) == {"sample", "verify", "wait", "update"} and step["reward"] is None is step["kl"]
    assert end["stopped_by"] == "steps" and end["steps"] == 1
    assert end["policy"].startswith("lines@") and end["parent"].startswith("tiny@")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("sft", "sft", "--model", "tinny"), 'did you mean "tiny"'),
        (("sft", "nowhere", "--model", "tiny"), "sciagent dataset build sft"),
        (("grpo", "sft", "--model", "tiny"), "a data set of sft; `train grpo` takes rows"),
        (("grpo", "gone.yaml", "--model", "tiny"), "gone.yaml is no file of a campaign"),
        (("grpo", "sft", "sft", "--model", "tiny"), "of folders of rows, state one"),
        (("grpo", "rows", "--model", "tiny", "--from", "seeds"), "--from is for campaigns, and has no effect"),
        (("ppo", "gaps.yaml", "--model", "tiny", "--epochs", "2"), "--epochs is for a folder of rows"),
        (("sft", "sft", "--model", "tiny", "--name", "tiny"), "choose another name with --name"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(folder: Path, more: tuple[str, ...], says: str) -> None:
    (folder / "gaps.yaml").touch()
    done = call("train", *more, "--out", "new")
    assert done.exit_code != 0 and says in str(done.exception)
    assert not (folder / "new").exists()
