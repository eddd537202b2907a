"""What an element of an array does on its node: the jobs that are reserved for it, one after the other."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from types import FrameType

from pydantic import BaseModel, ConfigDict, ValidationError

from sciagent.errors import SlurmError
from sciagent.execution.runner import Runner
from sciagent.execution.slurm.spool import own_element
from sciagent.store.ledger import Ledger


class Element(BaseModel):
    """As the follower wrote it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str
    jobs: list[int]


def read_element(elements: Path) -> Element:
    """That of this process. Raises SlurmError."""
    try:
        return Element.model_validate(own_element(elements))
    except ValidationError as error:
        raise SlurmError(f"{elements}: this is no element of ours: {error.errors()[0]['msg']}") from None


def run_element(ledger: Ledger, element: Element, scratch: Path) -> int:
    """Run what is still its own; how many that was. TERM, which comes when the time is nearly up, ends what runs: it
    waits again, and goes on elsewhere from its checkpoint."""
    runner = Runner(ledger, f"{element.name}@{socket.gethostname()}:{os.getpid()}", (), scratch)

    def on_term(number: int, frame: FrameType | None) -> None:
        runner.stop()

    signal.signal(signal.SIGTERM, on_term)
    try:
        return sum(runner.run_reserved(job_id, element.name) for job_id in element.jobs)
    finally:
        runner.close()
