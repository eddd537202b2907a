"""Starts vLLM under a guard, waits until it answers, and ends it with all its processes."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from sciagent.agent.models import ModelError
from sciagent.agent.serving import guard
from sciagent.errors import UsageError

_PAUSE = 0.25  # seconds between two checks of whether the server answers
_FAULT = re.compile(r"\w*(?:Error|Exception): .+")


class VllmServer:
    """A vLLM process and its children. They end with the context, or when this process ends for any reason."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], url: str, log: Path) -> None:
        """url: address of the server. log: file for all of its output."""
        self.url, self.log = url, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", guard.__file__, *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=dict(environment),
                cwd=log.parent,
                start_new_session=True,
            )

    def __enter__(self) -> VllmServer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._guard.stdin
        self._guard.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(3 * guard.GRACE)

    def wait_until_up(self) -> None:
        """Waits until /health answers. Raises ModelError, with the cause, if the server ends first."""
        while self._guard.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=5):
                return
            time.sleep(_PAUSE)
        raise ModelError(f"the server ended while it loaded: {self.last_words()}")

    def wait(self) -> None:
        """Waits until the server ends, then raises ModelError, since the server should not end by itself."""
        self._guard.wait()
        raise ModelError(f"the server ended: {self.last_words()}")

    def last_words(self) -> str:
        """Returns the first error in the log, which usually causes the later ones, and the path of the log."""
        text = self.log.read_text(encoding="utf-8", errors="replace")[-200_000:]
        error = _FAULT.search(text)
        line = error[0] if error else (text.strip().splitlines() or ["nothing was printed"])[-1]
        return f"{line[:500]}\n  its whole log: {self.log}"


def free_port(host: str, wanted: int) -> int:
    """Returns the wanted port, or any free port for 0. Raises UsageError if the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, wanted))
        except OSError as error:
            raise UsageError(
                f"port {wanted} of {host} cannot be had: {error.strerror}; choose another by --port"
            ) from error
        return int(probe.getsockname()[1])
