"""Whatever a verifier does: the right outcome and reason, the cost, and nothing left behind."""

from __future__ import annotations

import hashlib
import os
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.errors import UsageError
from sciagent.verification.sandbox.host import HostResult, Limits, Request, Worker
from sciagent.verification.sandbox.nursery_pool_and_links import nurseries
from tests.verification.sandbox.working import ABC, AMPLE, ETHANOL, run, said

QUICK = Limits(wall_seconds=0.6, memory_mb=300)


def test_a_verifier_that_behaves_is_ok_with_its_cost_and_versions(worker: Worker) -> None:
    [result] = run(worker, "bad.noop", burn=0.2)
    assert said([result]) == ["ok"]
    assert result.finding.candidate_key == ETHANOL.key
    assert [(m.property, m.quantity.value) for m in result.finding.measured] == [("logp", 1.0)]
    assert result.finding.diagnostics == {"threads": "1", "cwd": ["checkpoint"], "warmed_in": nurseries.pids()[-1]}
    assert 0.19 < result.cost["core_seconds"] < 0.5
    assert result.wall_seconds > 0.19
    assert result.versions["misbehaving-verifiers"] == "0.4.0"
    assert {"python", "sciagent", "rdkit", "numpy"} <= set(result.versions)
    assert "not-installed-engine" not in result.versions


@pytest.mark.parametrize(
    ("verifier", "settings", "expected"),
    [
        ("bad.hang", {}, "timeout/wall_limit"),
        ("bad.hang", {"early": True, "at": "CCO"}, "timeout/wall_limit"),
        ("bad.memory", {}, "out_of_memory/memory_limit"),
        ("bad.memory", {"how": "children"}, "out_of_memory/memory_limit"),
        ("bad.memory", {"how": "abort"}, "out_of_memory/memory_limit"),
        ("bad.segfault", {}, "crashed/signal"),
        ("bad.silent", {}, "crashed/no_result"),
        ("bad.silent", {"how": "sys_exit"}, "crashed/no_result"),
        ("bad.silent", {"how": "status"}, "crashed/exception"),
        ("bad.silent", {"how": "empty"}, "crashed/bad_result"),
        ("bad.rubbish", {}, "ok"),
        ("bad.rubbish", {"pipes": True}, "crashed/bad_result"),
        ("bad.rubbish", {"forged": "junk"}, "crashed/bad_result"),
        ("bad.rubbish", {"forged": "utf-16-le"}, "crashed/bad_result"),
        ("bad.rubbish", {"flood": 3_000_000}, "crashed/bad_result"),
        ("bad.rubbish", {"flood": 100_000}, "crashed/bad_result"),
        ("bad.rubbish", {"extra": True}, "crashed/bad_result"),
        ("bad.rubbish", {"nothing_like": True}, "crashed/bad_result"),
        ("bad.rubbish", {"undeclared": True}, "crashed/bad_result"),
        ("bad.forks", {}, "ok"),
        ("bad.forks", {"then_hang": True}, "timeout/wall_limit"),
        ("bad.notconverged", {}, "not_converged/scf_not_converged"),
        ("bad.notconverged", {"reason": "bad_mood"}, "crashed/bad_result"),
        ("bad.raises", {}, "crashed/exception"),
        ("bad.raises", {"early": True}, "crashed/exception"),
        ("bad.raises", {"what": "ImportError"}, "bad_environment/import_failed"),
        ("bad.raises", {"what": "MemoryError"}, "out_of_memory/memory_limit"),
        ("bad.raises", {"no_such_setting": 1}, "crashed/exception"),
        ("bad.cost", {}, "crashed/exception"),
        ("bad.cost", {"how": "nan"}, "crashed/exception"),
        ("bad.cost", {"how": "none"}, "crashed/exception"),
        ("bad.cost", {"how": "huge"}, "crashed/exception"),
        ("bad.cost", {"how": "exit"}, "crashed/no_result"),
        ("bad.import", {}, "bad_environment/import_failed"),
        ("bad.unheard-of", {}, "bad_environment/import_failed"),
        ("bad.nan", {"what": "nan"}, "crashed/bad_result"),
        ("bad.nan", {"what": "inf"}, "crashed/bad_result"),
        ("bad.nan", {"what": "unit"}, "crashed/bad_result"),
        ("bad.nan", {"what": "property"}, "crashed/bad_result"),
        ("bad.nan", {"what": "reason"}, "crashed/bad_result"),
        ("bad.nan", {"what": "diagnostics"}, "crashed/bad_result"),
        ("bad.wrongkey", {}, "crashed/bad_result"),
        ("bad.noop", {"refuse": "CCO"}, "refused/too_large"),
    ],
)
def test_every_misbehaviour_has_its_outcome_and_reason(
    worker: Worker, verifier: str, settings: dict[str, Any], expected: str
) -> None:
    results = run(worker, verifier, limits=QUICK if "wall" in expected else AMPLE, **settings)
    assert said(results) == [expected]
    assert results[0].finding.candidate_key == ETHANOL.key
    assert results[0].finding.outcome is Outcome.OK or results[0].finding.detail


