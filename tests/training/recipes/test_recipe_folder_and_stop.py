"""The folder of a recipe's run keeps what was asked, and is held by one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.errors import UsageError
from sciagent.training.command_answers import StageAnswer
from sciagent.training.recipes.recipe_folder_and_stop import StageFolder, opened

ASKED = {"kind": "sft", "model": "tiny@1"}
ANSWER = StageAnswer(stage="sft", kind="sft", policy="a@1", parent="b@2", steps=3, stopped_by="rows", seconds=1.0)


def test_a_stage_is_done_once_its_answer_is_there(tmp_path: Path) -> None:
    folder = StageFolder(tmp_path / "01-sft")
    assert folder.answer(ASKED) is None and folder.answer(ASKED) is None, "begun twice is not done"
    folder.finish(ASKED, ANSWER)
    assert StageFolder(tmp_path / "01-sft").answer(ASKED) == ANSWER
    with pytest.raises(UsageError, match="another stage than the recipe now has"):
        folder.answer(ASKED | {"model": "tiny@2"})


def test_what_is_noted_first_stays(tmp_path: Path) -> None:
    folder, numbers = StageFolder(tmp_path), iter(range(2))
    assert [folder.stored_once("groups", lambda: next(numbers)) for _ in range(2)] == [0, 0]


def test_a_folder_is_of_one_recipe_and_one_process(tmp_path: Path) -> None:
    busy = pytest.raises(UsageError, match="another process works on")
    with opened(tmp_path / "run", "small"), busy, opened(tmp_path / "run", "small"):
        pass
    with opened(tmp_path / "run", "small"):
        pass
    with pytest.raises(UsageError, match="holds a run of the recipe small"), opened(tmp_path / "run", "large"):
        pass
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is no run of a recipe"), opened(tmp_path / "other", "small"):
        pass
