"""The work of stages that need no training: episodes, and an audit of a single policy."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sciagent.store.database.ledger import Ledger
from sciagent.training.command_answers import TrainedStep
from sciagent.training.recipes.recipe_file import AuditStage, EpisodesStage, RecipeSpec
from sciagent.training.recipes.recipe_folder_and_stop import Interrupted, StageFolder, Stopping
from sciagent.training.recipes.run_stage import RecipeRunSettings, StageWorker, built_tasks
from tests.training.recipes.made_recipes import write_practice

STAGE = EpisodesStage(kind="demonstrations", groups=2, siblings=2, turns=1)


class Told:
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def step(self, stage: str, step: TrainedStep, of: int) -> None:
        raise AssertionError("nothing is trained here")


@pytest.fixture
def folder(tmp_path: Path) -> StageFolder:
    write_practice(tmp_path)
    (tmp_path / "stage").mkdir()
    return StageFolder(tmp_path / "stage")


def worker(folder: StageFolder, ledger: Ledger, stopping: Stopping, told: Told) -> StageWorker:
    spec = RecipeSpec(recipe="small", model="tiny", tasks=("practice.yaml",), stages=(STAGE,))
    here = folder.path.parent
    return StageWorker(spec, RecipeRunSettings(here, here / "out", "out"), ledger, told, stopping)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_demonstrations_are_made_once(folder: StageFolder, ledger: Ledger) -> None:
    told, tasks = Told(), built_tasks(ledger, [folder.path.parent / "practice.yaml"])
    work = worker(folder, ledger, Stopping(), told)
    result = work.work(STAGE, "demonstrations", folder, tasks, None, "")
    assert result.lines == ["practice: 2 groups of 2 by scripted"] and told.lines
    told.lines.clear()
    assert work.work(STAGE, "demonstrations", folder, tasks, None, "").lines == result.lines
    assert told.lines == [], "the groups that are there already are not rolled out again"


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_stop_ends_the_episodes(folder: StageFolder, ledger: Ledger) -> None:
    stopping, tasks = Stopping(), built_tasks(ledger, [folder.path.parent / "practice.yaml"])
    threading.Thread(target=stopping.stop).start()
    with pytest.raises(Interrupted):
        worker(folder, ledger, stopping, Told()).work(STAGE, "demonstrations", folder, tasks, None, "")


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_an_audit_of_one_policy_compares_nothing(folder: StageFolder, ledger: Ledger) -> None:
    stage = AuditStage(kind="audit", tasks=("practice.yaml",), seeds=(1,), verifications=2)
    result = worker(folder, ledger, Stopping(), Told()).work(stage, "audit", folder, [], "tiny", "tiny")
    assert result.compared is None and "nothing to compare" in result.lines[0]
