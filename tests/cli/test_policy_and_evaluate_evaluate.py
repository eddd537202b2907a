"""`sciagent evaluate` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sciagent.errors import SpecError, UsageError
from sciagent.training.evaluation.evaluation_spec import load_evaluation
from tests.support.typed import call
from tests.training.evaluation.conftest import RECIPE, TASK


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "seeds.csv").write_text("smiles\nCCO\nc1ccccc1O\n", encoding="utf-8")
    for name, low in (("low", -1), ("high", 1)):
        (tmp_path / f"{name}.yaml").write_text(TASK.format(name=name, low=low, high=low + 2), encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("[1, 2]", "[1]"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    return tmp_path


def test_a_person_sees_a_table_with_intervals_and_a_script_the_same_figures(folder: Path) -> None:
    done = call("evaluate", "recipe.yaml", "--plot", "hits.png")
    assert done.exit_code == 0, done.output
    assert "4/4 evolve-high-1-" in done.stderr and "evolve\trandom\t" in done.stdout
    assert (folder / "hits.png").read_bytes().startswith(b"\x89PNG")
    answer = json.loads(call("evaluate", "recipe.yaml", "--json", "--quiet").stdout)
    assert answer["tasks"] == ["low", "high"] and answer["seeds"] == [1] and set(answer["arms"]) == {"random", "evolve"}
    mean, low, high = answer["arms"]["evolve"]["hits_per_verification"]
    assert low <= mean <= high and mean == pytest.approx(answer["arms"]["evolve"]["hits"] / 10)
    assert f"{mean:.3g} [{low:.3g}, {high:.3g}]" in done.stdout


def test_mistakes_and_failures_have_codes_of_their_own(folder: Path) -> None:
    (folder / "wrong.yaml").write_text("evaluate: {tasks: [], verifications: 0, arms: {a: {modle: b}}}\n")
    with pytest.raises(SpecError, match=r"(?s)evaluate\.tasks: needs.*verifications.*did you mean \"model\""):
        load_evaluation(folder / "wrong.yaml")
    text = (folder / "recipe.yaml").read_text(encoding="utf-8")
    (folder / "recipe.yaml").write_text(text + "    trained: {model: nowhere}\n", encoding="utf-8")
    done = call("evaluate", "recipe.yaml", "--quiet")
    assert done.exit_code == 1 and 'trained: unknown model "nowhere"' in done.stderr
    assert isinstance(call("evaluate", "recipe.yaml", "--plot", "hits.doc").exception, UsageError)
