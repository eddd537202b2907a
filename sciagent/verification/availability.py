"""Whether a verifier can run on this machine, in this environment or in its own (`sciagent engines`).

`python -m sciagent.verification.availability` answers for the environment of that interpreter. The question, as JSON on
its standard input, has the verifier's name and settings; the answer has its version, the hash of its settings, and what
is missing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sciagent import engines
from sciagent.errors import SciagentError, UsageError
from sciagent.verification.contract import BaseVerifier
from sciagent.verification.registry import verifier_class


def unavailable(verifier: BaseVerifier[Any]) -> str | None:
    """Returns None if a job of the verifier can run on this machine, else what is missing and how to get it."""
    try:
        python = interpreter_of(verifier)
        if python is None:
            return _here(verifier)
        settings = json.dumps(verifier.request_settings, sort_keys=True)
        there = _asked(python, engines.inspect_once(python), verifier.name, settings)
    except SciagentError as error:
        return str(error)
    if there["missing"] is not None:
        return f"in the environment {verifier.runs_in}: {there['missing']}"
    verifier_hash = type(verifier)(verifier.settings).settings_hash  # without the campaign, which it does not know
    if (there["version"], there["settings_hash"]) != (verifier.version, verifier_hash):
        return (
            f"the environment {verifier.runs_in} has version {there['version']} of {verifier.name} or other defaults, "
            f"and this is version {verifier.version}; install the same packages in both"
        )
    return None


def interpreter_of(verifier: BaseVerifier[Any]) -> Path | None:
    """Returns the interpreter that runs the verifier's jobs; None for that of this process.

    An environment that is not listed on this machine is no fault if this one has the engine. Raises UsageError."""
    name = verifier.runs_in
    if name is None:
        return None
    python = engines.environments().get(name)
    if python is None:
        if (here := _here(verifier)) is None:
            return None
        raise UsageError(
            f"{verifier.name} runs in an environment of its own, {name}, which is not listed on this machine: "
            f"sciagent engines add {name} --python PATH; and in the present environment: {here}"
        )
    return None if _is_this(python) else python


def missing_of(kind: type[BaseVerifier[Any]]) -> str | None:
    """Returns what a verifier of default settings lacks on this machine. Without defaults the class itself is asked."""
    if any(field.is_required() for field in kind.Settings.model_fields.values()):
        return _guarded(kind.missing)
    return unavailable(kind())


def _here(verifier: BaseVerifier[Any]) -> str | None:
    return _guarded(verifier.lacks)


def _guarded(ask: Any) -> str | None:
    """Returns the answer of a plug-in, or the exception that it raised instead."""
    try:
        answer = ask()
    except Exception as error:  # noqa: BLE001  a plug-in may raise anything
        return f"missing() fails: {type(error).__name__}: {error}"[:500]
    return None if answer is None else " ".join(str(answer).split())[:1000]


def _is_this(python: Path) -> bool:
    """Whether the interpreter is that of this process: an environment is the folder of its interpreter."""
    return python.parent == Path(sys.executable).parent and python.resolve() == Path(sys.executable).resolve()


@lru_cache(maxsize=256)
def _asked(python: Path, versions: tuple[tuple[str, str], ...], name: str, settings: str) -> Mapping[str, Any]:
    """Returns the answer of another environment. versions: those of the environment, so that a new one is asked again.
    Raises UsageError."""
    question = json.dumps({"verifier": name, "settings": json.loads(settings)})
    answer: Mapping[str, Any] = json.loads(engines.ask(python, "-m", __name__, stdin=question))
    if "error" in answer:
        raise UsageError(f"{python}: {answer['error']}")
    return answer


def main() -> None:
    """Answers the question on standard input."""
    question = json.load(sys.stdin)
    try:
        verifier = verifier_class(question["verifier"])(question["settings"])
        answer = {"version": verifier.version, "settings_hash": verifier.settings_hash, "missing": _here(verifier)}
    except (SciagentError, ValueError, TypeError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"[:1000]}
    sys.stdout.write(f"{json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
