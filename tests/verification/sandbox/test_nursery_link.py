"""A nursery that is killed, stopped or forked is replaced or shared by its driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sciagent.verification.sandbox.host import Worker
from sciagent.verification.sandbox.nursery_link import nurseries
from tests.verification.sandbox.nursing import fresh, verify, within

__all__ = ["fresh"]


def test_a_killed_nursery_takes_its_zygotes_along_and_is_replaced(tmp_path: Path) -> None:
    with Worker(tmp_path, preload=["bad.noop"]) as worker, Worker(tmp_path, preload=["bad.noop"]) as other:
        zygotes = [psutil.Process(one.pid) for one in (worker, other) if verify(one)]
        [first] = nurseries.pids()
        os.kill(first, signal.SIGKILL)
        assert within(3, lambda: not any(one.is_running() for one in zygotes))
        assert verify(worker).finding.outcome == verify(other).finding.outcome == "ok"
        assert len(nurseries.pids()) == 1 and nurseries.pids() != [first]


def test_a_nursery_that_does_not_answer_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sciagent.verification.sandbox.link.BURY_SECONDS", 0.3)
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