@pytest.mark.parametrize("early", [False, True])
def test_a_poison_candidate_takes_the_blame_alone(worker: Worker, early: bool) -> None:
    results = run(worker, "bad.poison", *ABC, smiles="CCC", early=early)
    assert said(results) == ["ok", "ok", "crashed/signal", "ok"]
    assert [r.finding.candidate_key for r in results] == [c.key for c in ABC]


def test_even_the_quickest_of_a_batch_has_a_cost(worker: Worker) -> None:
    assert all(0 < r.cost["core_seconds"] < 0.5 for r in run(worker, "bad.noop", *ABC))


def test_a_batch_of_failures_gives_each_candidate_its_own(worker: Worker) -> None:
    assert said(run(worker, "bad.raises", *ABC)) == ["crashed/exception"] * 4
    assert said(run(worker, "bad.import", *ABC)) == ["bad_environment/import_failed"] * 4
    assert said(run(worker, "bad.rubbish", *ABC, extra=True)) == ["ok", "ok", "ok", "crashed/bad_result"]


def test_an_artifact_outlives_the_scratch_folder(worker: Worker) -> None:
    [result] = run(worker, "bad.files")
    [file] = result.files
    assert file.path.read_text() == "CCO"
    assert (file.name, file.size, file.media_type) == ("out.txt", 3, "text/plain")
    assert file.sha256 == hashlib.sha256(b"CCO").hexdigest()
    assert file.path.is_relative_to(worker.folder / "spool")


def test_a_checkpoint_folder_outlives_the_attempt(worker: Worker, tmp_path: Path) -> None:
    request = Request("bad.noop", {}, (ETHANOL,), AMPLE, checkpoints=(tmp_path / "kept",))
    assert worker.run(request)[0].finding.diagnostics["cwd"] == []
    assert (tmp_path / "kept").is_dir()


def test_candidates_together_share_cost_and_time_by_weight(worker: Worker) -> None:
    results = worker.run(Request("bad.together", {"seconds": 0.2}, ABC, AMPLE, together=True))
    assert {r.finding.diagnostics["batch"] for r in results} == {4}
    costs, walls = [r.cost["core_seconds"] for r in results], [r.wall_seconds for r in results]
    assert [cost / costs[0] for cost in costs] == pytest.approx([1, 2, 3, 4])
    assert [wall / walls[0] for wall in walls] == pytest.approx([1, 2, 3, 4]) and sum(walls) > 0.2


@pytest.mark.parametrize("how", ["raise", "exit", "memory", "sleep", "zygote"])
def test_a_group_that_fails_is_halved_until_one_candidate_is_to_blame(worker: Worker, how: str) -> None:
    settings = {"poison": "CCN", "how": how}
    results = worker.run(Request("bad.together", settings, ABC, Limits(1.0, 300), together=True))
    blamed = {"memory": "out_of_memory", "sleep": "timeout", "zygote": "lost"}.get(how, "crashed")
    assert [str(r.finding.outcome) for r in results] == ["ok", blamed, "ok", "ok"]
    assert [r.finding.diagnostics.get("batch") for r in results] == [1, None, 2, 2]


def test_a_failure_is_charged_to_the_candidate_that_causes_it(worker: Worker, tmp_path: Path) -> None:
    settings = {"poison": "CCC", "how": "raise", "burns": 0.4}
    folders = tuple(tmp_path / candidate.text for candidate in ABC)
    request = Request("bad.together", settings, ABC, AMPLE, checkpoints=folders, together=True)
    results = worker.run(request)
    costs = {r.finding.candidate_key: r.cost["core_seconds"] for r in results}
    blamed = ABC[2].key
    assert [r.finding.candidate_key for r in results if r.finding.outcome != "ok"] == [blamed]
    assert costs[blamed] > 3 * 0.4 and max(costs[c.key] for c in ABC if c.key != blamed) < 0.4  # four, two, one
    used = {r.finding.diagnostics["checkpoint"] for r in results if r.finding.outcome == "ok"}
    assert used == {"CCO", "CCF"}, "the first of each group that ran well"


