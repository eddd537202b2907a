"""The declarations of third-party verifiers (`measures`, `gates`, `accepts`, `cost`, `missing`, `lacks`), run in a
separate process.

A declaration that ends its process, never ends or needs too much memory fails like one that raises an exception, and
the driver continues. Verifiers that ship with sciagent run theirs in the driver, since a call here takes 0.1 ms more.

The process is `python -m sciagent.verification.sandbox.declaration_process FD`. The verifiers run in a child of it, so
one that stops or kills its parent process does not harm the driver.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping
from multiprocessing import Pipe
from typing import Any

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import record_of
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.errors import SciagentError
from sciagent.verification.sandbox.process_trees import MARKER, MarkedProcess
from sciagent.verification.verifier_contract import BaseVerifier

IMPORT_SECONDS = 300  # time for the import of a verifier
DECLARE_SECONDS = 20  # time for one declaration
MAX_DEATHS = 3  # failures of one declaration, after which it is not called again: a new process takes a second
MAX_ANSWER_BYTES = 1 << 20
MAX_CACHED = 10_000  # declarations that are cached for each verifier


class DeclarationError(SciagentError):
    """A declaration of a verifier failed."""


class _Process(MarkedProcess):
    """The process that runs the declarations of all verifiers of a driver."""

    def __init__(self) -> None:
        self.imported: set[str] = set()
        self.connection, process_connection = Pipe()
        with process_connection:
            super().__init__(
                "declaration_process",
                fds=[process_connection.fileno()],
                names=(),
                environment=os.environ,
                output=subprocess.DEVNULL,  # plug-ins may print
            )

    def converse(
        self,
        seconds: int,
        verifier: str,
        what: str,
        settings: Any = None,
        sent: tuple[str, Mapping[str, Any]] | None = None,
    ) -> tuple[bool, Any]:
        """Returns (True, answer) or (False, error message). The question is as in `declaration_process.answer`.

        Raises EOFError, OSError or TimeoutError."""
        question = (verifier, what, settings, sent)
        self.connection.send((seconds + 5, question))  # later than the driver, the process gives up by itself
        if not self.connection.poll(seconds):
            raise TimeoutError(f"did not end within {seconds} s")
        reply: tuple[bool, Any] = pickle.loads(self.connection.recv_bytes(MAX_ANSWER_BYTES))
        return reply

    def end(self) -> None:
        self.connection.close()
        super().end()


class _Asker:
    """Asks for declarations, in a process that is started at the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._deaths: Counter[tuple[str, str]] = Counter()

    def ask(self, verifier: str, what: str, settings: Any, candidate: Candidate | None) -> Any:
        """Returns the answer. Raises DeclarationError with the verifier's exception, or with how its process failed."""
        sent = None if candidate is None else (candidate.kind, record_of(candidate))
        with self._lock:
            if self._deaths[verifier, what] >= MAX_DEATHS:
                raise DeclarationError(f"{what} of {verifier} failed {MAX_DEATHS} times, and is not asked for again")
            try:
                # after a fork, the process belongs to the parent
                if self._process is None or self._process.owner != os.getpid():
                    self._process = _Process()
                if verifier not in self._process.imported:
                    self._process.converse(IMPORT_SECONDS, verifier, "import")
                    self._process.imported.add(verifier)
                is_answer, answer = self._process.converse(DECLARE_SECONDS, verifier, what, settings, sent)
            except (OSError, EOFError, TimeoutError) as error:
                self._end()
                self._deaths[verifier, what] += 1
                how = "ended its process" if isinstance(error, EOFError) else error
                raise DeclarationError(f"{what} of {verifier} {how}") from error
        if not is_answer:
            raise DeclarationError(answer)
        return answer

    def close(self) -> None:
        """Ends the process; the next call starts another one."""
        with self._lock:
            self._deaths.clear()
            self._end()

    def _end(self) -> None:
        process = self._process
        self._process = None
        if process is not None and process.owner == os.getpid():
            process.end()


asker = _Asker()
atexit.register(asker.close)


def _ask(verifier: BaseVerifier[Any], what: str, candidate: Candidate | None = None) -> Any:
    """Returns the declaration; answers are cached."""
    key = (what, candidate.key if candidate else "")
    known: dict[tuple[str, str], Any] = vars(verifier).setdefault("_declared", {})  # the cache ends with the verifier
    if key not in known:
        declared = asker.ask(verifier.name, what, verifier.request_settings, candidate)
        if len(known) >= MAX_CACHED:
            known.clear()
        known[key] = declared
    return known[key]


_DECLARATIONS = {
    "measures": property(lambda verifier: _ask(verifier, "measures")),
    "gates": property(lambda verifier: _ask(verifier, "gates")),
    "accepts": lambda verifier, candidate: _ask(verifier, "accepts", candidate),
    "cost": lambda verifier, candidate: _ask(verifier, "cost", candidate),
    "lacks": lambda verifier: _ask(verifier, "lacks"),
}


def with_declarations_apart(kind: type[BaseVerifier[Any]]) -> type[BaseVerifier[Any]]:
    """Returns a subclass that runs its declarations in a separate process, except those inherited from `BaseVerifier`.

    In that process and in the processes of jobs it returns the class itself."""
    if MARKER in os.environ:  # as in all processes of the sandbox
        return kind
    replaced: dict[str, Any] = {}
    for name, asking in _DECLARATIONS.items():
        is_inherited = getattr(kind, name) is getattr(BaseVerifier, name)
        if not is_inherited:
            replaced[name] = asking
    # each access binds a class method anew, so the functions are compared
    if kind.missing.__func__ is not BaseVerifier.missing.__func__:  # type: ignore[attr-defined]
        replaced["missing"] = classmethod(lambda cls: asker.ask(cls.name, "missing", settings=None, candidate=None))
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), names | replaced)
