"""The campaign of the README runs, and what the commands print has the shape that the pages promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sciagent.campaign.file.campaign_spec import campaign_schema
from sciagent.training.recipes.recipe_file import recipe_schema
from tests.docs.pages import ROOT, blocks, campaigns
from tests.support import warm

README, CLI = ROOT / "README.md", ROOT / "docs" / "cli.md"


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("SCIAGENT_")} | {"OMP_NUM_THREADS": "1"}


def sciagent(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run(arguments, folder, environment(), 300)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The README's own campaign with its file of molecules, run; the folder and the status it printed."""
    folder = tmp_path_factory.mktemp("readme")
    [campaign], [molecules] = campaigns(README), blocks("csv", README)
    (folder / "my-gaps.yaml").write_text(campaign.text)
    (folder / "my-molecules.csv").write_text(molecules.text)
    done = subprocess.run(  # in a fresh interpreter, as a reader's first command
        [sys.executable, "-m", "sciagent", "run", "my-gaps.yaml", "--json"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode in (0, 3), done.stderr
    return folder, json.loads(done.stdout)


def documented(command: str) -> Any:
    [block] = blocks(f"json {command}", CLI)
    return json.loads(block.text)


def test_the_campaign_of_the_readme_runs_to_its_end(ran: tuple[Path, dict[str, Any]]) -> None:
    folder, status = ran
    assert (status["state"], status["candidates"]) == ("finished", 4)
    assert {rung["rung"]: rung["done"] for rung in status["rungs"]}["checks"] == 4
    for name in ("sciagent.db", "sciagent-artifacts", "my-gaps.report.html"):
        assert (folder / name).exists(), name


@pytest.mark.parametrize(
    ("command", "example"),
    [("status", documented("status")), ("best", [documented("best")]), ("report", documented("report"))],
)
def test_an_answer_and_its_example_in_the_docs_have_the_printed_schema(
    ran: tuple[Path, dict[str, Any]], command: str, example: Any
) -> None:
    folder, _ = ran
    schema = json.loads(sciagent(folder, "schema", command).stdout)
    answer = json.loads(sciagent(folder, command, "--json").stdout)
    for value in (answer, example):
        jsonschema.validate(value, schema)
    first, promised = (value[0] if isinstance(value, list) else value for value in (answer, example))
    assert set(first) == set(promised)


def test_run_prints_the_status(ran: tuple[Path, dict[str, Any]]) -> None:
    folder, printed = ran
    assert set(printed) == set(json.loads(sciagent(folder, "status", "--json").stdout))


def test_verify_has_the_documented_shape_and_reuses_what_is_known(ran: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = ran
    done = sciagent(folder, "verify", "c1ccccc1C=O", "-c", "my-gaps.yaml", "--json")
    found, promised = json.loads(done.stdout), documented("verify")
    assert set(found) == set(promised)
    assert all(set(rung) == set(promised["rungs"][0]) and rung["reused"] for rung in found["rungs"])
    assert done.returncode == {"pass": 0, "fail": 1}.get(found["verdict"], 4)


def test_the_schemas_in_the_docs_are_current() -> None:
    stored = json.loads((ROOT / "docs" / "campaign.schema.json").read_text(encoding="utf-8"))
    assert stored == campaign_schema(), "run: sciagent schema > docs/campaign.schema.json"
    stored = json.loads((ROOT / "docs" / "recipe.schema.json").read_text(encoding="utf-8"))
    assert stored == recipe_schema(), "run: sciagent schema recipe > docs/recipe.schema.json"
