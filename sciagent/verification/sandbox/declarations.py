"""What third-party verifiers declare (`measures`, `gates`, `accepts`, `cost`), asked in a process of their own.

A declaration that ends its process, never ends or takes too much memory fails like one that raises an exception, and
the driver goes on. Verifiers that ship with sciagent are asked directly: a question takes 0.1 ms more here.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import json
import os
import secrets
import select
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from sciagent.chemistry.payload import record_of
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.outcomes import Reason
from sciagent.domain.properties import PropertyAtLevel
from sciagent.errors import SciagentError
from sciagent.verification.contract import Refusal, Verifier
from sciagent.verification.sandbox.processes import MARKER, kill_marked
from sciagent.verification.sandbox.wire import dumps

IMPORT_SECONDS = 300
DECLARE_SECONDS = 20
MAX_DEATHS = 3  # of one declaration; then it is not asked for again, since a new process takes a second
MAX_ANSWER = 1 << 20  # bytes
MEASURES = TypeAdapter(tuple[PropertyAtLevel, ...])
REMEMBERED = 10_000  # candidates of one verifier whose declarations are kept


class DeclarationError(SciagentError):
    """A verifier did not declare what it was asked for."""


class _Process:
    """The process that is asked, started for the first question. One for all verifiers of a driver."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid, self._token, self._buffer = 0, "", b""
        self._imported: set[str] = set()
        self._deaths: Counter[tuple[str, str]] = Counter()

    def ask(self, verifier: str, what: str, **more: Any) -> Any:
        """The answer as JSON. Raises the built-in exception that the verifier raised, or DeclarationError."""
        with self._lock:
            if self._deaths[verifier, what] >= MAX_DEATHS:
                raise DeclarationError(f"{what} of {verifier} failed {MAX_DEATHS} times, and is not asked for again")
            try:
                self._start()
                if verifier not in self._imported:
                    self._converse({"verifier": verifier, "what": "import"}, IMPORT_SECONDS)
                    self._imported.add(verifier)
                reply = self._converse({"verifier": verifier, "what": what, **more}, DECLARE_SECONDS)
            except (OSError, EOFError, TimeoutError, ValueError) as error:
                self._end()
                self._deaths[verifier, what] += 1
                raise DeclarationError(f"{what} of {verifier} {error}") from error
        if "error" in reply:
            kind = getattr(builtins, reply["error"], None)
            if isinstance(kind, type) and issubclass(kind, Exception):
                with contextlib.suppress(TypeError):  # some want more than a text
                    raise kind(reply["text"])
            raise DeclarationError(reply["last"])
        return reply["answer"]

    def _start(self) -> None:
        if self._process is not None and self._pid == os.getpid():
            return
        self._pid, self._token, self._buffer = os.getpid(), secrets.token_hex(8), b""
        self._imported.clear()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sciagent.verification.sandbox.declaring"],
            bufsize=0,
            env=os.environ | {MARKER: self._token},
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _converse(self, question: Mapping[str, Any], seconds: int) -> Mapping[str, Any]:
        assert self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        line = dumps({**question, "seconds": seconds + 5})
        while line:
            line = line[self._process.stdin.write(line) or 0 :]
        until = time.monotonic() + seconds
        out = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            if not select.select([out], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError(f"did not end within {seconds} s")
            chunk = os.read(out, 1 << 16)
            self._buffer += chunk
            if not chunk or len(self._buffer) > MAX_ANSWER:
                raise EOFError("ended its process" if not chunk else "declares more than a megabyte")
        answer, self._buffer = self._buffer.split(b"\n", 1)
        reply: Mapping[str, Any] = json.loads(answer)
        if question["what"] == "import" and "error" in reply:
            raise ValueError(f"cannot be asked for: {reply['last']}")
        return reply

    def close(self) -> None:
        with self._lock:
            self._deaths.clear()
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or self._pid != os.getpid():
            return
        assert process.stdin is not None and process.stdout is not None
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        kill_marked(self._token)


_process = _Process()
atexit.register(_process.close)
close = _process.close
"""End the process that is asked; the next question starts another one."""


class _Asked(Verifier[Any]):
    """Declares what a verifier declares in that process. Placed before the verifier's class by `asked_apart`."""

    def _ask(self, what: str, candidate: Candidate | None = None) -> Any:
        key = (what, candidate.key if candidate else "")
        known: dict[tuple[str, str], Any] = self.__dict__.setdefault("_declared", {})
        if key not in known:
            sent = {"kind": candidate.kind, "record": record_of(candidate)} if candidate else {}
            declared = _process.ask(self.name, what, settings=self.request_settings, **sent)
            if len(known) >= REMEMBERED:
                known.clear()
            known[key] = declared
        return known[key]

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return MEASURES.validate_python(self._ask("measures"))

    @property
    def gates(self) -> Mapping[str, tuple[float | None, float | None]]:
        return {name: (low, high) for name, (low, high) in self._ask("gates").items()}

    def accepts(self, candidate: Any) -> Refusal | None:
        refusal = self._ask("accepts", candidate)
        return None if refusal is None else Refusal(Reason(refusal[0]), refusal[1])

    def cost(self, candidate: Any) -> Cost:
        return Cost(self._ask("cost", candidate))


def asked_apart(kind: type[Verifier[Any]]) -> type[Verifier[Any]]:
    """The class, with what it declares asked in a process of its own. In such a process, and in those of jobs, the
    class itself; what it inherits unchanged from `Verifier` is asked of nobody."""
    if MARKER in os.environ:
        return kind
    own = {
        name: vars(_Asked)[name]
        for name in ("measures", "gates", "accepts", "cost")
        if getattr(kind, name) is not getattr(Verifier, name)
    }
    body = {"_ask": _Asked._ask, "__module__": kind.__module__, "__qualname__": kind.__qualname__, **own}
    return type(kind.__name__, (kind,), body | {"__doc__": kind.__doc__})
