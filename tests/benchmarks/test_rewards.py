"""The benchmarks of rewards: small runs, and the committed results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from benchmarks.rewards import robust, valuing
from tests.docs.pages import ROOT

HERE = ROOT / "benchmarks" / "rewards"


def test_few_candidates_are_valued(tmp_path: Path) -> None:
    found = valuing.measured(tmp_path, 60, 30)
    assert found["candidates"] == 60
    assert found["valuing_over_reading"] > 0


def test_the_committed_results_are_what_the_page_says() -> None:
    result, page = json.loads((HERE / "robust.json").read_text()), (HERE / "README.md").read_text()
    rules = result["rules"]
    assert abs(rules["robust"]["in_standard_errors"]) < 2
    assert rules["posterior"]["in_standard_errors"] > 5
    for figures in rules.values():
        assert f"{abs(figures['mean_error']):.4f} | {figures['standard_error_of_the_mean']:.4f}" in page
    valued = json.loads((HERE / "valuing.json").read_text())
    assert valued["valuing_over_reading"] <= 8, "the seconds are those of a machine, their ratio is not"
    assert f"five folds | {valued['cpu_seconds']['valuing']:.1f} |" in page


def test_robust_needs_no_true_law() -> None:
    rng = np.random.default_rng(1)
    hits = (rng.random(4000) < 0.1).astype(float)
    drawn = rng.random(4000) < robust.CHANCE
    errors = robust.worths("robust", np.full(4000, 0.9), hits, drawn) - hits
    assert abs(errors.mean()) < 3 * errors.std() / 4000**0.5
