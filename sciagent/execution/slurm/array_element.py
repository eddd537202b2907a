"""Runs one element of a job array on its node: the jobs reserved for it, then others that fit."""

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
from sciagent.execution.slurm.array_folders_submission_and_polling import own_element
from sciagent.execution.worker.worker_slot import Runner
from sciagent.store.database.ledger import Ledger

LINGER_SECONDS = 5.0  # wait for more jobs, since starting another element takes longer
LOOK_SECONDS = 0.25  # between looks for further jobs


class ElementTask(BaseModel):
    """The task of one array element, as the controller wrote it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str
    """The name under which its jobs are reserved."""
    jobs: list[int]
    """Ids of the jobs to run first, in one call."""
    queues: list[str]
    """Queues from which it takes further jobs."""
    seconds: float
    """Usable wall time of the element, in seconds."""
    margin: float
    """Safety factor: a further job is taken only if its expected time is at most the remaining time / margin."""
    memory_mb: int
    """Largest memory that a further job may request, in MB."""


def read_task(elements: Path) -> ElementTask:
    """Returns the task of this process. Raises SlurmError if it cannot be read."""
    return parse_task(own_element(elements), elements)


def parse_task(entry: Any, elements: Path) -> ElementTask:
    """Returns the task in an entry of the file `elements`. Raises SlurmError if the entry is not a task."""
    try:
        return ElementTask.model_validate(entry)
    except ValidationError as error:
        raise SlurmError(f"{elements}: not an element of sciagent: {error.errors()[0]['msg']}") from None


def run_element(ledger: Ledger, element: ElementTask, scratch: Path) -> int:
    """Run the jobs reserved for this element, then queued jobs that fit its time and memory. Returns their number.

    SIGTERM arrives shortly before the wall time ends. It stops the running job, which is queued again and resumes
    elsewhere from its checkpoint. Raises SlurmError if this node lacks what the reserved jobs need.
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
        n_jobs = runner.run_reserved(element.jobs, element.name)
        if not n_jobs and runner.refusal:
            raise SlurmError(f"cannot run its jobs on {socket.gethostname()}: {runner.refusal}")
        last_work = time.monotonic()
        while time.monotonic() - last_work < LINGER_SECONDS and not terminated.wait(LOOK_SECONDS):
            n_further_jobs = runner.run_next(seconds=(until - time.monotonic()) / element.margin)
            if n_further_jobs:
                n_jobs += n_further_jobs
                last_work = time.monotonic()
        return n_jobs
    finally:
        runner.close()
