"""The benchmark of rollouts runs, and its committed figures are those that its page states."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.rollouts import lockstep, sampling
from sciagent.agent.install_and_find_models import add_folder
from tests.support.tiny_model import write_tiny_model

SAMPLED = json.loads((Path(lockstep.__file__).parent / "sampling.json").read_text(encoding="utf-8"))
FOUND = json.loads((Path(lockstep.__file__).parent / "lockstep.json").read_text(encoding="utf-8"))


def test_the_benchmark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockstep, "GROUPS", 2)
    monkeypatch.setattr(lockstep, "SIBLINGS", 2)
    assert lockstep.lockstep(seed=1, turns=1) > 0
    assert lockstep.one_by_one(seed=1, turns=1) > 0


def test_the_committed_figures_are_within_what_is_promised() -> None:
    assert FOUND["episodes"] == 48
    assert all(run["lockstep_ms"] <= 15 and run["ratio"] > 3 for run in FOUND["runs"])


def test_answers_drawn_together_and_alone_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    add_folder(write_tiny_model(tmp_path / "tiny", context=8192), "tiny", lambda text: None)
    found = sampling.compared("tiny", siblings=2, turns=1, tokens=8, grammar=True)
    assert found["answers"] == found["compared"] == 2 and found["differ"] == 0 and found["together_core_s"] > 0


def test_the_committed_answers_are_the_same_and_cost_less_together() -> None:
    assert {run["grammar"] for run in SAMPLED["runs"]} == {True, False}
    for run in SAMPLED["runs"]:
        assert run["ratio"] > 1.3 and run["differ"] == 0 and run["largest_logprob_difference"] < 1e-4
