"""Answers for the declarations of verifiers: `python -m sciagent.verification.sandbox.declaration_process FD`."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Mapping
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import candidate_from_record
from sciagent.verification.sandbox.messages import Limits
from sciagent.verification.sandbox.process_trees import limit_memory, virtual_size
from sciagent.verification.verifier_contract import BaseVerifier, Refusal
from sciagent.verification.verifier_registry import verifier_class


@cache
def _class(name: str) -> type[BaseVerifier[Any]]:
    """Imports the verifier's class, and then limits the memory of this process."""
    kind = verifier_class(name)
    limit_memory(virtual_size() + (Limits().memory_mb << 20))
    return kind


@cache
def _verifier(name: str, settings: str) -> BaseVerifier[Any]:
    return _class(name)(json.loads(settings))


def answer(name: str, what: str, settings: Mapping[str, Any], sent: tuple[str, Mapping[str, Any]] | None) -> Any:
    """Returns a declaration of a verifier. sent: kind and record of the candidate. Raises the verifier's exception, and
    TypeError if `accepts` returns neither None nor a Refusal."""
    if what == "import":
        return _class(name).name
    if what == "missing":
        return _class(name).missing()
    verifier = _verifier(name, json.dumps(settings, sort_keys=True))
    if sent is None:
        declared = getattr(verifier, what)
        return declared() if what == "lacks" else declared  # the other declarations are properties
    kind, record = sent
    method = getattr(verifier, what)
    declared = method(candidate_from_record(kind, record))
    if what == "accepts" and not isinstance(declared, Refusal | None):
        raise TypeError(f"a {type(declared).__name__}, not a Refusal")
    return declared


def main(fd: int) -> None:
    """Answers questions until the connection is closed."""
    os.set_inheritable(fd, False)
    connection = Connection(fd)
    # verifiers run in the child: one that signals its parent meets this idle process, and not the driver
    child = os.fork()
    if child != 0:  # this is the parent
        connection.close()
        os.waitpid(child, 0)
        return
    while True:
        seconds, question = connection.recv()
        signal.alarm(seconds)  # ends this process, since the driver may be gone
        try:
            reply = pickle.dumps((True, answer(*question)))
        except (Exception, SystemExit) as error:  # noqa: BLE001  a plug-in may raise anything
            reply = pickle.dumps((False, traceback.format_exception_only(error)[-1].strip()[:2000]))
        signal.alarm(0)
        connection.send_bytes(reply)


if __name__ == "__main__":
    main(int(sys.argv[1]))
