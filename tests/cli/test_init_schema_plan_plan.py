"""`sciagent plan` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import Result

from sciagent.domain.answers.candidate_and_value_answers import json_schema
from sciagent.domain.answers.plan import Plan
from sciagent.errors import SpecError, UsageError
from tests.support.campaigns import write_campaign
from tests.support.typed import environment_of, invoked, without_styles


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    return write_campaign(tmp_path, molecules=("C", "CO", "CCO", "C[CH2]"), scheduler="priced", dft=2)


def call(*arguments: str, width: int = 100) -> Result:
    return invoked(["plan", *arguments], environment_of(width))


@pytest.mark.parametrize("width", [80, 120])
def test_it_says_what_is_bought_and_what_a_rung_is_worth(file: Path, width: int) -> None:
    result = call(str(file), width=width)
    assert result.exit_code == 0, result.output
    output = without_styles(result.output)
    text = " ".join(output.split())
    for part in ("the rungs", "xtb", "decides", "20 %", "; without xtb: ", "What runs out first: rungs.dft", "Assumed"):
        assert part in text, part
    assert max(len(line.rstrip()) for line in output.splitlines()) <= width
    assert not list(file.parent.glob("*.db")), "nothing is started"


def test_the_json_is_as_documented_and_counts_only_what_passes_the_fast_rungs(file: Path) -> None:
    found = json.loads(call(str(file), "--json").stdout)
    assert found["candidates"] == 3 and found["sample"]["passed"] == 0.75  # one is a radical
    jsonschema.validate(found, json_schema(Plan))


def test_runs_that_their_wall_limit_would_end_are_told(file: Path) -> None:
    assert "longer" not in call(str(file)).stdout
    text = file.read_text()
    limited = text.replace("rung: dft\n", "rung: dft\n    limits: {wall_seconds: 0.001}\n", 1)
    assert limited != text
    file.write_text(limited)
    assert "3 of 3 candidates are expected to run longer" in " ".join(without_styles(call(str(file)).stdout).split())
    [dft] = [rung for rung in json.loads(call(str(file), "--json").stdout)["rungs"] if rung["rung"] == "dft"]
    assert dft["too_long"] == 3 and dft["wall_seconds"] == 0.001


def test_a_mistake_is_told_with_its_place_and_a_missing_ledger_by_name(file: Path) -> None:
    broken = file.with_name("broken.yaml")
    broken.write_text(file.read_text().replace("window:", "windw:"))
    result = call(str(broken))
    assert isinstance(result.exception, SpecError) and f"{broken}:" in str(result.exception)
    result = call(str(file), "--ledger", "nowhere.db")
    assert isinstance(result.exception, UsageError) and "no ledger at" in str(result.exception)
    result = call("nowhere.yaml")
    assert isinstance(result.exception, SpecError)
