"""The declarations of third-party verifiers (`measures`, `gates`, `accepts`, `cost`), run in a separate process.

A declaration that ends its process, never ends or needs too much memory fails like one that raises an exception, and
the driver continues. Verifiers that ship with sciagent run theirs in the driver, since a call here takes 0.1 ms more.
"""

from __future__ import annotations

import atexit
import os
import pickle
import secrets
import subprocess
import sys
import threading
from collections import Counter
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from sciagent.chemistry.payload import record_of
from sciagent.domain.candidates import Candidate
from sciagent.errors import SciagentError
from sciagent.verification.contract import Verifier
from sciagent.verification.sandbox.processes import MARKER, kill_marked

IMPORT_SECONDS = 300
DECLARE_SECONDS = 20
MAX_DEATHS = 3  # failures of one declaration, after which it is not called again: a new process takes a second
MAX_ANSWER = 1 << 20  # bytes
REMEMBERED = 10_000  # declarations that are cached for each verifier


class DeclarationError(SciagentError):
    """A declaration of a verifier failed."""


class _Process:
    """The process that runs the declarations of all verifiers of a driver; it is started at the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid, self._token = 0, ""
        self._connection: Connection | None = None
        self._imported: set[str] = set()
        self._deaths: Counter[tuple[str, str]] = Counter()

    def ask(self, verifier: str, what: str, settings: Any, candidate: Candidate | None) -> Any:
        """Returns the answer. Raises DeclarationError with the verifier's exception, or with how its process failed."""
        sent = candidate and (candidate.kind, record_of(candidate))
        with self._lock:
            if self._deaths[verifier, what] >= MAX_DEATHS:
                raise DeclarationError(f"{what} of {verifier} failed {MAX_DEATHS} times, and is not asked for again")
            try:
                connection = self._start()
                if verifier not in self._imported:
                    _converse(connection, IMPORT_SECONDS, (verifier, "import", None, None))
                    self._imported.add(verifier)
                is_answer, answer = _converse(connection, DECLARE_SECONDS, (verifier, what, settings, sent))
            except (OSError, EOFError, TimeoutError) as error:
                self._end()
                self._deaths[verifier, what] += 1
                how = "ended its process" if isinstance(error, EOFError) else error
                raise DeclarationError(f"{what} of {verifier} {how}") from error
        if not is_answer:
            raise DeclarationError(answer)
        return answer

    def _start(self) -> Connection:
        if self._process is not None and self._connection is not None and self._pid == os.getpid():
            return self._connection
        self._pid, self._token = os.getpid(), secrets.token_hex(8)
        self._imported.clear()
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sciagent.verification.sandbox.declaration_process", str(theirs.fileno())],
                env=os.environ | {MARKER: self._token},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # plug-ins print
                stderr=subprocess.DEVNULL,
            )
        return self._connection

    def close(self) -> None:
        with self._lock:
            self._deaths.clear()
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or self._connection is None or self._pid != os.getpid():
            return
        process.kill()
        process.wait()
        self._connection.close()
        kill_marked(self._token)


def _converse(connection: Connection, seconds: int, question: tuple[Any, ...]) -> tuple[bool, Any]:
    """Returns (True, answer) or (False, error message). Raises EOFError, OSError or TimeoutError."""
    connection.send((seconds + 5, question))
    if not connection.poll(seconds):
        raise TimeoutError(f"did not end within {seconds} s")
    reply: tuple[bool, Any] = pickle.loads(connection.recv_bytes(MAX_ANSWER))
    return reply


_process = _Process()
atexit.register(_process.close)
close = _process.close
"""Ends the process; the next call starts another one."""


def _ask(verifier: Verifier[Any], what: str, candidate: Candidate | None = None) -> Any:
    """Returns the declaration; answers are cached."""
    key = (what, candidate.key if candidate else "")
    known: dict[tuple[str, str], Any] = vars(verifier).setdefault("_declared", {})
    if key not in known:
        declared = _process.ask(verifier.name, what, verifier.request_settings, candidate)
        if len(known) >= REMEMBERED:
            known.clear()
        known[key] = declared
    return known[key]


_ASKED = {
    "measures": property(lambda verifier: _ask(verifier, "measures")),
    "gates": property(lambda verifier: _ask(verifier, "gates")),
    "accepts": lambda verifier, candidate: _ask(verifier, "accepts", candidate),
    "cost": lambda verifier, candidate: _ask(verifier, "cost", candidate),
}


def asked_apart(kind: type[Verifier[Any]]) -> type[Verifier[Any]]:
    """Returns a subclass that runs its declarations in a separate process, except those inherited from `Verifier`.

    In that process and in the processes of jobs it returns the class itself."""
    if MARKER in os.environ:
        return kind
    own = {name: asked for name, asked in _ASKED.items() if getattr(kind, name) is not getattr(Verifier, name)}
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), names | own)
