"""The driver's end of the nurseries: start a nursery, and ask it for a zygote."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from sciagent.domain.text import clean
from sciagent.verification.sandbox.child import THREAD_VARIABLES
from sciagent.verification.sandbox.processes import MARKER, kill_marked

TRIES = 3


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
    """The end of a log, in a single line."""
    text = b""
    with contextlib.suppress(OSError):
        text = log.read_bytes() if isinstance(log, Path) else os.pread(log.fileno(), 1 << 16, 0)
    return clean(" ".join(text.decode(errors="replace").split("\n")[-4:]).strip(), 500)


class NurseryHandle:
    """A nursery process that was started here, or in a process that this process was forked from."""

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
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
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

    def end(self) -> None:
        """Kill the nursery with all that descends from it."""
        self.requests.close()
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
        """The nursery that has imported what these verifiers need; a new nursery where there is none."""
        wanted = frozenset(names), {name: text for name, text in os.environ.items() if name.startswith("PYTHON")}
        with self._lock:
            for nursery in self._running:
                if nursery.serves(*wanted):
                    return nursery
            self._running.append(NurseryHandle(*wanted))
            return self._running[-1]

    def fork(self, names: Sequence[str], fds: Sequence[int]) -> NurseryHandle:
        """Ask a nursery for a zygote, which gets these file descriptors; returns that nursery. Raises ConnectionError
        when each new nursery ends at once."""
        for _ in range(TRIES):
            nursery = self.start(names)
            try:
                socket.send_fds(nursery.requests, [b"zygote"], fds)
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
