"""The benchmark of laws in large ledgers runs, and the few answers among many candidates are read."""

from __future__ import annotations

import json

import pytest

from benchmarks.law.scale import STEPS, main

pytestmark = pytest.mark.long


def test_a_small_run_reports_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--candidates", "600", "--measured", "60"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"60", "600"} and all(set(steps) == set(STEPS) for steps in found.values())
    for steps in found.values():
        assert steps["read for a fit"]["what"] == steps["read a past"]["what"] == "60 values"
        assert steps["turn of the proposer"]["what"].startswith("60 answers known")
