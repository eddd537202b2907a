"""Whatever a verifier does: the right outcome and reason, the cost, and nothing left behind."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.candidates import Candidate
from sciagent.domain.outcomes import Outcome
from sciagent.errors import UsageError
from sciagent.verification.sandbox.host import HostResult, Limits, Request, Worker
from sciagent.verification.sandbox.nursery_link import nurseries

ETHANOL, *_ = ABC = tuple(
    Molecule.from_payload({"smiles": smiles, "multiplicity": 1}) for smiles in ("CCO", "CCN", "CCC", "CCF")
)
MARK = "SCIAGENT_TEST_MARK"
AMPLE = Limits(wall_seconds=20, memory_mb=300)
QUICK = Limits(wall_seconds=0.6, memory_mb=300)


def carrying(mark: str) -> set[int]:
    """Processes, this one aside, that were started with the mark in their environment."""
    wanted, found = f"{MARK}={mark}".encode(), set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.add(int(folder.name))
            except OSError:
                continue
    return found


def wait_until(true: Any, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (now := true()) and time.monotonic() < end:
        time.sleep(0.02)
    return bool(now)


@pytest.fixture(scope="module")
def mark() -> Iterator[str]:
    """Stands in the environment of every process below this one that is started meanwhile, nurseries included."""
    nurseries.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, value := uuid.uuid4().hex)
        yield value
        nurseries.close()


@pytest.fixture(scope="module")
def shared(misbehaving: Path, mark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with Worker(tmp_path_factory.mktemp("scratch"), preload=["bad.noop"]) as worker:
        yield worker
    assert not worker.folder.exists()
    nurseries.close()
    assert not carrying(mark)


@pytest.fixture
def worker(shared: Worker, mark: str) -> Iterator[Worker]:
    """The warm worker; whatever the test had it run, nothing of it may be left."""
    yield shared
    assert psutil.Process(shared.pid).children(recursive=True) == []
    assert carrying(mark) <= {shared.pid, *nurseries.pids()}
    assert not list(shared.folder.glob("job-*"))
    assert not (shared.folder / "tmp").exists()


def run(
    worker: Worker, verifier: str, *candidates: Candidate, limits: Limits = AMPLE, **settings: Any
) -> list[HostResult]:
    return worker.run(Request(verifier, settings, candidates or (ETHANOL,), limits))


def said(results: list[HostResult]) -> list[str]:
    return [r.finding.outcome + (f"/{r.finding.reason}" if r.finding.reason else "") for r in results]


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


def test_a_crash_tells_what_was_printed_last(worker: Worker) -> None:
    [result] = run(worker, "bad.segfault")
    assert result.finding.detail == "signal 11 (SIGSEGV)"
    assert "Segmentation fault" in result.finding.diagnostics["output_tail"]


def test_an_exception_is_told_by_its_last_line(worker: Worker) -> None:
    [result] = run(worker, "bad.raises")
    detail, diagnostics = result.finding.detail, result.finding.diagnostics
    assert re.fullmatch(r"__init__\.py:\d+ in one", diagnostics["frame"])
    assert detail == f"bad.raises in verify: ZeroDivisionError: division by zero ({diagnostics['frame']})"
    assert "1 / 0" in diagnostics["traceback"]


@pytest.mark.parametrize(
    ("verifier", "settings", "said_is"),
    [
        ("bad.raises", {"early": True}, r"bad\.raises in accepts: ValueError: early \(__init__\.py:\d+ in accepts\)"),
        ("bad.cost", {}, r"bad\.cost in cost: ValueError: cost core_seconds = -1 .* \(__init__\.py:\d+ in cost\)"),
        ("bad.cost", {"how": "none"}, r"bad\.cost in cost: TypeError: a NoneType, not a Cost"),
        ("bad.cost", {"how": "huge"}, r"bad\.cost in cost: ValueError: core_seconds = 1e\+300; at most 1e\+12"),
    ],
)
def test_an_exception_names_the_verifier_and_the_method(
    worker: Worker, verifier: str, settings: dict[str, Any], said_is: str
) -> None:
    [result] = run(worker, verifier, **settings)
    assert re.fullmatch(said_is, result.finding.detail)


@pytest.mark.parametrize("early", [False, True])
def test_a_poison_candidate_takes_the_blame_alone(worker: Worker, early: bool) -> None:
    results = run(worker, "bad.poison", *ABC, smiles="CCC", early=early)
    assert said(results) == ["ok", "ok", "crashed/signal", "ok"]
    assert [r.finding.candidate_key for r in results] == [c.key for c in ABC]


def test_in_a_batch_the_wall_limit_is_each_candidates_own(worker: Worker) -> None:
    results = run(worker, "bad.hang", *ABC, at="CCN", limits=Limits(1.5, 300))
    assert said(results) == ["ok", "timeout/wall_limit", "ok", "ok"]
    assert 1.4 < results[1].wall_seconds < 4
    burnt = run(worker, "bad.noop", *ABC[:3], burn=0.35, limits=Limits(wall_seconds=2))
    assert said(burnt) == ["ok"] * 3
    assert all(0.3 < r.cost["core_seconds"] < 0.6 for r in burnt)


def test_even_the_quickest_of_a_batch_has_a_cost(worker: Worker) -> None:
    assert all(0 < r.cost["core_seconds"] < 0.5 for r in run(worker, "bad.noop", *ABC))


def test_a_batch_of_failures_gives_each_candidate_its_own(worker: Worker) -> None:
    assert said(run(worker, "bad.raises", *ABC)) == ["crashed/exception"] * 4
    assert said(run(worker, "bad.import", *ABC)) == ["bad_environment/import_failed"] * 4
    assert said(run(worker, "bad.rubbish", *ABC, extra=True)) == ["ok", "ok", "ok", "crashed/bad_result"]


def test_a_refusal_inside_a_batch_keeps_the_order(worker: Worker) -> None:
    results = run(worker, "bad.noop", *ABC, refuse="CCN")
    assert said(results) == ["ok", "refused/too_large", "ok", "ok"]
    assert results[1].cost.get("core_seconds", 0.0) < 0.05


def test_a_candidate_of_another_key_is_not_verified(worker: Worker) -> None:
    class Forged:
        kind, key = "molecule", "0" * 64

        def payload(self) -> dict[str, Any]:
            return ETHANOL.payload()

    [result] = run(worker, "bad.noop", Forged())  # type: ignore[arg-type]
    assert said([result]) == ["bad_environment/bad_result"]


def test_an_artifact_outlives_the_scratch_folder(worker: Worker) -> None:
    [result] = run(worker, "bad.files")
    [file] = result.files
    assert file.path.read_text() == "CCO"
    assert (file.name, file.size, file.media_type) == ("out.txt", 3, "text/plain")
    assert file.sha256 == hashlib.sha256(b"CCO").hexdigest()
    assert file.path.is_relative_to(worker.folder / "spool")


@pytest.mark.parametrize(
    "settings",
    [
        {"path": "/etc/hostname"},
        {"path": "../output"},
        {"link_to": "/etc/passwd"},
        {"path": "pipe"},
        {"path": "checkpoint/../../../zygote.log"},
        {"name": "../../evil"},
        {"path": "."},
        {"path": "never/../written"},
        {"path": "loop"},
        {"path": "/dev/zero"},
        {"link_to": "/dev/zero"},
    ],
)
def test_no_artifact_comes_from_outside_the_scratch_folder(worker: Worker, settings: dict[str, Any]) -> None:
    assert said(run(worker, "bad.files", **settings)) == ["crashed/bad_result"]
    assert not list((worker.folder / "spool").rglob("evil"))


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


def test_the_first_of_a_group_has_the_wall_time_of_all(worker: Worker) -> None:
    results = worker.run(Request("bad.together", {"sleep": 1.5}, ABC, Limits(1.0, 300), together=True))
    assert said(results) == ["ok"] * 4


def test_threads_reach_the_engine(worker: Worker) -> None:
    [result] = run(worker, "bad.noop", limits=Limits(5, 300, threads=2))
    assert result.finding.diagnostics["threads"] == "2"


def test_the_memory_of_a_job_with_a_gpu_is_watched_though_its_addresses_are_free(worker: Worker) -> None:
    [result] = worker.run(Request("bad.memory", {}, (ETHANOL,), AMPLE, cuda="0"))
    assert said([result]) == ["out_of_memory/memory_limit"]
    assert "MB" in result.finding.detail, "seen by who watches, not met as a MemoryError"


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


def test_a_killed_zygote_loses_what_ran_and_is_replaced(misbehaving: Path, mark: str, tmp_path: Path) -> None:
    with Worker(tmp_path) as worker:
        assert said(run(worker, "bad.noop")) == ["ok"]
        first = worker.pid
        before = carrying(mark)
        killer = threading.Timer(0.7, os.kill, (first, signal.SIGKILL))
        killer.start()
        begun = time.monotonic()
        results = worker.run(Request("bad.forks", {"then_hang": True}, ABC[:2], Limits(100)))
        assert time.monotonic() - begun < 6
        assert said(results) == ["lost/worker_died"] * 2
        assert wait_until(lambda: carrying(mark) <= before - {first}, 3)
        assert not list(worker.folder.glob("job-*"))
        assert said(run(worker, "bad.noop")) == ["ok"]
        assert worker.pid != first
        begun = time.monotonic()
        [stopped] = run(worker, "bad.silent", how="stop_parent")
        assert stopped.finding.detail == "the zygote died: a signal stopped it" and time.monotonic() - begun < 5
        assert said(run(worker, "bad.noop")) == ["ok"]
        os.kill(worker.pid, signal.SIGKILL)
        assert wait_until(lambda: not psutil.pid_exists(worker.pid) or _is_zombie(worker.pid), 3)
        assert said(run(worker, "bad.noop")) == ["ok"]


def test_a_worker_that_was_asked_nothing_is_not_waited_for(mark: str, tmp_path: Path) -> None:
    with Worker(tmp_path, preload=["pyscf.scf"]) as worker:
        begun = time.monotonic()
    assert time.monotonic() - begun < 0.3, "it was closed while the nursery imported"
    assert not worker.folder.exists()


def _is_zombie(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


DRIVER = """
import sys
from pathlib import Path
from sciagent.chemistry.molecule import Molecule
from sciagent.verification.sandbox.host import Limits, Request, Worker

