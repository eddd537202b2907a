"""`sciagent compare` as it is typed."""

from __future__ import annotations

from pathlib import Path

from tests.support.campaigns import sciagent
from tests.support.typed import data, told


def test_compare_puts_side_by_side_only_what_may_be_compared(folder: Path) -> None:
    found = data("compare", "small", "wide")
    assert found["overlap"]["both"] == 2 and found["overlap"]["hits_of_both"] == 1
    assert [s["hits"] for s in found["status"]] == [1, 3]
    assert found["values"][0]["comparable"] and found["values"][0]["measured"][0][0]["n"] == 2
    assert found["hits_against_cost"][-1]["hits"] == [1, 3]
    assert any(line.startswith("objectives[homo_lumo_gap].window") for line in found["differences"])
    text = told("compare", "small", "wide")
    assert "the objectives differ" in text and "costs of the later campaign are too low" in text
    finer = (folder / "small.yaml").read_text().replace("campaign: small", "campaign: finer")
    (folder / "finer.yaml").write_text(finer.replace("grid: 0", "grid: 1").replace("dft: 2", "dft: 1"))
    sciagent("run", "finer.yaml", "--quiet", "--no-report", cwd=folder, expect=None)
    other = data("compare", "small", "finer")
    assert not other["values"][0]["comparable"]
    assert "these numbers are not to be compared" in told("compare", "small", "finer")
    dft = next(r for r in other["rungs"] if r["rungs"] == ["dft", "dft"])
    assert not dft["same_calculation"]
