"""Several tables in one call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.scheduling.calibration import HERE
from sciagent.errors import SpecError, UsageError
from sciagent_bench.several_tables import compared, read_collection
from tests.bench.test_command import call, table, threads

__all__ = ["table", "threads"]


def test_the_shipped_tables_can_be_read() -> None:
    specs = read_collection(HERE / "tables.yaml")
    assert len(specs) >= 12
    for name in ("perovskites", "dipoles", "redoxmers", "critical_points"):
        case = specs[name].case(HERE)
        assert case.truth.hit.any() and len(case.names) == case.truth.scores.shape[1]


def test_a_summary_is_the_geometric_mean_of_ratios_to_the_last_scheduler() -> None:
    def cost(value: float | None) -> dict[str, object]:
        return {"cost_to": {"0.9": None if value is None else (value, None, None)}}

    tables = {
        "a": {"priced": cost(0.2), "hindsight": cost(0.1)},
        "b": {"priced": cost(0.1), "hindsight": cost(0.2)},
        "c": {"priced": cost(None), "hindsight": cost(0.2)},
    }
    found = compared(tables, "hindsight")
    assert found["priced"]["geometric_mean"] == pytest.approx(1.0)
    assert found["priced"]["worst"] == "a" and found["priced"]["missing"] == 1
    assert found["hindsight"]["geometric_mean"] == 1.0


def test_several_tables_are_drawn_changed_and_summed_up(table: Path, tmp_path: Path) -> None:
    spec = "{table: gaps.csv, id: smiles, rungs: 'cheap:1,gap:100', same: [cheap], goal: min, top: 0.1}"
    path = tmp_path / "tables.yaml"
    path.write_text(f"tables:\n  one: {spec}\n  two: {spec}\n", encoding="utf-8")
    asked = ("--tables", str(path), "--draw", "60", "--add-rung", "noise:0.02", "--drop-rung", "cheap")
    short = ("--seeds", "1", "--budgets", "0.3", "--schedulers", "priced,hindsight")
    found = json.loads(call(*asked, *short, "--json")[0])
    assert list(found["tables"]) == ["one", "two"]
    assert found["summary"]["schedulers"]["hindsight"]["geometric_mean"] == 1.0
    assert "geometric mean" in call(*asked, *short, "--only", "one")[0]
    with pytest.raises(UsageError, match='unknown table "three"'):
        call(*asked, *short, "--only", "three")
    with pytest.raises(UsageError, match="--tables goes without --table"):
        call(*asked, "--family", "flat")
    with pytest.raises(UsageError, match=r'"noise" is not noise:COST'):
        call(*asked, "--add-rung", "noise")
    path.write_text(f"tables:\n  one: {spec.replace('goal: min', 'goal: least')}\n", encoding="utf-8")
    with pytest.raises(SpecError, match="goal"):
        call(*asked)
