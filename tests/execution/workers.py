"""Celery workers as processes of the tests."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.support.celery_worker import Folder

ROOT = Path(__file__).parents[2]


def until(true: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def done(jobs: Folder, n: int) -> None:
    until(lambda: len(jobs.names("done")) >= n, f"{n} jobs are done; the worker said {log(jobs)}", 40)
    assert len(jobs.names("done")) == n


def log(jobs: Folder) -> str:
    return (jobs.root / "log").read_text()


@contextlib.contextmanager
def worker(folder: Path, broker_url: str, **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A running worker; at the end it is gone, and so is all it started. `log` in the folder is what it said."""
    said = {
        "ledger_url": str(folder / "ledger.db"),
        "broker_url": broker_url,
        "name": "w1",
        "queues": ["simulation"],
        "slots": 1,
        "folder": str(folder),
        **settings,
    }
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.celery_worker", json.dumps(said)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        below = []
        with contextlib.suppress(psutil.NoSuchProcess):
            below = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs(below, 10)
        left = [one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
        assert not left, f"still running: {left}"
