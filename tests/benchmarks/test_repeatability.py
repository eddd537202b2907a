"""The benchmark of the stated repeatability runs, and its committed result covers what it should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.repeatability import run

RESULT = Path(__file__).parents[2] / "benchmarks" / "repeatability" / "result.json"


def test_a_pair_is_covered_if_the_difference_is_within_the_root_of_the_sum_of_squares() -> None:
    rows = [{"value": 0.0, "molecule": 3.0}, {"value": 4.9, "molecule": 4.0}, {"value": -5.1, "molecule": 4.0}]
    assert run.covered(rows, "molecule") == [True, False, False]


def test_the_molecules_have_rotatable_bonds() -> None:
    from rdkit import Chem
    from rdkit.Chem.rdMolDescriptors import CalcNumRotatableBonds

    bonds = [CalcNumRotatableBonds(Chem.MolFromSmiles(text)) for text in run.flexible(20)]
    assert bonds == sorted(bonds, reverse=True) and bonds[-1] >= 1 and len(bonds) == 20


def test_the_committed_result_covers_68_percent_within_ten() -> None:
    result = json.loads(RESULT.read_text())
    assert (result["molecules"], result["seeds"]) == (20, 4)
    again = run.summary(result["rows"])
    assert again["all"] == result["all"] and again["by_property"] == result["by_property"]
    low, high = run.TARGET
    assert low <= result["all"]["covered_by_molecule"] <= high
    assert {row["smiles"] for row in result["rows"]} == set(run.flexible(20))


@pytest.mark.long
def test_a_small_run_reports_every_property(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    assert run.main(["--out", str(out), "--smiles", "CCO", "--seeds", "2", "--workers", "1"]) == 0
    result = json.loads(out.read_text())
    assert len(result["by_property"]) == 6 and result["all"]["pairs"] == 6
