"""The benchmark of large boards runs, and what it rests on holds: bounded batches, and a look at few between fits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.scheduling_scale.run import TARGETS, held, main
from benchmarks.scheduling_scale.state import MEDIANS, campaign, fresh
from sciagent.scheduling.rules import priced

N = 2000
RESULTS = Path(__file__).parents[2] / "benchmarks" / "scheduling_scale"


def test_a_small_run_reports_every_time_and_byte(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    assert main(["--one", "--sizes", str(N), "--rounds", "2", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["candidates"] == N
    assert found["answers"][0] == N
    assert found["answers"][-1] > 0
    assert len(found["rounds"]) == 2
    for name in ("round", "round_with_refit", "law", "arrival", "features"):
        assert found[name]["cpu"] > 0
        assert found[name]["wall"] > 0
    assert found["bytes_a_candidate"]["held"] < TARGETS["memory"]


def test_features_come_at_most_so_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priced, "AT_ONCE", 300)
    state, asked = fresh(N), []
    while not state.board.closed[:, 0].all():
        batch = state.priced.choose(state.board, state.left)
        assert {one.rung for one in batch} == {0}
        asked.append(len(batch))
        state.buy(batch)
    assert max(asked) == 300
    assert sum(asked) == N


def test_between_fits_only_those_near_the_top_and_the_new_ones_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priced, "AHEAD", 200)
    state = campaign(N)
    board, rule = state.board, state.priced
    state.buy(rule.choose(board, state.left))
    assert not np.isnan(rule.index[board.open]).any(), "all were looked at when the law was fitted"
    rule._stack._fitted_at = 10**9
    before = rule.index.copy()
    state.buy(rule.choose(board, state.left))
    changed = np.flatnonzero(rule.index[board.open] != before[board.open])
    assert 0 < len(changed) <= 200
    assert np.median(before[board.open][changed]) > np.quantile(before[board.open], 0.85)
    board.add(np.tile(MEDIANS, (50, 1)))
    board.closed[-50:, 0], board.scores[-50:, 0] = True, np.linspace(-2, 2, 50)
    rule.choose(board, state.left)
    assert not np.isnan(rule.index[-50:]).any()
    assert (np.diff(rule.index[-50:]) >= 0).mean() > 0.9


def test_what_a_board_holds_is_little() -> None:
    state = fresh(N)
    assert held(state.board) / N < 110


def test_the_committed_results_are_of_this_benchmark() -> None:
    results = json.loads((RESULTS / "results.json").read_text())
    assert set(results["met"]) == set(results["targets"]) == set(TARGETS)
    assert [one["candidates"] for one in results["sizes"]] == [10_000, 100_000, 1_000_000]