worker = Worker(Path(sys.argv[1]))
print("up", flush=True)
methane = Molecule.from_payload({"smiles": "C", "multiplicity": 1})
worker.run(Request(sys.argv[2], eval(sys.argv[3]), (methane,), Limits(500)))
"""


@pytest.mark.parametrize(("verifier", "settings"), [("bad.hang", {}), ("bad.forks", {"then_hang": True})])
def test_a_killed_driver_leaves_nothing(misbehaving: Path, tmp_path: Path, verifier: str, settings: Any) -> None:
    mark, scratch = uuid.uuid4().hex, tmp_path / "scratch"
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(scratch), verifier, repr(settings)],
        env=os.environ | {MARK: mark},
        start_new_session=True,
        stdout=subprocess.PIPE,
    )
    assert driver.stdout and driver.stdout.readline() == b"up\n"
    wanted = (
        4 if verifier == "bad.hang" else 4 + 2 * 3
    )  # driver, nursery, zygote, child; each daemon with a child of its own
    assert wait_until(lambda: len(carrying(mark)) >= wanted, 20)
    assert list(scratch.iterdir())
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    assert wait_until(lambda: not carrying(mark) and not list(scratch.iterdir()), 3), carrying(mark)


def test_a_driver_killed_while_its_worker_imports_leaves_nothing(tmp_path: Path) -> None:
    mark, scratch = uuid.uuid4().hex, tmp_path / "scratch"
    code = DRIVER.replace("Worker(Path(sys.argv[1]))", "Worker(Path(sys.argv[1]), preload=['pyscf.scf'])")
    driver = subprocess.Popen(
        [sys.executable, "-c", code, str(scratch), "pyscf.scf", "{}"],
        env=os.environ | {MARK: mark},
        start_new_session=True,
        stdout=subprocess.PIPE,
    )
    assert driver.stdout and driver.stdout.readline() == b"up\n"
    driver.kill()
    driver.wait()
    driver.stdout.close()
    assert wait_until(lambda: not carrying(mark) and not list(scratch.iterdir()), 3), carrying(mark)


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
