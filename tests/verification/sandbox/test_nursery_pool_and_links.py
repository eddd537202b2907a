"""The driver notices how a zygote or a nursery ends, gives up a silent one, and shares or replaces nurseries."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sciagent.verification.sandbox.host import Worker
from sciagent.verification.sandbox.nursery_pool_and_links import ZygoteDiedError, ZygoteLink, nurseries
from tests.verification.sandbox.nursing import fresh, verify, within

__all__ = ["fresh"]


@pytest.fixture
def link(misbehaving: Path, tmp_path: Path) -> Iterator[ZygoteLink]:
    link = ZygoteLink(tmp_path / "worker", ["bad.noop"])
    yield link
    link.close()
    assert not psutil.pid_exists(link.pid)


def test_a_killed_zygote_is_reported_with_its_status(link: ZygoteLink) -> None:
    os.kill(link.pid, signal.SIGKILL)
    with pytest.raises(ZygoteDiedError, match="SIGKILL"):
        link.receive(time.monotonic() + 20, threading.Event(), 1.0)
    assert not link.alive


def test_a_silent_zygote_is_given_up_at_the_deadline_and_sooner_in_a_hurry(link: ZygoteLink) -> None:
    hurry = threading.Event()
    with pytest.raises(ZygoteDiedError, match="it fell silent"):
        link.receive(time.monotonic() + 0.1, hurry, 1.0)
    hurry.set()
    begun = time.monotonic()
    with pytest.raises(ZygoteDiedError, match="it fell silent"):
        link.receive(begun + 60, hurry, 0.1)
    assert time.monotonic() - begun < 10 and link.alive


def test_a_killed_nursery_takes_its_zygotes_along_and_is_replaced(tmp_path: Path) -> None:
    with Worker(tmp_path, preload=["bad.noop"]) as worker, Worker(tmp_path, preload=["bad.noop"]) as other:
        zygotes = [psutil.Process(one.pid) for one in (worker, other) if verify(one)]
        [first] = nurseries.pids()
        os.kill(first, signal.SIGKILL)
        assert within(3, lambda: not any(one.is_running() for one in zygotes))
        assert verify(worker).finding.outcome == verify(other).finding.outcome == "ok"
        assert len(nurseries.pids()) == 1 and nurseries.pids() != [first]


def test_a_nursery_that_does_not_answer_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sciagent.verification.sandbox.nursery_pool_and_links.BURY_SECONDS", 0.3)
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
from sciagent.verification.sandbox.nursery_pool_and_links import nurseries

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
