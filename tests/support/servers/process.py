"""Server processes of the tests: on a free port, silent, and gone when the tests are, however these end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

START_SECONDS = 60.0
# Below what the kernel gives to connections: a client that tries a port on which nobody listens at the moment could
# otherwise be connected to itself, and then the server cannot come back to it.
_PORTS = range(15_000, 32_000)
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
# The kernel ends a child when the *thread* that made it ends; this one lives as long as the tests do.
_SPAWNER = ThreadPoolExecutor(1, "servers")


class NoServerError(Exception):
    """No server could be started; says what was tried and what to do."""


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(_PORTS)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


def spawn(
    command: Sequence[str | Path],
    log: Path,
    environment: Mapping[str, str],
    *,
    last_signal: int = signal.SIGKILL,
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Start a server that writes to `log`; when this process dies it gets `last_signal`.

    It inherits no pipe: an open stderr would keep waiting who waits for the end of the tests.
    """

    def die_with_the_tests() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, last_signal)

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                list(command),
                env=dict(environment),
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_the_tests,
                **options,
            )

    return _SPAWNER.submit(start).result()


def wait_until(answers: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, what: str) -> None:
    """Return when the server answers. Raises NoServerError with the end of its log if it ends, or takes a minute."""
    deadline = time.monotonic() + START_SECONDS
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            raise NoServerError(f"{what}: {log.read_text(errors='replace').strip()[-500:]}")
        time.sleep(0.03)


def end(process: subprocess.Popen[bytes] | None, how: int = signal.SIGTERM, patience: float = 20.0) -> None:
    """Ask it to end, and end it after `patience` seconds."""
    if process is None or process.poll() is not None:
        return
    process.send_signal(how)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Broker:
    """What may be done to a broker of the tests."""

    _process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        """As a power cut would, but for the disk."""
        end(self._process, signal.SIGKILL)

    def stop(self) -> None:
        end(self._process)

    def pause(self) -> None:
        """It keeps its connections and answers nobody."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def bare_environment(home: Path, **more: str) -> dict[str, str]:
    """PATH and nothing else of the user's: what configures his own servers is not for these."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "HOME": str(home), **more}
