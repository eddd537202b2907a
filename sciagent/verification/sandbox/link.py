"""The driver's end of the pipes to a zygote: start it, talk to it, leave nothing of it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sciagent.domain.text import clean
from sciagent.verification import registry
from sciagent.verification.sandbox.child import THREAD_VARIABLES
from sciagent.verification.sandbox.processes import MARKER, is_stopped, kill_marked
from sciagent.verification.sandbox.wire import dumps

POLL_SECONDS = 0.25


class ZygoteDiedError(Exception):
    """The zygote is gone, or silent for too long."""


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


class Link:
    """One zygote process. `send` may be called from any thread, the rest from one at a time."""

    def __init__(self, folder: Path, preload: Sequence[str]) -> None:
        self._folder, self._log = folder, folder / "zygote.log"
        self._token = secrets.token_hex(8)
        self._writing = threading.Lock()
        self._buffer = b""
        self._spoke = False
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        registry.send(folder)
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
        environment = blas_hint() | environment
        environment |= {MARKER: self._token, "TMPDIR": str(folder / "tmp")}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "sciagent.verification.sandbox.zygote",
                    str(folder),
                    str(os.getpid()),
                    *preload,
                ],
                bufsize=0,
                env=environment,
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdin and self.process.stdout
        self._in, self._out = self.process.stdin, self.process.stdout

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def send(self, message: dict[str, Any], patience: float = -1) -> bool:
        """False if another thread did not let go of the pipe in time. A zygote that is gone is noticed by `receive`."""
        if not self._writing.acquire(timeout=patience):
            return False
        try:
            line = dumps(message)
            with contextlib.suppress(BrokenPipeError, ValueError):
                while line:
                    line = line[self._in.write(line) or 0 :]
        finally:
            self._writing.release()
        return True

    def receive(self, deadline: float, hurry: threading.Event, hurry_seconds: float) -> dict[str, Any]:
        """The next event. Raises ZygoteDiedError at the end of file, at the deadline (of the monotonic clock), and
        `hurry_seconds` after `hurry` was set."""
        while b"\n" not in self._buffer:
            if hurry.is_set():
                deadline = min(deadline, time.monotonic() + hurry_seconds)
                hurry_seconds = float("inf")
            left = deadline - time.monotonic()
            if left <= 0:
                raise ZygoteDiedError("it fell silent")
            if select.select([self._out], [], [], min(left, POLL_SECONDS))[0]:
                chunk = os.read(self._out.fileno(), 1 << 16)
                if not chunk:
                    raise ZygoteDiedError(self._last_words())
                self._buffer += chunk
                self._spoke = True
            elif is_stopped(self.process.pid):  # by a signal that a verifier sent to its parent
                raise ZygoteDiedError("a signal stopped it")
        line, self._buffer = self._buffer.split(b"\n", 1)
        event: dict[str, Any] = json.loads(line)
        return event

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=1)
        with contextlib.suppress(OSError):
            lines = self._log.read_text(errors="replace").split("\n")
            return clean(f"status {self.process.returncode} {' '.join(lines[-4:])}".strip(), 500)
        return f"status {self.process.returncode}"

    def close(self, patience: float = 20.0) -> None:
        """Hang up: the zygote kills what it started, removes the folder and ends. One that has not said a word yet has
        started nothing, and is not waited for until it has imported all: it is killed."""
        self._in.close()
        self._out.close()
        if not self._spoke:
            self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=patience)
        self.bury()

    def bury(self) -> None:
        """Leave nothing of a zygote that is dead or has to be; what it had spooled stays."""
        self.process.kill()
        self.process.wait()
        self._in.close()
        self._out.close()
        kill_marked(self._token)
        for left in (*self._folder.glob("job-*"), self._folder / "tmp"):
            shutil.rmtree(left, ignore_errors=True)
