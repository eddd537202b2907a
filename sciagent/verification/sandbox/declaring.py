"""The process that third-party verifiers are asked in: `python -m sciagent.verification.sandbox.declaring`.

It reads a question a line and writes an answer a line. What runs a verifier is a child of the process that was
started, so that a verifier that stops or kills its parent stops no one who matters. See `declarations`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Mapping
from functools import cache
from typing import Any

from sciagent.chemistry.payload import candidate_from_record
from sciagent.verification.contract import PropertyAtLevel, Refusal, Verifier
from sciagent.verification.cost import declared_cost
from sciagent.verification.registry import verifier_class
from sciagent.verification.sandbox.declarations import MEASURES
from sciagent.verification.sandbox.job import Limits
from sciagent.verification.sandbox.processes import virtual_size
from sciagent.verification.sandbox.wire import dumps


@cache
def _class(name: str) -> type[Verifier[Any]]:
    kind = verifier_class(name)
    limit, hard = virtual_size() + (Limits().memory_mb << 20), resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    return kind


@cache
def _verifier(name: str, settings: str) -> Verifier[Any]:
    return _class(name)(json.loads(settings))


def answer(question: Mapping[str, Any]) -> Any:
    """What a verifier declares, as JSON. Raises whatever it raises, and TypeError for what is no declaration."""
    name, what = question["verifier"], question["what"]
    if what == "import":
        return _class(name).name
    verifier = _verifier(name, json.dumps(question["settings"], sort_keys=True))
    if what == "measures":
        measures = tuple(verifier.measures)
        if odd := next((entry for entry in measures if not isinstance(entry, PropertyAtLevel)), None):
            raise TypeError(f"it holds a {type(odd).__name__}; use at(LEVEL, PROPERTY, ...)")
        return MEASURES.dump_python(measures, mode="json")
    if what == "gates":
        return {name: [low, high] for name, (low, high) in verifier.gates.items()}
    candidate = candidate_from_record(question["kind"], question["record"])
    if what == "cost":
        return dict(declared_cost(verifier, candidate))
    refusal = verifier.accepts(candidate)
    if refusal is not None and not isinstance(refusal, Refusal):
        raise TypeError(f"a {type(refusal).__name__}, not a Refusal")
    return None if refusal is None else [str(refusal.reason), str(refusal.detail)]


def serve(asked: int, answers: int) -> None:
    """Answer until nobody asks any more."""
    with os.fdopen(asked, encoding="utf-8") as lines:
        for line in lines:
            question = json.loads(line)
            signal.alarm(question["seconds"])  # ends this process: who asked may be gone
            try:
                reply = dumps({"answer": answer(question)})
            except (Exception, SystemExit) as error:  # noqa: BLE001  a plug-in may raise anything
                last = traceback.format_exception_only(error)[-1].strip()
                reply = dumps({"error": type(error).__name__, "text": str(error)[:2000], "last": last[:2000]})
            signal.alarm(0)
            while reply:
                reply = reply[os.write(answers, reply) :]


def main() -> None:
    child = os.fork()
    if child:
        os.close(0)
        os.close(1)
        os.waitpid(child, 0)
        return
    asked, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # plug-ins print
        os.dup2(nothing, number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    serve(asked, answers)


if __name__ == "__main__":
    main()
