"""A process beside a Celery worker that speaks with the ledger for it.

The worker forks its pool again and again. A process that forks must have no other threads: the child would inherit the
locks that these hold at that moment, and wait for them for ever. So what needs threads runs here: the worker's
presence, and its reports of slots that died.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import IO, Any

from sciagent.domain.states import JobState
from sciagent.execution.celery.deaths import Deaths
from sciagent.execution.messaging.wakeups import Wakeups
from sciagent.execution.worker.registration import Presence
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import workers
from sciagent.store.job_queue.offers import Reaped
from sciagent.store.job_queue.workers import NewWorker
from sciagent.verification.sandbox.processes import die_with

log = logging.getLogger(__name__)
END, DRAIN, RESUME = "end", "drain", "resume"
AGAIN_SECONDS = 1.0


class Companion:
    """The worker's side. drain: called with True when the worker shall take nothing new, with False when it may again;
    from a thread that holds no locks but its own."""

    def __init__(self, ledger_url: str, broker_url: str, new: NewWorker, drain: Callable[[bool], None]) -> None:
        said = {"ledger_url": ledger_url, "broker_url": broker_url, "new": asdict(new), "parent": os.getpid()}
        self._said = json.dumps(said)
        self._drain = drain
        self._process: subprocess.Popen[str] | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="companion", daemon=True)

    def start(self) -> int:
        """The number of its process."""
        self._process = self._spawn()
        self._thread.start()
        return self._process.pid

    def died(self, owner: str, queue: str) -> None:
        """A slot with this owner died with a job in hand. Never raises."""
        self._tell(json.dumps([owner, queue]))

    def close(self) -> None:
        """Returns when it has said its last word, or after ten seconds."""
        self._closing.set()
        process = self._process
        if process is not None:
            self._tell(END)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _spawn(self) -> subprocess.Popen[str]:
        """Passwords go through the pipe: the command line is for everybody to read."""
        process = subprocess.Popen(
            [sys.executable, "-m", "sciagent.execution.celery.sidecar"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._write(process, self._said)
        return process

    def _tell(self, line: str) -> None:
        if self._process is not None:
            self._write(self._process, line)

    def _write(self, process: subprocess.Popen[str], line: str) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def _serve(self) -> None:
        """Hear what it says; start another if it is killed."""
        while True:
            process = self._process
            assert process is not None and process.stdout is not None
            for line in process.stdout:
                if line.strip() in (DRAIN, RESUME):
                    self._drain(line.strip() == DRAIN)
            if self._closing.wait(AGAIN_SECONDS):
                return
            process.wait()
            self._process = self._spawn()


def main(said: dict[str, Any], orders: IO[str]) -> None:
    """The companion's side: works until it is told to end, or its worker is gone."""
    die_with(said["parent"])
    new = NewWorker(**{**said["new"], "queues": tuple(said["new"]["queues"])})
    wakeups = Wakeups(said["broker_url"])
    deaths = Deaths(said["ledger_url"], wakeups)
    presence = Presence(new, _say, partial(_wake, new, wakeups))
    stop = threading.Event()
    thread = threading.Thread(target=_present, args=(presence, said["ledger_url"], stop), name="presence", daemon=True)
    thread.start()
    for line in orders:
        if line.strip() == END:
            break
        owner, queue = json.loads(line)
        deaths.report(owner, queue)
    stop.set()
    thread.join(timeout=10)
    wakeups.close()


def _say(draining: bool) -> None:
    print(DRAIN if draining else RESUME, flush=True)  # noqa: T201


def _present(presence: Presence, ledger_url: str, stop: threading.Event) -> None:
    with contextlib.ExitStack() as closing:

        def open_ledger() -> Ledger:
            ledger = Ledger(ledger_url)
            closing.callback(ledger.close)
            return ledger

        presence.serve(open_ledger, stop)


def _wake(new: NewWorker, wakeups: Wakeups, ledger: Ledger, reaped: Sequence[Reaped]) -> None:
    """Send tokens where jobs wait and none do: a broker may have lost them."""
    freed = {one.queue for one in reaped if one.state is JobState.QUEUED}
    with ledger.read() as connection:
        depths = workers.depths(connection, [*{*new.queues, *freed}])
    for name, depth in depths.items():
        if depth and wakeups.waiting(name) == 0:
            wakeups.wake(name, min(depth, new.slots))


if __name__ == "__main__":
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)  # of the terminal, or for the whole group: the worker decides
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    main(json.loads(sys.stdin.readline()), sys.stdin)
