"""The benchmark of large boards runs, and what it rests on holds: bounded batches, and a look at few between fits."""

from __future__ import annotations

import copy
import json
import re
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sqlalchemy.engine import Connection

from benchmarks.scheduling_scale import decisions, invented
from benchmarks.scheduling_scale.run import TARGETS, held, main
from benchmarks.scheduling_scale.state import MEDIANS, campaign, fresh
from sciagent.campaign.pricing import priced_scheduler
from sciagent.campaign.pricing.priced_scheduler import Pricing
from sciagent.scheduling import indices_to_recompute
from sciagent.scheduling.rules import priced
from sciagent.store.database.ledger import Ledger

pytestmark = pytest.mark.long

N = 2000
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "scheduling_scale"


def test_a_small_run_reports_every_time_and_byte(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    assert main(["--one", "--sizes", "1000", "--rounds", "2", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["candidates"] == found["answers"][0] == 1000
    assert found["answers"][-1] > 0
    assert len(found["rounds"]) == 2
    for name in ("round", "round_with_refit", "law", "arrival", "features"):
        assert found[name]["cpu"] > 0
        assert found[name]["wall"] > 0
    assert found["bytes_a_candidate"]["held"] < TARGETS["memory"]


def test_features_come_at_most_so_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priced, "MAX_FEATURES_AT_ONCE", 300)
    state, asked = fresh(N), []
    while not state.pool.closed[:, 0].all():
        batch = state.priced.choose(state.pool, state.left)
        assert {one.rung for one in batch} == {0}
        asked.append(len(batch))
        state.buy(batch)
    assert max(asked) == 300
    assert sum(asked) == N


def test_between_fits_only_those_near_the_top_and_the_new_ones_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indices_to_recompute, "N_NEAR_TOP", 200)
    state = campaign(N)
    pool, rule = state.pool, state.priced
    state.buy(rule.choose(pool, state.left))
    assert not np.isnan(rule.index[pool.open]).any(), "all were looked at when the law was fitted"
    rule._stack._fitted_at = 10**9
    before = rule.index.copy()
    state.buy(rule.choose(pool, state.left))
    changed = np.flatnonzero(rule.index[pool.open] != before[pool.open])
    assert 0 < len(changed) <= 200
    assert np.median(before[pool.open][changed]) > np.quantile(before[pool.open], 0.85)
    pool.add(np.tile(MEDIANS, (50, 1)))
    pool.closed[-50:, 0], pool.scores[-50:, 0] = True, np.linspace(-2, 2, 50)
    rule.choose(pool, state.left)
    assert not np.isnan(rule.index[-50:]).any()
    assert (np.diff(rule.index[-50:]) >= 0).mean() > 0.9


def test_what_a_board_holds_is_little() -> None:
    state = fresh(N)
    assert held(state.pool) / N < 110


def test_the_committed_results_are_of_this_benchmark() -> None:
    results = json.loads((RESULTS / "results.json").read_text())
    assert set(results["met"]) == set(results["targets"]) == set(TARGETS)
    assert [one["candidates"] for one in results["sizes"]] == [10_000, 100_000, 1_000_000]
    made = json.loads((RESULTS / "decisions.json").read_text())
    assert made["candidates"] == 100_000
    assert made["target"] == decisions.TARGET
    assert set(made["priced"]["checked"]["rows"].values()) == {made["priced"]["decisions"]}
    assert len(made["runs"]) == 5 and made["met"] == {"wall": True, "cpu": True}
    said = re.sub(r"[*,]", "", (RESULTS / "README.md").read_text(encoding="utf-8"))
    for name in ("priced", "exhaustive"):
        rate = made[name]["decisions_a_second"]
        cells = (f"{rate[what]['wall']:.0f} ({rate[what]['cpu']:.0f})" for what in ("deciding", "sustained"))
        assert " | ".join(cells) in said


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A small run of the benchmark of decisions."""
    out = tmp_path_factory.mktemp("decisions") / "decisions.json"
    sizes = ["--candidates", "200", "--decisions", "80", "--workers", "2", "--times", "1"]
    assert decisions.main([*sizes, "--out", str(out)]) == 0
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_what_is_written_is_the_run_in_the_middle(
    decided: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates, out = [30.0, 10.0, 20.0], tmp_path / "decisions.json"
    runs = [copy.deepcopy(decided) for _ in rates]
    for one, rate in zip(runs, rates, strict=True):
        one["priced"]["decisions_a_second"]["sustained"]["wall"] = rate
    monkeypatch.setattr(decisions, "run", lambda *_: runs.pop(0))
    assert decisions.main(["--times", "3", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["priced"]["decisions_a_second"]["sustained"]["wall"] == 20.0
    assert [one["priced_sustained"] for one in found["runs"]] == rates


def test_every_decision_is_in_the_ledger_with_its_job(decided: dict[str, Any]) -> None:
    for scheduler in ("priced", "exhaustive"):
        one = decided[scheduler]
        assert set(one["checked"]["rows"].values()) == {one["decisions"]}
        assert sum(one["checked"]["by_rung"].values()) == one["decisions"] >= 40
    assert decided["plain_inserts"]["decisions"] == decided["priced"]["decisions"] >= 80


def test_features_and_the_law_are_told_apart_and_every_step_is_timed(decided: dict[str, Any]) -> None:
    priced = decided["priced"]
    assert priced["phases"]["features"]["decisions"] + priced["phases"]["law"]["decisions"] == priced["decisions"]
    assert priced["checked"]["by_rung"]["cheap"] == 20, "the tenth that lacked it"
    assert priced["looks"] >= priced["searches_for_hyper_parameters"] >= 1
    assert priced["checked"]["law_versions"] >= 1
    assert sum(priced["share_of_cpu"].values()) == pytest.approx(1, abs=0.02)
    rates = priced["decisions_a_second"]
    for of in ("wall", "cpu"):
        assert 0 < rates["sustained"][of] < rates["deciding"][of]
        assert rates["sustained"][of] < rates["without_the_law"][of]


def test_invented_molecules_differ() -> None:
    from rdkit import Chem

    some = list(islice(invented.molecules(), 0, 100_000, 97))
    assert len({Chem.CanonSmiles(one) for one in some}) == len(some)


def wanted(pricing: Pricing) -> int:
    """`Pricing.wants` reckoned anew from all candidates, where all of the budget may be spent."""
    pool, rule = pricing.pool, pricing.priced
    found = 0
    for row in np.flatnonzero(~pool.out & ~pool.pending):
        known = rule.index[row] if row < len(rule.index) else np.nan
        lacks = any(not pool.closed[row, j] for j in rule.rungs_for_everyone(pool))
        found += bool(lacks or np.isnan(known) or known >= max(rule.price, 1e-12))
    return found


def test_who_is_wanted_is_kept_in_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, kept = Pricing.wants, list[tuple[int, int, int]]()

    def both(pricing: Pricing, connection: Connection, is_idle: bool = False) -> int:
        whole = pricing._wanted is None
        kept.append((told(pricing, connection, is_idle), wanted(pricing), whole))
        assert pricing._rungs_for_everyone() == pricing.priced.rungs_for_everyone(pricing.pool)
        return kept[-1][0]

    monkeypatch.setattr(Pricing, "wants", both)
    # an evaluation takes 2 ms by this clock on any machine: its length decides how many purchases a batch has
    ticks = count(step=0.002)
    monkeypatch.setattr(priced_scheduler, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    with invented.invented():
        ledger = Ledger(str(tmp_path / "few.db"))
        built = invented.opened(ledger, tmp_path, 120, "priced", 1)
        invented.fill(ledger, built, 120, 60)
        decisions.measure(built, 100)
        ledger.close()
    assert [told_now for told_now, *_ in kept] == [anew for _, anew, _ in kept]
    assert 0 < sum(whole for *_, whole in kept) < len(kept), "they are not counted again each time"
    assert len({told_now for told_now, *_ in kept}) > 3
