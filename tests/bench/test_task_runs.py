"""Runs are campaigns; the area under their curve is that of PMO's own code."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent_bench.pmo import task_runs
from sciagent_bench.pmo.molscore_files import MolScoreFiles
from sciagent_bench.pmo.task_runs import PROPOSERS, TaskRun, TaskRuns, figures, flat, seed_sums, top_auc, top_mean

UNPACKED = Path(__file__).parent / "molscore"
# small molecules, and the reference of a task (camphor), which no run begins with
SAMPLE = ["CC1(C)C2CCC1(C)C(=O)C2", *("C" * n + "O" for n in range(1, 80)), *("C" * n + "N" for n in range(1, 80))]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskRuns:
    monkeypatch.setattr(MolScoreFiles, "sample", lambda self, n, seed: SAMPLE[seed % 2 :])
    monkeypatch.setattr(task_runs, "START", 20)
    return TaskRuns(tmp_path / "pmo", UNPACKED, "tdc", 40)


def test_the_area_is_taken_by_trapezia_and_goes_on_with_the_last_value() -> None:
    scores = [0.0] * 90 + [1.0] * 10 + [0.5] * 100
    # 0 to 1 over the first hundred, 1 over the second, then 1 to the end
    assert top_auc(scores, 200) == pytest.approx((50 + 100) / 200)
    assert top_auc(scores, 1000) == pytest.approx((50 + 100 + 800) / 1000)
    assert top_auc(scores, 100) == pytest.approx(0.5)
    assert top_auc([1.0] * 150, 200) == pytest.approx((50 + 50 + 50) / 200)
    assert top_auc([], 100) == 0.0
    assert top_mean([1.0, 0.0]) == 0.5


def test_the_area_is_what_the_code_of_pmo_gives() -> None:
    # top_auc of github.com/wenhao-gao/mol_opt, called with these 1,234 scores, top 10, finish, every 100 calls
    scores = [((37 * i) % 1009) / 1009 * min(1.0, i / 900) for i in range(1234)]
    assert top_auc(scores, 2000) == pytest.approx(0.7332754432331241, abs=1e-12)


def test_a_run_is_a_campaign_that_is_not_run_again(runs: TaskRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    first = runs.run("C7H8N2O2", "evolve", PROPOSERS["evolve"], 1)
    assert len(first.scores) == 40
    assert first.best > max(first.scores[:20])
    monkeypatch.setattr("sciagent.api.campaign.Campaign.run", lambda *_, **__: pytest.fail("it has ended"))
    assert runs.run("C7H8N2O2", "evolve", PROPOSERS["evolve"], 1) == first


def test_more_calls_go_on_with_the_same_campaign(runs: TaskRuns, tmp_path: Path) -> None:
    law = {"kind": "law", "batch": 10, "pool": 20}
    few = runs.run("QED", "small", law, 2)
    more = TaskRuns(tmp_path / "pmo", UNPACKED, "tdc", 50).run("QED", "small", law, 2)
    assert len(more.scores) == 50
    assert more.scores[:40] == few.scores


def test_random_screens_the_lot_without_the_reference_molecules(runs: TaskRuns, tmp_path: Path) -> None:
    run = runs.run("Median_molecules_1", "random", PROPOSERS["random"], 2)
    lot = (tmp_path / "pmo" / "lot-2.smi").read_text(encoding="utf-8").split()
    assert lot == SAMPLE[1:]
    assert len(run.scores) == 40
    assert flat("C[C@]12CC[C@@H](CC1=O)C2(C)C") == flat(SAMPLE[0])


def run_of(task: str, proposer: str, seed: int, score: float) -> TaskRun:
    return TaskRun(task, proposer, seed, f"{task}-{proposer}-{seed}", 100, (score,) * 100)


def test_figures_are_means_over_seeds_and_sums_over_tasks() -> None:
    made = [run_of(task, "law", seed, score) for task, score in (("A", 0.2), ("B", 0.4)) for seed in (1, 2)]
    made.append(run_of("B", "evolve", 1, 1.0))
    found = figures(made)
    assert [each.task for each in found["law"]] == ["A", "B"]
    assert found["law"][0].auc == pytest.approx(0.1)
    assert found["law"][0].auc_spread == pytest.approx(0.0)
    assert found["evolve"][0].auc_spread is None
    assert seed_sums(found["law"]) == pytest.approx([0.3, 0.3])
