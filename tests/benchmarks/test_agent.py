"""The agent's benchmarks, at a small size, and their committed results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.agent import overhead, proposals

FOLDER = Path(overhead.__file__).parent


@pytest.mark.long
@pytest.mark.parametrize("name", ["random edits", "evolve"])
def test_a_short_comparison_counts_what_was_proposed_and_spent(name: str, tmp_path: Path) -> None:
    found = proposals.run(name, 1, results=3, minutes=2, folder=tmp_path, start=3)
    assert found["xtb_runs"] == 6 and 0 < found["xtb_seconds"] <= found["core_seconds"]
    assert found["proposals"] >= found["valid"] >= found["new"] >= 3
    spent, _, best = zip(*found["curve"], strict=True)
    assert list(spent) == sorted(spent) and all(0 <= one <= 1 for one in best)


def test_the_loop_asks_as_often_as_it_says_and_does_more_than_only_asking() -> None:
    found = overhead.loop(0.05, 2)
    assert found["turns"] == 32 and found["state"] == "finished"
    assert found["seconds"] > found["bare_seconds"] >= 0.1


def test_the_committed_results_are_of_these_benchmarks() -> None:
    loops = json.loads((FOLDER / "overhead.json").read_text())["loops"]
    assert {one["answer_seconds"] for one in loops} == {2.0, 5.0}
    compared = json.loads((FOLDER / "proposals.json").read_text())
    assert list(compared["summary"]) == list(proposals.PROPOSERS)
    assert compared["summary"] == proposals.summary(compared["runs"])
    assert {one["seed"] for one in compared["runs"]} == set(range(1, 6))
