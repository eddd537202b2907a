"""The page on the safety screen says what the screen does."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from sciagent.campaign.file.subject_and_safety import SafetySpec
from sciagent_verifiers.fast.hazards.molecule_hazards import RULES, SUBSTANCES
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "safety.md").read_text(encoding="utf-8")


def test_every_rule_stands_in_the_page_with_its_reason_and_source() -> None:
    for one in (*RULES, *SUBSTANCES):
        named = [line for line in PAGE.splitlines() if line.startswith(f"| `{one.name}` |")]
        assert len(named) == 1, one.name
        assert one.source in named[0]
    listed = re.findall(r"^\| `([a-z0-9-]+)` \|", PAGE, re.M)
    assert set(listed) == {one.name for one in (*RULES, *SUBSTANCES)}


def test_the_figures_are_those_of_the_table_and_of_the_benchmark() -> None:
    table = ROOT / "tests" / "verifiers" / "safety_structures.csv"
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    hazards = sum(row["set"] == "hazard" for row in rows)
    assert f"{hazards} that are refused" in PAGE
    assert f"{len(rows) - hazards} solvents" in PAGE
    found = json.loads((ROOT / "benchmarks" / "safety_screen" / "results.json").read_text(encoding="utf-8"))
    assert (found["molecules"], found["refused"]) == (5000, 1)
    assert f"{found['refused_percent']:g} %" in PAGE
    assert f"{found['ms_per_molecule_cpu']['worst']:.2f} ms" in PAGE


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", PAGE, re.S))
def test_its_examples_are_right(block: str) -> None:
    from ruamel.yaml import YAML

    assert SafetySpec.model_validate(YAML(typ="safe").load(block)["safety"])


def test_the_folder_it_names_is_there() -> None:
    for name in re.findall(r"`([a-z_/]+(?:\.py|\.csv|\.json|/))`", PAGE):
        folder = ROOT / "verifiers" / "sciagent_verifiers" / "fast" / "hazards"
        assert (ROOT / name).exists() or (folder / Path(name)).exists(), name
