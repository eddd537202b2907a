"""The driver's end of the nurseries: starts nurseries and requests zygotes from them."""

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
    """Returns the environment variable OPENBLAS_CORETYPE for processors with AVX2 and FMA; empty for others.

    OpenBLAS 0.3.3 in PySCF's wheel treats newer processors as a Barcelona of 2007 and then multiplies matrices at half
    the speed (15 instead of 28 GFLOP/s measured on an AMD EPYC).
    """
    try:
        flags = (
            Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").partition("flags")[2].partition("\n")[0]
        )
    except OSError:
        return {}
    return {"OPENBLAS_CORETYPE": "Haswell"} if {"avx2", "fma"} <= set(flags.split()) else {}


def last_lines(log: IO[bytes] | Path) -> str:
    """Returns the end of a log as a single line."""
    text = b""
    with contextlib.suppress(OSError):
        text = log.read_bytes() if isinstance(log, Path) else os.pread(log.fileno(), 1 << 16, 0)
    return clean(" ".join(text.decode(errors="replace").split("\n")[-4:]).strip(), 500)


class NurseryHandle:
    """A nursery process that was started by this process or by one from which it was forked."""

    def __init__(self, names: frozenset[str], python: dict[str, str]) -> None:
        self.names = names
        """Names of the verifiers whose modules it imports."""
        self.python = python
        """The environment variables on which imports depend."""
        self.owner = os.getpid()
        """The process id of the process that started it; the nursery ends with that process."""
        self.token = secrets.token_hex(8)
        """A marker in the environment of all its descendants."""
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the nursery
        """The nursery's output."""
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
        """Kills the nursery and all its descendants."""
        self.requests.close()
        if self.owner == os.getpid():
            self._process.kill()
            self._process.wait()
        kill_marked(self.token)
        self.log.close()


class Nurseries:
    """The nurseries of this process, and those inherited from the process from which it was forked."""

    def __init__(self) -> None:
        self._running: list[NurseryHandle] = []
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def start(self, names: Sequence[str]) -> NurseryHandle:
        """Returns the nursery for these verifiers: the process that has imported their modules and forks their jobs.
        Starts one if none runs."""
        wanted = frozenset(names), {name: text for name, text in os.environ.items() if name.startswith("PYTHON")}
        with self._lock:
            for nursery in self._running:
                if nursery.serves(*wanted):
                    return nursery
            self._running.append(NurseryHandle(*wanted))
            return self._running[-1]

    def fork(self, names: Sequence[str], fds: Sequence[int]) -> NurseryHandle:
        """Requests a zygote with these file descriptors from a nursery, and returns the nursery. Raises ConnectionError
        if every new nursery ends at once."""
        for _ in range(TRIES):
            nursery = self.start(names)
            try:
                socket.send_fds(nursery.requests, [b"zygote"], fds)
                return nursery
            except ConnectionError:
                self.drop(nursery)
        raise ConnectionError(f"{TRIES} nurseries ended as soon as they were started")

    def drop(self, nursery: NurseryHandle) -> None:
        """Ends a nursery that has died or does not answer."""
        with self._lock:
            if nursery not in self._running:
                return
            self._running.remove(nursery)
        nursery.end()

    def pids(self) -> list[int]:
        """Returns the process ids of the nurseries."""
        return [nursery.pid for nursery in self._running]

    def close(self) -> None:
        """Ends the nurseries that this process started."""
        for nursery in list(self._running):
            if nursery.owner == os.getpid():
                self.drop(nursery)


nurseries = Nurseries()
