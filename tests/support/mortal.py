"""A process that runs jobs, one way of four, and dies at a chosen stage of the first paid one.

    python -m tests.support.mortal STAGE EXECUTOR LEDGER BROKER ELEMENT [LIVES]

STAGE: `claimed` (before its verification), `running`, `finished` (before anything of it is written) or `never`.
LIVES: this many processes one after another, each of which has to be killed; they share the imports.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from sciagent.cli import main as command_line
from sciagent.execution.slurm.array_element import ElementTask, run_element
from sciagent.store.database.ledger import Ledger
from sciagent.verification.sandbox.host import HostResult, Request, Worker
from tests.support.warm import IMPORTED

RUNNING_SECONDS = 1.7


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(stage: str) -> None:
    """Each way ends in `Worker.run`, in this process."""
    run = Worker.run

    def run_and_die(self: Worker, request: Request, hear: Any = None) -> list[HostResult]:
        if request.verifier != "bad.remote" or stage == "never":
            return run(self, request, hear)
        if stage == "claimed":
            _die()
        if stage == "running":
            timer = threading.Timer(RUNNING_SECONDS, _die)
            timer.daemon = True
            timer.start()
        results = run(self, request, hear)
        if stage == "finished":
            _die()
        return results

    Worker.run = run_and_die  # type: ignore[method-assign]


def main(stage: str, executor: str, ledger: str, broker: str, element: str) -> None:
    die_at(stage)
    if executor == "slurm":
        opened = Ledger(ledger, artifacts=Path(os.environ["SCIAGENT_ARTIFACTS"]))
        run_element(opened, ElementTask.model_validate_json(element), Path("scratch-slurm"))
        return
    told = ["--executor", executor] + (["--broker", broker] if executor == "celery" else [])
    words = ["resume", "elsewhere", "--no-report"] if executor == "local" else ["worker", "--cores", "2", *told]
    sys.argv = ["sciagent", *words, "--ledger", ledger]
    command_line.main()


def live(lives: int, *arguments: str) -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    for _ in range(lives):
        if not (child := os.fork()):
            main(*arguments)
            os._exit(0)
        if (code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) != -signal.SIGKILL:
            sys.exit(f"it was not killed: {code}")


if __name__ == "__main__":
    if sys.argv[6:]:
        live(int(sys.argv[6]), *sys.argv[1:6])
    else:
        main(*sys.argv[1:])
