"""The driver's end of the nurseries: start one, ask it for a zygote, watch that zygote as a child process."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from sciagent.domain.text import clean
from sciagent.verification.sandbox.child import THREAD_VARIABLES
from sciagent.verification.sandbox.processes import MARKER, is_stopped, kill_marked, readable

TRIES = 3
BURY_SECONDS = 5.0  # for the nursery to tell of a zygote that was killed; then the nursery itself is killed


def blas_hint() -> dict[str, str]:
    """OPENBLAS_CORETYPE for processors with AVX2 and FMA.

    The OpenBLAS 0.3.3 inside PySCF's wheel takes processors younger than itself for a Barcelona of 2007 and then
    multiplies matrices at half the speed (15 against 28 GFLOP/s measured on an AMD EPYC).
    """
    try:
        flags = (
            Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").partition("flags")[2].partition("\n")[0]
        )
    except OSError:
        return {}
    return {"OPENBLAS_CORETYPE": "Haswell"} if {"avx2", "fma"} <= set(flags.split()) else {}


def last_lines(log: IO[bytes] | Path) -> str:
    """The end of a log, in one line."""
    with contextlib.suppress(OSError):
        text = log.read_bytes() if isinstance(log, Path) else os.pread(log.fileno(), 1 << 16, 0)
        return " ".join(text.decode(errors="replace").split("\n")[-4:])
    return ""


class NurseryHandle:
    """A nursery process that was started here, or in a process that this one was forked from."""

    def __init__(self, names: frozenset[str], python: dict[str, str]) -> None:
        self.names = names
        """Verifiers whose imports it has made."""
        self.python = python
        """The environment variables that decide what can be imported."""
        self.owner = os.getpid()
        """The process that started it, with which it ends."""
        self.token = secrets.token_hex(8)
        """Stands in the environment of all that descends from it."""
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the nursery
        """What it printed."""
        environment = blas_hint() | os.environ | dict.fromkeys(THREAD_VARIABLES, "1") | {MARKER: self.token}
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, os.fdopen(os.pidfd_open(self.owner)) as owner:
            fds = [theirs.fileno(), owner.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sciagent.verification.sandbox.nursery", *map(str, fds), *sorted(names)],
                env=environment,
                pass_fds=fds,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def serves(self, names: frozenset[str], python: dict[str, str]) -> bool:
        return names <= self.names and python == self.python

    def ask(self, request: bytes, fds: Sequence[int]) -> None:
        """Ask for a zygote. Raises ConnectionError if the nursery is gone."""
        memory = os.memfd_create("request")
        try:
            with os.fdopen(os.dup(memory), "wb") as file:
                file.write(request)
            os.lseek(memory, 0, os.SEEK_SET)
            socket.send_fds(self._requests, [b"zygote"], [*fds, memory])
        finally:
            os.close(memory)

    def end(self) -> None:
        """Kill the nursery with all that descends from it."""
        self._requests.close()
        if self.owner == os.getpid():
            self._process.kill()
            self._process.wait()
        kill_marked(self.token)
        self.log.close()


class Nurseries:
    """The nurseries that this process may ask. Those of the process that it was forked from are shared."""

    def __init__(self) -> None:
        self._running: list[NurseryHandle] = []
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def start(self, names: Sequence[str]) -> NurseryHandle:
        """The nursery that has imported what these verifiers need; a new one where there is none."""
        wanted = frozenset(names), {name: text for name, text in os.environ.items() if name.startswith("PYTHON")}
        with self._lock:
            for nursery in self._running:
                if nursery.serves(*wanted):
                    return nursery
            self._running.append(NurseryHandle(*wanted))
            return self._running[-1]

    def fork(self, names: Sequence[str], request: bytes, fds: Sequence[int]) -> NurseryHandle:
        """Ask a nursery for a zygote; returns that nursery. Raises ConnectionError when one after the other ends."""
        for _ in range(TRIES):
            nursery = self.start(names)
            try:
                nursery.ask(request, fds)
                return nursery
            except ConnectionError:
                self.drop(nursery)
        raise ConnectionError(f"{TRIES} nurseries ended as soon as they were started")

    def drop(self, nursery: NurseryHandle) -> None:
        """End a nursery that is gone or does not answer."""
        with self._lock:
            if nursery not in self._running:
                return
            self._running.remove(nursery)
        nursery.end()

    def pids(self) -> list[int]:
        """The processes of the nurseries."""
        return [nursery.pid for nursery in self._running]

    def close(self) -> None:
        """End the nurseries that this process has started."""
        for nursery in list(self._running):
            if nursery.owner == os.getpid():
                self.drop(nursery)


nurseries = Nurseries()


class Zygote:
    """A zygote, as much like `subprocess.Popen` as its link needs."""

    def __init__(self, folder: Path, log: Path, preload: Sequence[str], environment: dict[str, str]) -> None:
        self.returncode: int | None = None
        """The exit status; None while it runs or if nobody knows."""
        self._pid = self._pidfd = -1
        self._said = b""
        self._reading = threading.Lock()
        self._log = log
        request = {"folder": str(folder), "cwd": str(Path.cwd()), "environment": environment}
        stdin, to_zygote = os.pipe()
        from_zygote, stdout = os.pipe()
        self.stdin, self.stdout = os.fdopen(to_zygote, "wb", 0), os.fdopen(from_zygote, "rb", 0)
        self._reply, theirs = socket.socketpair()
        driver = os.pidfd_open(os.getpid())
        stderr = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            fds = [stdin, stdout, stderr, driver, theirs.fileno()]
            self._nursery = nurseries.fork(preload, json.dumps(request).encode(), fds)
        finally:
            theirs.close()
            for fd in (stdin, stdout, stderr, driver):
                os.close(fd)

    @property
    def pid(self) -> int:
        """Process id of the zygote, once it has been forked; waits for that."""
        while self._pid < 0 and not self._over(None):
            pass
        return self._pid

    @property
    def alive(self) -> bool:
        """Whether it is there, or still to come."""
        return not self._over(0) and not (self._pidfd >= 0 and readable([self._pidfd], 0))

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped it, or its nursery."""
        return any(pid > 0 and is_stopped(pid) for pid in (self._pid, self._nursery.pid))

    def wait(self, timeout: float) -> bool:
        """Whether it has ended in that time and nothing of what it started is left."""
        deadline = time.monotonic() + timeout
        while not self._over(max(0.0, deadline - time.monotonic())):
            if time.monotonic() >= deadline:
                return False
        return True

    def _over(self, patience: float | None) -> bool:
        """Whether the nursery has said its last word, after reading what it says in that time; None: for ever."""
        with contextlib.suppress(OSError, ValueError):  # closed meanwhile
            if not readable([self._reply.fileno()], patience):
                return False
        with self._reading:
            data, fds = b"", list[int]()
            try:
                data, fds, _, _ = socket.recv_fds(self._reply, 64, 1, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except OSError:
                pass
            if fds:
                self._pidfd = fds[0]
            *lines, self._said = (self._said + data).split(b"\n")
            for line in lines:
                if self._pid < 0:
                    self._pid = int(line)
                else:
                    self.returncode = int(line)
            if data and self.returncode is None:
                return False
            self._reply.close()
            return True

    def kill(self) -> None:
        """Kill it; one that has not been forked yet never will be."""
        self._over(0)
        with contextlib.suppress(OSError):  # it has ended, or the nursery has
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            else:
                self._reply.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Kill it with all that it started, if it has not ended; afterwards nothing can be asked of it."""
        self.kill()
        if not self.wait(BURY_SECONDS) or (self.returncode is None and self._pid >= 0):
            nurseries.drop(self._nursery)  # nobody else can say what became of it
        self.stdin.close()
        self.stdout.close()
        self._reply.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def last_words(self) -> str:
        """How it ended, and what it printed last."""
        if self._pid < 0 and self._reply.fileno() < 0:
            return clean(f"the nursery ended: {last_lines(self._nursery.log)}".strip(), 500)
        return clean(f"status {self.returncode} {last_lines(self._log)}".strip(), 500)
