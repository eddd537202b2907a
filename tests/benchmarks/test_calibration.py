"""The benchmark of calibration: a small run, and what the committed result says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.calibration.held_out import compared

RESULT = json.loads((Path(__file__).parents[2] / "benchmarks" / "calibration" / "held_out.json").read_text())


@pytest.mark.parametrize("rung", ["alpb", "smd"])
def test_the_committed_figures_follow_from_the_committed_values(rung: str) -> None:
    pairs = [(value[rung], value["measured"]) for value in RESULT["values"]]
    figures = RESULT["rungs"][rung]
    assert compared(pairs).items() <= figures.items() and figures["molecules"] == 50


def test_a_fit_to_twenty_molecules_betters_smd_on_the_other_thirty() -> None:
    smd = RESULT["rungs"]["smd"]
    assert smd["linear"]["held"] < 0.6 * smd["plain"] and smd["linear"]["better"] == smd["splits"]


def test_alpb_which_has_little_bias_gains_nothing_and_its_leave_one_out_error_says_so() -> None:
    alpb = RESULT["rungs"]["alpb"]
    assert alpb["linear"]["held"] > alpb["plain"] and alpb["linear"]["leave_one_out"] > alpb["plain"]
