"""The benchmark of rollouts runs, and its committed figures are those that its page states."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.rollouts import lockstep

FOUND = json.loads((Path(lockstep.__file__).parent / "lockstep.json").read_text(encoding="utf-8"))


def test_the_benchmark_runs() -> None:
    assert lockstep.lockstep(seed=1, turns=1) > 0
    assert lockstep.one_by_one(seed=1, turns=1) > 0


def test_the_committed_figures_are_within_what_is_promised() -> None:
    assert FOUND["episodes"] == 48
    assert all(run["lockstep_ms"] <= 15 and run["ratio"] > 3 for run in FOUND["runs"])
