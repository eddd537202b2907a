"""A server ends with all that it has started, however whoever started it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from sciagent.agent.install_and_find_models import ModelError
from sciagent.agent.serving.vllm_server import VllmServer, free_port
from sciagent.errors import UsageError

# a server with a child that does not listen to SIGTERM, as it is while it loads
STUBBORN = """
import os, pathlib, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"],
    stdout=subprocess.PIPE)
child.stdout.readline()
pathlib.Path(sys.argv[1]).write_text(f"{os.getpid()} {child.pid}")
time.sleep(float(sys.argv[2]))
raise ValueError("the weights are of another model")
"""
OWNER = """
import pathlib, sys, time
from sciagent.agent.serving.vllm_server import VllmServer
server = VllmServer([sys.executable, "-c", *sys.argv[1:4]], {}, "http://127.0.0.1:9", pathlib.Path(sys.argv[4]))
time.sleep(600)
"""


def pids(path: Path) -> list[int]:
    until = time.monotonic() + 30
    while not (path.exists() and len(found := path.read_text().split()) == 2):
        assert time.monotonic() < until
        time.sleep(0.02)
    return [int(one) for one in found]


def gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def all_gone(found: list[int], seconds: float = 20) -> bool:
    until = time.monotonic() + seconds
    while not all(map(gone, found)) and time.monotonic() < until:
        time.sleep(0.05)
    return all(map(gone, found))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_who_started_it_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    there = tmp_path / "pids"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, STUBBORN, str(there), "600", str(tmp_path / "log")], env=dict(os.environ)
    )
    found = pids(there)
    assert not any(map(gone, found))
    owner.send_signal(number)
    owner.wait(10)
    assert all_gone(found)


def test_a_server_that_is_closed_takes_its_children_with_it(tmp_path: Path) -> None:
    there = tmp_path / "pids"
    with VllmServer([sys.executable, "-c", STUBBORN, str(there), "600"], {}, "http://127.0.0.1:9", tmp_path / "log"):
        found = pids(there)
    assert all_gone(found, 0.5)


def test_a_server_that_ends_by_itself_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    there = tmp_path / "pids"
    command = [sys.executable, "-c", STUBBORN, str(there), "0"]
    with (
        VllmServer(command, {}, "http://127.0.0.1:9", tmp_path / "log") as server,
        pytest.raises(ModelError, match=r"ValueError: the weights are of another model\n.*log"),
    ):
        server.wait_until_up()
    assert all_gone(pids(there), 0.5)


def test_a_port_that_is_taken_is_told() -> None:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        with pytest.raises(UsageError, match="--port"):
            free_port("127.0.0.1", one.getsockname()[1])
    assert free_port("127.0.0.1", 0) > 0
