"""The driver's end of the socket to a zygote: starts it, exchanges messages, and cleans up after it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sciagent.verification import registry
from sciagent.verification.sandbox.child import THREAD_VARIABLES
from sciagent.verification.sandbox.nursery_link import blas_hint, last_lines, nurseries
from sciagent.verification.sandbox.processes import is_stopped, readable
from sciagent.verification.sandbox.wire import dumps

POLL_SECONDS = 0.25
BURY_SECONDS = 5.0  # time for the nursery to report the end of a killed zygote; then the nursery itself is killed


class ZygoteDiedError(Exception):
    """The zygote has ended or has been silent for too long."""


class ZygoteLink:
    """A zygote process. Any thread may call `send` and `kill`; only one thread at a time the other methods."""

    def __init__(self, folder: Path, preload: Sequence[str]) -> None:
        self._folder = folder
        self._writing = threading.Lock()
        self._buffer = b""
        self._events: deque[Mapping[str, Any]] = deque()
        self._pid = self._pidfd = -1
        self._status: int | None = None
        self._spoke = self._ended = False
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        registry.send(folder)
        environment = blas_hint() | os.environ | dict.fromkeys(THREAD_VARIABLES, "1") | {"TMPDIR": str(folder / "tmp")}
        installed = [name for name in preload if name not in registry.defined()]  # a nursery lacks defined verifiers
        self._socket, theirs = socket.socketpair()
        with theirs, os.fdopen(os.pidfd_open(os.getpid())) as driver:
            self._nursery = nurseries.fork(installed, [theirs.fileno(), driver.fileno()])
        self.send({"folder": str(folder), "cwd": str(Path.cwd()), "environment": environment})

    @property
    def pid(self) -> int:
        """The process id of the zygote. The property waits until the zygote has been forked."""
        while self._pid < 0 and not self._ended:
            self._read(None)
        return self._pid

    @property
    def alive(self) -> bool:
        """Whether the zygote runs or has yet to be forked."""
        return not self.wait(0) and not (self._pidfd >= 0 and readable([self._pidfd], 0))

    def send(self, message: Mapping[str, Any], patience: float = -1) -> bool:
        """Sends a message. Returns False if another thread did not release the socket in time; patience: s, -1 for no
        limit. The end of the zygote is noticed by `receive`."""
        if not self._writing.acquire(timeout=patience):
            return False
        try:
            with contextlib.suppress(OSError):
                self._socket.sendall(dumps(message))
        finally:
            self._writing.release()
        return True

    def receive(self, deadline: float, hurry: threading.Event, hurry_seconds: float) -> Mapping[str, Any]:
        """Returns the next event. Raises ZygoteDiedError at the zygote's end, at the deadline (monotonic clock), and
        `hurry_seconds` after `hurry` was set."""
        while not self._events:
            if hurry.is_set():
                deadline = min(deadline, time.monotonic() + hurry_seconds)
                hurry_seconds = float("inf")
            left = deadline - time.monotonic()
            if left <= 0:
                raise ZygoteDiedError("it fell silent")
            if self._ended:
                raise ZygoteDiedError(self._last_words())
            if not self._read(min(left, POLL_SECONDS)) and any(
                pid > 0 and is_stopped(pid) for pid in (self._pid, self._nursery.pid)
            ):
                raise ZygoteDiedError("a signal stopped it")  # a verifier can send one to its parent
        return self._events.popleft()

    def _read(self, seconds: float | None) -> bool:
        """Reads what arrives within that time; None for no limit. Returns whether anything arrived."""
        chunk = b""
        with contextlib.suppress(OSError, ValueError):  # the socket was closed meanwhile
            if not readable([self._socket.fileno()], seconds):
                return False
            chunk = self._socket.recv(1 << 16)
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):  # a line truncated by the zygote's death
                self._take(json.loads(line))
        self._ended |= not chunk
        return True

    def _take(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "born":
            self._pid = event["pid"]
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(self._pid)
        elif event["event"] == "dead":  # from the nursery
            self._status, self._ended = event["status"], True
        else:
            self._events.append(event)
            self._spoke = True

    def wait(self, seconds: float) -> bool:
        """Returns whether the zygote and its descendants ended within that time."""
        deadline = time.monotonic() + seconds
        while not self._ended and self._read(max(0.0, deadline - time.monotonic())):
            pass
        return self._ended

    def _last_words(self) -> str:
        """Returns how the zygote ended and its last output."""
        if self._pid < 0:
            return f"the nursery ended: {last_lines(self._nursery.log)}"
        return f"status {self._status} {last_lines(self._folder / 'zygote.log')}"

    def kill(self) -> None:
        """Kills the zygote; one that is not yet forked will find its socket closed and end."""
        with contextlib.suppress(OSError):  # the zygote or the nursery has ended
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            else:
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self, patience: float = 20.0) -> None:
        """Closes the socket: the zygote then kills its descendants, removes the folder and ends. A zygote that has sent
        no event has started nothing, and is killed."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        if self._spoke:
            self.wait(patience)
        self.bury()

    def bury(self) -> None:
        """Kills the zygote and its descendants and removes its temporary files; spooled artifacts stay."""
        self.wait(0)
        self.kill()
        if not self.wait(BURY_SECONDS) or (self._status is None and self._pid >= 0):
            nurseries.drop(self._nursery)  # only the nursery knows the zygote's state, and it does not answer
        self._socket.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        for left in (*self._folder.glob("job-*"), self._folder / "tmp"):
            shutil.rmtree(left, ignore_errors=True)