def test_a_process_with_another_spglib_takes_crystals_as_they_are(worker: Worker) -> None:
    salt = subject_of("crystal").read("rocksalt: Na Cl")
    (result,) = worker.run(Request("bad.spglib", {}, (salt,), Limits(60, 2000)))
    assert result.finding.outcome == "ok", result.finding
    assert result.finding.candidate_key == salt.key
    seen = result.finding.diagnostics
    assert seen["identity"] == salt.identity and seen["computed_here"] != salt.identity


PARALLEL = Limits(wall_seconds=20, memory_mb=2000, threads=2)


@pytest.mark.usefixtures("openmpi")
def test_the_cpu_time_of_all_mpi_processes_is_counted(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "1")
    (result,) = run(worker, "bad.parallel", limits=PARALLEL, ranks=3, seconds=0.5)
    assert result.finding.outcome == "ok", result.finding
    cores = sorted(os.sched_getaffinity(0))
    seen = {"threads": "1", "cores": cores, "foreign": []}
    assert result.finding.diagnostics["seen"] == [seen] * 3
    assert result.cost["core_seconds"] > 1.5
    assert {"json", "json/python", "openmpi", "sciagent", "python"} <= set(result.versions)


@pytest.mark.usefixtures("openmpi")
def test_no_mpi_process_outlives_its_job(worker: Worker) -> None:
    (result,) = run(worker, "bad.parallel", limits=Limits(4.0, 2000), ranks=2, hold=True)
    assert said([result]) == ["timeout/wall_limit"]  # that no process is left is checked after each test


@pytest.mark.parametrize(("verifier", "settings"), [("bad.hang", {}), ("bad.forks", {"then_hang": True})])
def test_cancel_ends_a_run_within_seconds(worker: Worker, verifier: str, settings: dict[str, Any]) -> None:
    got: list[HostResult] = []
    request = Request(verifier, settings, ABC[:2], Limits(100))
    thread = threading.Thread(target=lambda: got.extend(worker.run(request)))
    thread.start()
    time.sleep(0.4)
    begun = time.monotonic()
    worker.cancel()
    thread.join(10)
    assert time.monotonic() - begun < 3
    assert said(got) == ["lost/worker_died"] * 2
    assert got[0].finding.detail == "cancelled"
    assert said(run(worker, "bad.noop")) == ["ok"]


def test_candidates_together_share_the_time_of_a_call_that_is_cancelled(worker: Worker) -> None:
    got: list[HostResult] = []
    request = Request("bad.together", {"sleep": 100.0}, ABC, Limits(100), together=True)
    thread = threading.Thread(target=lambda: got.extend(worker.run(request)))
    thread.start()
    time.sleep(0.4)
    worker.cancel()
    thread.join(10)
    walls = [result.wall_seconds for result in got]
    assert said(got) == ["lost/worker_died"] * 4 and 0.2 < sum(walls) < 3
    assert walls == pytest.approx([walls[0]] * 4)


def test_cancel_may_overtake_the_job_it_means(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    send, zygote = worker._link.send, worker.pid

    def overtaken(message: dict[str, Any], patience: float = -1) -> bool:
        if "cancel" not in message:
            worker.cancel()
        return send(message, patience)

    monkeypatch.setattr(worker._link, "send", overtaken)
    assert said(run(worker, "bad.hang", *ABC)) == ["lost/worker_died"] * 4
    monkeypatch.undo()
    assert worker.pid == zygote
    assert said(run(worker, "bad.noop")) == ["ok"]


def test_cancel_without_a_run_changes_nothing(worker: Worker) -> None:
    worker.cancel()
    assert said(run(worker, "bad.noop")) == ["ok"]


def test_a_worker_outside_linux_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UsageError, match="Linux only"):
        Worker(tmp_path)


def test_the_latency_of_doing_nothing_is_told(worker: Worker, record_property: Any) -> None:
    run(worker, "bad.noop")
    times: list[float] = []
    for _ in range(30):
        begun = time.perf_counter()
        run(worker, "bad.noop")
        times.append(time.perf_counter() - begun)
    record_property("noop_median_ms", round(1e3 * statistics.median(times), 2))
    print(f"\na job that does nothing: {1e3 * statistics.median(times):.1f} ms median of {len(times)}")
