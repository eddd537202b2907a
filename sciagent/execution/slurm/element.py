"""What an element of an array does on its node: the jobs that are reserved for it, one after the other."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path
from types import FrameType

from pydantic import BaseModel, ConfigDict, ValidationError

from sciagent.errors import SlurmError
from sciagent.execution.slurm.spool import own_element
from sciagent.execution.worker.runner import Runner
from sciagent.store.database.ledger import Ledger

LINGER_SECONDS = 5.0  # for more to do: starting another element takes longer
LOOK_SECONDS = 0.25


class Element(BaseModel):
    """As the follower wrote it. seconds: wall time that it has; margin: of that, times what a job is expected to take;
    memory_mb: what a job may ask for."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str
    jobs: list[int]
    queues: list[str]
    seconds: float
    margin: float
    memory_mb: int


def read_element(elements: Path) -> Element:
    """That of this process. Raises SlurmError."""
    try:
        return Element.model_validate(own_element(elements))
    except ValidationError as error:
        raise SlurmError(f"{elements}: this is no element of ours: {error.errors()[0]['msg']}") from None


def run_element(ledger: Ledger, element: Element, scratch: Path) -> int:
    """Run what is still its own, then what else waits and fits into its time and memory; how many that was. TERM, which
    comes when the time is nearly up, ends what runs: it waits again, and goes on elsewhere from its checkpoint."""
    owner = f"{element.name}@{socket.gethostname()}:{os.getpid()}"
    runner = Runner(ledger, owner, element.queues, scratch, memory_mb=element.memory_mb)
    until = time.monotonic() + element.seconds
    told = threading.Event()

    def on_term(number: int, frame: FrameType | None) -> None:
        told.set()
        runner.stop()

    signal.signal(signal.SIGTERM, on_term)
    try:
        ran = sum(runner.run_reserved(job_id, element.name) for job_id in element.jobs)
        idle = time.monotonic()
        while time.monotonic() - idle < LINGER_SECONDS and not told.wait(LOOK_SECONDS):
            if more := runner.run_next((until - time.monotonic()) / element.margin):
                ran, idle = ran + more, time.monotonic()
        return ran
    finally:
        runner.close()
