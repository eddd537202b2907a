"""Starts vLLM under a guard, waits until it is ready, and ends it with all its processes."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from sciagent.agent.models import ModelError
from sciagent.agent.serving import guard
from sciagent.errors import UsageError

_PAUSE = 0.25  # seconds between two questions whether it is up
_FAULT = re.compile(r"\w*(?:Error|Exception): .+")


class VllmServer:
    """A process of vLLM and its children. They end with the context, and with this process, however it ends."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], url: str, log: Path) -> None:
        """url: where it will answer. log: the file for all its output."""
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
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def __enter__(self) -> VllmServer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._guard.stdin
        self._guard.stdin.close()
        self._ended.wait(3 * guard.GRACE)

    def wait_until_up(self) -> None:
        """Wait until /health answers. Raises ModelError, with the cause, if the server ends before."""
        while not self._ended.wait(_PAUSE):
            with (
                contextlib.suppress(urllib.error.URLError, OSError),
                urllib.request.urlopen(f"{self.url}/health", timeout=5),
            ):
                return
        raise ModelError(f"the server ended while it loaded: {self.last_words()}")

    def wait(self) -> None:
        """Wait until the server ends. Raises ModelError, since it should not end by itself."""
        self._ended.wait()
        raise ModelError(f"the server ended: {self.last_words()}")

    def _watch(self) -> None:
        self._guard.wait()
        self._ended.set()

    def last_words(self) -> str:
        """The first error in its log, which usually causes the others, and where the log is."""
        text = self.log.read_text(encoding="utf-8", errors="replace")[-200_000:]
        error = _FAULT.search(text)
        line = error[0] if error else (text.strip().splitlines() or ["nothing was printed"])[-1]
        return f"{line[:500]}\n  its whole log: {self.log}"


def free_port(host: str, wanted: int) -> int:
    """The wanted port; for 0, any free port. Raises UsageError if it is in use."""
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
