"""The benchmark of the fast tier runs, and both sides say the same of every text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.fast_tier.run import COMPARED, TARGETS, main

STRUCTURES = (
    "CC(=O)Oc1ccccc1C(=O)O", "CC(=O)Nc1ccc(O)cc1", "CN1CCC[C@H]1c1cccnc1", "C[NH+](C)C", "C1CC2=CC1CC2", "[2H]C",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C", "O=S(=O)(c1ccccc1)N1CCOCC1", "CCN(CC)CCOC(=O)c1ccc(N)cc1", "C[Se]C", "C[N+](=O)[O-]",
    "CC(C)Cc1ccc(C(C)C(=O)O)cc1", "N[C@@H](C)C(=O)O", "c1ccc2ccccc2c1", "ClCCl", "CCOC(=O)C=C", "C[S+](C)[O-]",
    "O=C1CCCN1c1ccccc1", "FC(F)(F)c1ccccc1",
)  # fmt: skip


@pytest.mark.long
def test_a_small_run_agrees_and_reports_every_rate(tmp_path: Path) -> None:
    smiles, out = tmp_path / "some.csv", tmp_path / "result.json"
    smiles.write_text("smiles\n" + "\n".join(STRUCTURES) + "\n")
    assert main(["--smiles", str(smiles), "-n", str(len(STRUCTURES)), "--rounds", "1", "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    assert (report["texts"], report["broken"]) == (20, 1)
    assert report["one_process"]["different_answers"] == 0
    assert set(report["met_per_core"]) == set(TARGETS)
    for rates in (*report["one_process"]["rates"].values(), *report["two_processes"].values()):
        assert rates["per_second"] > 0
        assert rates["cpu_seconds"] >= 0


def test_the_committed_result_is_of_this_benchmark() -> None:
    result = json.loads((Path(__file__).parents[2] / "benchmarks" / "fast_tier" / "result.json").read_text())
    assert result["one_process"]["different_answers"] == 0
    assert set(result["targets"]) == set(TARGETS)
    assert len(COMPARED) == 15
