"""The benchmark of calibration: a small run, and what the committed result says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.calibration.held_out import compared

RESULT = json.loads((Path(__file__).parents[2] / "benchmarks" / "calibration" / "held_out.json").read_text())
RUNGS = ["alpb", "alpb_gfn2", "smd"]


@pytest.mark.parametrize("rung", RUNGS)
def test_the_committed_figures_follow_from_the_committed_values(rung: str) -> None:
    pairs = [(value[rung], value["measured"]) for value in RESULT["values"]]
    figures = RESULT["rungs"][rung]
    assert compared(pairs).items() <= figures.items() and figures["molecules"] == 50


def test_a_fit_to_twenty_molecules_betters_smd_on_the_other_thirty() -> None:
    smd = RESULT["rungs"]["smd"]
    assert smd["linear"]["held"] < 0.6 * smd["plain"] and smd["linear"]["better"] == smd["splits"]
    assert smd["linear"]["used"] >= 95 and smd["linear"]["calibrated"] < 0.6 * smd["plain"]


def test_alpb_with_gfn2_gains_a_little_in_most_splits() -> None:
    gfn2 = RESULT["rungs"]["alpb_gfn2"]
    assert gfn2["linear"]["held"] < gfn2["plain"] and gfn2["linear"]["better"] > 70


def test_alpb_with_gfn1_gains_nothing_and_its_leave_one_out_error_says_so() -> None:
    alpb = RESULT["rungs"]["alpb"]
    assert alpb["linear"]["held"] > alpb["plain"] and alpb["linear"]["leave_one_out"] > alpb["plain"]
    assert alpb["linear"]["used"] == alpb["offset"]["used"] == 0


@pytest.mark.parametrize("rung", RUNGS)
def test_a_calibrated_rung_is_never_worse_than_the_plain_one_by_more_than_chance(rung: str) -> None:
    figures = RESULT["rungs"][rung]
    for kind in ("offset", "linear"):
        assert figures[kind]["worse"] <= 5 and figures[kind]["calibrated"] < 1.02 * figures["plain"]
