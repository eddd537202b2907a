"""The driver's end of the pipes to a zygote: have it forked, talk to it, leave nothing of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sciagent.verification import registry
from sciagent.verification.sandbox.child import THREAD_VARIABLES
from sciagent.verification.sandbox.nursery_link import Zygote, blas_hint
from sciagent.verification.sandbox.processes import readable
from sciagent.verification.sandbox.wire import dumps

POLL_SECONDS = 0.25


class ZygoteDiedError(Exception):
    """The zygote is gone, or silent for too long."""


class ZygoteLink:
    """One zygote process. `send` may be called from any thread, the rest from one at a time."""

    def __init__(self, folder: Path, preload: Sequence[str]) -> None:
        self._folder = folder
        self._writing = threading.Lock()
        self._buffer = b""
        self._spoke = False
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        registry.send(folder)
        environment = blas_hint() | os.environ | dict.fromkeys(THREAD_VARIABLES, "1") | {"TMPDIR": str(folder / "tmp")}
        installed = [name for name in preload if name not in registry.defined()]  # a nursery has no others
        self.process = Zygote(folder, folder / "zygote.log", installed, environment)
        self._in, self._out = self.process.stdin, self.process.stdout

    @property
    def alive(self) -> bool:
        return self.process.alive

    def send(self, message: Mapping[str, Any], patience: float = -1) -> bool:
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

    def receive(self, deadline: float, hurry: threading.Event, hurry_seconds: float) -> Mapping[str, Any]:
        """The next event. Raises ZygoteDiedError at the end of file, at the deadline (of the monotonic clock), and
        `hurry_seconds` after `hurry` was set."""
        while b"\n" not in self._buffer:
            if hurry.is_set():
                deadline = min(deadline, time.monotonic() + hurry_seconds)
                hurry_seconds = float("inf")
            left = deadline - time.monotonic()
            if left <= 0:
                raise ZygoteDiedError("it fell silent")
            if readable([self._out.fileno()], min(left, POLL_SECONDS)):
                chunk = os.read(self._out.fileno(), 1 << 16)
                if not chunk:
                    raise ZygoteDiedError(self._last_words())
                self._buffer += chunk
                self._spoke = True
            elif self.process.is_stopped:  # by a signal that a verifier sent to its parent
                raise ZygoteDiedError("a signal stopped it")
        line, self._buffer = self._buffer.split(b"\n", 1)
        event: dict[str, Any] = json.loads(line)
        return event

    def _last_words(self) -> str:
        self.process.wait(1.0)
        return self.process.last_words()

    def close(self, patience: float = 20.0) -> None:
        """Hang up: the zygote kills what it started, removes the folder and ends. One that has not said a word yet has
        started nothing, and is killed."""
        self._in.close()
        self._out.close()
        if self._spoke:
            self.process.wait(patience)
        self.bury()

    def bury(self) -> None:
        """Leave nothing of a zygote that is dead or has to be; what it had spooled stays."""
        self.process.end()
        for left in (*self._folder.glob("job-*"), self._folder / "tmp"):
            shutil.rmtree(left, ignore_errors=True)
