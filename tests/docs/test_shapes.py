"""The campaign of the README runs, and what the commands print has the shape that the pages promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sciagent.campaign.spec.load import campaign_schema
from tests.docs.pages import ROOT, blocks, campaigns

README, CLI = ROOT / "README.md", ROOT / "docs" / "cli.md"
BY_DATA = ("spent", "budget", "values", "recall", "with_audit", "missed")  # what depends on the campaign


def sciagent(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SCIAGENT_")} | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "sciagent", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The README's own campaign with its file of molecules, run; the folder and the status it printed."""
    folder = tmp_path_factory.mktemp("readme")
    [campaign], [molecules] = campaigns(README), blocks("csv", README)
    (folder / "my-gaps.yaml").write_text(campaign.text)
    (folder / "my-molecules.csv").write_text(molecules.text)
    done = sciagent(folder, "run", "my-gaps.yaml", "--json")
    assert done.returncode in (0, 3), done.stderr
    return folder, json.loads(done.stdout)


def shape(value: Any) -> Any:
    """Keys all the way down; of a list its first entry; `None` for everything else."""
    if isinstance(value, dict):
        return {k: None if k in BY_DATA else shape(v) for k, v in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else None


def documented(command: str) -> Any:
    [block] = blocks(f"json {command}", CLI)
    return json.loads(block.text)


def first_value(values: dict[str, Any]) -> set[str]:
    return set(next(iter(values.values())))


def test_the_campaign_of_the_readme_runs_to_its_end(ran: tuple[Path, dict[str, Any]]) -> None:
    folder, status = ran
    assert (status["state"], status["candidates"]) == ("finished", 4)
    assert {rung["rung"]: rung["done"] for rung in status["rungs"]}["checks"] == 4
    for name in ("sciagent.db", "sciagent-artifacts", "my-gaps.report.html"):
        assert (folder / name).exists(), name


def test_status_has_the_documented_shape(ran: tuple[Path, dict[str, Any]]) -> None:
    folder, printed = ran
    status, promised = json.loads(sciagent(folder, "status", "--json").stdout), documented("status")
    assert shape(printed) == shape(status)
    assert promised["audit"].pop("rungs") and status["audit"].pop("rungs") == [], "one rung measures the gap here"
    assert promised.pop("value")["rungs"] and status.pop("value") is None, "four molecules teach no law"
    assert shape(status) == shape(promised)
    assert set(status["spent"]) == set(promised["spent"])


def test_best_has_the_documented_shape(ran: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = ran
    best = json.loads(sciagent(folder, "best", "-n", "2", "--json").stdout)
    assert shape(best) == [shape(documented("best"))]
    assert first_value(best[0]["values"]) == first_value(documented("best")["values"])


def test_verify_has_the_documented_shape_and_reuses_what_is_known(ran: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = ran
    done = sciagent(folder, "verify", "c1ccccc1C=O", "-c", "my-gaps.yaml", "--json")
    found, promised = json.loads(done.stdout), documented("verify")
    assert shape(found) == shape(promised)
    assert first_value(found["rungs"][0]["values"]) == first_value(promised["rungs"][0]["values"])
    assert all(rung["reused"] for rung in found["rungs"])
    assert done.returncode == {"pass": 0, "fail": 1}.get(found["verdict"], 4)


def test_the_schema_in_the_docs_is_current() -> None:
    stored = json.loads((ROOT / "docs" / "campaign.schema.json").read_text(encoding="utf-8"))
    assert stored == campaign_schema(), "run: sciagent schema > docs/campaign.schema.json"
