"""The benchmark of soft modes runs, and its committed result is what the uncertainties rest on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.soft_modes import run
from sciagent_simulators.thermochemistry.normal_modes_and_minimum_search import NOISE

RESULT = Path(__file__).parents[2] / "benchmarks" / "soft_modes" / "result.json"


def test_the_committed_result_gives_the_noise_and_covers_most_pairs() -> None:
    result = json.loads(RESULT.read_text())
    assert set(result["rows"]) == set(run.MOLECULES)
    assert run.summary(result["rows"]) == pytest.approx({k: v for k, v in result.items() if k != "rows"})
    assert result["noise_cm^-2"] == pytest.approx(NOISE, rel=0.05)
    assert result["covered_soft"] >= 0.68


def test_a_small_run_reports_the_noise(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    assert run.main(["--out", str(out), "--smiles", "O"]) == 0
    result = json.loads(out.read_text())
    assert result["pairs"] == 15 and result["covered"] == 1 and len(result["rows"]["O"]) == 6
