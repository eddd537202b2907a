"""`sciagent train RECIPE.yaml`: the call, what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sciagent.errors import SpecError
from tests.support.typed import call, refused, told
from tests.training.recipes.made_recipes import write_practice

RECIPE = """
recipe: small
model: {new: {}}
tasks: [practice.yaml]
stages:
  - {kind: demonstrations, groups: 1, siblings: 2, turns: 1}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_practice(tmp_path)
    (tmp_path / "small.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    return tmp_path


def test_a_recipe_is_run_and_again_nothing_is_done(folder: Path) -> None:
    first = call("train", "small.yaml")
    assert first.exit_code == 0, first.output
    assert "stage 1 of 1: demonstrations" in first.stderr and "practice: 1 groups of 2 by scripted" in first.stderr
    assert "no policy yet: all stages are done; small/report.html has the curves" in first.stdout
    assert (folder / "small" / "report.html").is_file()
    again = call("train", "recipe", "small.yaml", "--json")
    assert "stage 1" not in again.stderr
    [line] = again.stdout.splitlines()
    answer = json.loads(line)
    assert (answer["policy"], answer["steps"], answer["stopped_by"]) == (None, 0, "stages")
    assert [stage["stage"] for stage in answer["stages"]] == ["demonstrations"]


def test_calls_that_are_wrong_say_so(folder: Path) -> None:
    assert "known: demonstrations" in refused("train", "small.yaml", "--until", "sft")
    assert isinstance(call("train", "missing.yaml").exception, SpecError)
    (folder / "small.yaml").write_text(RECIPE.replace("groups", "group"))
    assert 'did you mean "groups"' in refused("train", "small.yaml")
    assert "RECIPE.yaml" in told("train", "--help")
