"""What `sciagent explain` says beside the rungs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.typed import data, told


def test_explain_shows_values_from_files_and_so_does_best(folder: Path) -> None:
    line = "homo_lumo_gap = 9.1 ± 0.2 eV  [experiment]"
    assert f"{line}, from lab.csv by " in told("explain", "CO", "-c", "small")
    assert f"CO: {line} from lab.csv" in told("best", "small")
    [value] = next(r for r in data("best", "small") if r["smiles"] == "CO")["imported"]
    assert (value["value"], value["uncertainty"], value["unit"], value["level"]) == (9.1, 0.2, "eV", "experiment")
    assert "utility" in told("best", "small", width=80)


def test_the_json_of_explain_is_whole(folder: Path) -> None:
    found = data("explain", "O")
    assert [c["campaign"] for c in found["campaigns"]] == ["small", "wide"]
    small = found["campaigns"][0]
    assert {r["rung"]: r["verdict"] for r in small["rungs"]}["dft"] == "pass"
    dft = next(r for r in small["rungs"] if r["rung"] == "dft")
    assert dft["evidence"]["versions"]["pyscf"] and dft["settings"]["functional"] == "PBE"
    assert dft["decisions"][0]["action"] == "run" and dft["attempts"][0]["outcome"] == "ok"
    assert small["core_seconds"] == pytest.approx(sum(r["core_seconds"] for r in small["rungs"]), abs=2e-3)
    assert all({"value", "unit", "uncertainty", "level"} <= set(v) for v in dft["evidence"]["values"])
