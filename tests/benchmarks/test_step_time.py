"""The benchmark of the training step: a small run beside TRL, and the committed result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.support.environments import TRL, interpreter, run

HERE = ROOT / "benchmarks" / "learning"


@pytest.mark.long
def test_both_sides_take_the_same_step(tmp_path: Path) -> None:
    found = json.loads(run(interpreter("trl", *TRL), "-m", "benchmarks.learning.step_time", "--small", folder=tmp_path))
    for name in ("grpo", "sft"):
        own, theirs = found[name]["first_loss"]
        assert own == pytest.approx(theirs, rel=1e-4) and found[name]["ratio"] > 0


def test_a_step_takes_at_most_5_percent_more_than_that_of_trl() -> None:
    result, page = json.loads((HERE / "step_time.json").read_text()), (HERE / "README.md").read_text()
    for name in ("grpo", "sft"):
        own, theirs = result[name]["first_loss"]
        assert result[name]["ratio"] <= 1.05 and own == pytest.approx(theirs, rel=1e-4)
        assert f"{result[name]['sciagent']:.2f} | {result[name]['trl']:.2f} | {result[name]['ratio']:.2f}" in page
