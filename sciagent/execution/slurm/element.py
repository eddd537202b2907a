"""Runs one element of a job array on its node: the job reserved for it, then others that fit."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from sciagent.errors import SlurmError
from sciagent.execution.slurm.spool import own_element
from sciagent.execution.worker.runner import Runner
from sciagent.store.database.ledger import Ledger

LINGER_SECONDS = 5.0  # wait for more jobs, since starting another element takes longer
LOOK_SECONDS = 0.25


class ElementTask(BaseModel):
    """What one element of an array is to do, as the controller wrote it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str
    """The name under which its job is reserved."""
    job: int
    """Id of the job to run first."""
    queues: list[str]
    """Queues from which it takes further jobs."""
    seconds: float
    """Wall time of the element."""
    margin: float
    """A further job must be expected to take at most the remaining time divided by this."""
    memory_mb: int
    """The most memory that a further job may request."""


def read_task(elements: Path) -> ElementTask:
    """The task of this process. Raises SlurmError."""
    return parse_task(own_element(elements), elements)


def parse_task(entry: Any, elements: Path) -> ElementTask:
    """The task in an entry of the file. Raises SlurmError."""
    try:
        return ElementTask.model_validate(entry)
    except ValidationError as error:
        raise SlurmError(f"{elements}: not an element of sciagent: {error.errors()[0]['msg']}") from None


def run_element(ledger: Ledger, element: ElementTask, scratch: Path) -> int:
    """Run the job that is reserved for this element, then queued ones that fit its time and memory; return how many.

    TERM, which comes shortly before the time is up, stops the running job: it is queued again, and resumes elsewhere
    from its checkpoint.
    """
    owner = f"{element.name}@{socket.gethostname()}:{os.getpid()}"
    runner = Runner(ledger, owner, element.queues, scratch, memory_mb=element.memory_mb)
    until = time.monotonic() + element.seconds
    terminated = threading.Event()

    def on_term(number: int, frame: FrameType | None) -> None:
        terminated.set()
        runner.stop()

    signal.signal(signal.SIGTERM, on_term)
    try:
        ran = runner.run_reserved(element.job, element.name)
        idle = time.monotonic()
        while time.monotonic() - idle < LINGER_SECONDS and not terminated.wait(LOOK_SECONDS):
            if more := runner.run_next((until - time.monotonic()) / element.margin):
                ran, idle = ran + more, time.monotonic()
        return ran
    finally:
        runner.close()
