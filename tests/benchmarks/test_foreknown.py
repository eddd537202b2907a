"""The benchmark of what learning costs: one draw of it, and that the committed result holds what the page says."""

from __future__ import annotations

import json

from benchmarks.scheduling.foreknown import ARMS, HERE, RESULT, costs
from sciagent_bench.several_tables import read_collection

FOUND = json.loads(RESULT.read_text())


def test_a_draw_costs_less_than_all_of_it_whoever_buys() -> None:
    found = costs(read_collection(HERE / "tables.yaml"), ("dipoles", 1))
    assert set(found) == set(ARMS)
    assert all(cost is not None and 0.05 < cost < 1 for cost in found.values()), "a hit costs a verification"


def test_who_knows_other_candidates_pays_less() -> None:
    assert 0.6 < FOUND["told to cold"] < 0.9
    assert all(of["told"] < 1.03 * of["cold"] for of in FOUND["tables"].values())
    page = (HERE / "README.md").read_text()
    assert f"costs {FOUND['told to cold']:.3f}".replace(" 0.", " .") in page
