"""A nursery imports once, forks the zygotes of many workers, and leaves nothing of one that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from sciagent.chemistry.molecule import Molecule
from sciagent.verification.sandbox.host import HostResult, Limits, Request, Worker
from sciagent.verification.sandbox.nursery_link import nurseries

METHANE = Molecule.from_payload({"smiles": "C", "multiplicity": 1})


@pytest.fixture(autouse=True)
def fresh(misbehaving: Path) -> Iterator[None]:
    """No nursery of another test."""
    nurseries.close()
    yield
    nurseries.close()


def verify(worker: Worker, verifier: str = "bad.noop", **settings: object) -> HostResult:
    return worker.run(Request(verifier, settings, (METHANE,), Limits(20, 300)))[0]


def within(seconds: float, true: Callable[[], object]) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(true())


def test_workers_of_the_same_or_fewer_verifiers_share_a_nursery_that_imports_once(tmp_path: Path) -> None:
    with Worker(tmp_path, preload=["bad.noop", "bad.forks"]) as one, Worker(tmp_path, preload=["bad.noop"]) as other:
        warmed = {verify(worker).finding.diagnostics["warmed_in"] for worker in (one, other)}
        assert warmed == set(nurseries.pids()) and len(warmed) == 1
        assert one.pid != other.pid
        with Worker(tmp_path, preload=["bad.files"]) as third:
            assert verify(third).finding.outcome == "ok"
        assert len(nurseries.pids()) == 2


def test_a_zygote_has_the_environment_and_the_folder_of_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Worker(tmp_path, preload=["bad.noop"]) as before:
        verify(before)
        monkeypatch.setenv("SCIAGENT_TEST_VARIABLE", "late")
        monkeypatch.chdir(tmp_path)
        with Worker(tmp_path, preload=["bad.noop"]) as worker:
            verify(worker)
            assert Path(f"/proc/{worker.pid}/cwd").readlink() == tmp_path
            assert len(nurseries.pids()) == 1
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")
        with Worker(tmp_path, preload=["bad.noop"]):
            assert len(nurseries.pids()) == 2, "what can be imported has changed"


def test_a_killed_nursery_takes_its_zygotes_along_and_is_replaced(tmp_path: Path) -> None:
    with Worker(tmp_path, preload=["bad.noop"]) as worker, Worker(tmp_path, preload=["bad.noop"]) as other:
        zygotes = [psutil.Process(one.pid) for one in (worker, other) if verify(one)]
        [first] = nurseries.pids()
        os.kill(first, signal.SIGKILL)
        assert within(3, lambda: not any(one.is_running() for one in zygotes))
        assert verify(worker).finding.outcome == verify(other).finding.outcome == "ok"
        assert len(nurseries.pids()) == 1 and nurseries.pids() != [first]


def test_what_a_killed_zygote_had_started_is_killed_and_the_other_workers_go_on(tmp_path: Path) -> None:
    with Worker(tmp_path, preload=["bad.noop"]) as worker, Worker(tmp_path, preload=["bad.noop"]) as other:
        verify(other)
        zygote = psutil.Process(worker.pid)
        killed = list[int]()

        def kill() -> None:
            within(10, lambda: len(zygote.children(recursive=True)) >= 7)
            killed.extend(one.pid for one in zygote.children(recursive=True))
            zygote.kill()

        thread = threading.Thread(target=kill)
        thread.start()
        result = verify(worker, "bad.forks", then_hang=True)
        thread.join()
        assert result.finding.outcome == "lost"
        assert len(killed) >= 7 and not any(map(psutil.pid_exists, killed))
        assert verify(other).finding.diagnostics["warmed_in"] == nurseries.pids()[0]


def test_a_nursery_that_does_not_answer_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sciagent.verification.sandbox.nursery_link.BURY_SECONDS", 0.3)
    with Worker(tmp_path, preload=["bad.noop"]) as worker:
        verify(worker)
        [first] = nurseries.pids()
        os.kill(first, signal.SIGSTOP)
        zygote = psutil.Process(worker.pid)
        zygote.kill()
        assert within(3, lambda: zygote.status() == psutil.STATUS_ZOMBIE)
        assert verify(worker).finding.outcome == "ok"
        assert nurseries.pids() != [first] and not psutil.pid_exists(first)


FORKED = """
import os, sys
from pathlib import Path
from sciagent.chemistry.molecule import Molecule
from sciagent.verification.sandbox.host import Request, Worker
from sciagent.verification.sandbox.nursery_link import nurseries

nurseries.start(["bad.noop"])
if not (child := os.fork()):
    with Worker(Path(sys.argv[1]), preload=["bad.noop"]) as worker:
        methane = Molecule.from_payload({"smiles": "C", "multiplicity": 1})
        [result] = worker.run(Request("bad.noop", {}, (methane,)))
        print(result.finding.diagnostics["warmed_in"], flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(*nurseries.pids())
"""


def test_a_fork_of_a_process_shares_its_nurseries_and_they_end_with_it(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FORKED, str(tmp_path)], capture_output=True, text=True, check=True)
    asked, started = map(int, done.stdout.split())
    assert asked == started
    assert within(3, lambda: not psutil.pid_exists(started))
