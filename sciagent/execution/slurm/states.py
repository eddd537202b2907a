"""The states of array elements, from squeue and from the files that elements left in the spool folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from sciagent.execution.slurm.spool import Spool


class ElementState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"  # ended with a non-zero exit code, or was killed by a signal
    TIMED_OUT = "timed_out"  # killed by Slurm at its wall time, or stopped itself after the warning
    CANCELLED = "cancelled"
    LOST = "lost"  # the node died, or Slurm has no record of it any more and it left no file
    UNKNOWN = "unknown"  # Slurm reports a state that is not listed here; ask again later

    @property
    def ended(self) -> bool:
        return self not in (ElementState.PENDING, ElementState.RUNNING, ElementState.UNKNOWN)


@dataclass(frozen=True)
class ElementStatus:
    """The state of one element of an array."""

    number: int
    state: ElementState
    code: int | None = None
    """Exit code of the element's command, if the command ended."""


_WORDS = {
    ElementState.PENDING: "PENDING CONFIGURING REQUEUED REQUEUE_HOLD REQUEUE_FED RESV_DEL_HOLD SPECIAL_EXIT",
    ElementState.RUNNING: "RUNNING COMPLETING SUSPENDED STOPPED SIGNALING STAGE_OUT RESIZING UPDATE_DB POWER_UP_NODE",
    ElementState.COMPLETED: "COMPLETED",
    ElementState.FAILED: "FAILED",
    ElementState.TIMED_OUT: "TIMEOUT DEADLINE",
    ElementState.CANCELLED: "CANCELLED REVOKED",
    ElementState.LOST: "NODE_FAIL BOOT_FAIL PREEMPTED LAUNCH_FAILED RECONFIG_FAIL OUT_OF_MEMORY",
}
_STATES = {word: state for state, words in _WORDS.items() for word in words.split()}


def element_status(number: int, word: str | None, spool: Spool) -> ElementStatus:
    """The state of an element. word: Slurm's name of its state; None if Slurm has no record of it any more.

    Slurm reports COMPLETED or FAILED for an element that was stopped at its time limit. The element's own files show
    the difference, and the exit code of its command.
    """
    mark = spool.mark(number)
    code = None if mark is None else mark.code
    if word is None:
        state = ElementState.LOST
        if mark is not None:
            state = ElementState.FAILED if mark.code else ElementState.COMPLETED
            state = ElementState.CANCELLED if mark.stopped else state
    else:
        state = _STATES.get(word, ElementState.UNKNOWN)
    if state.ended and spool.was_warned(number) and word in (None, "COMPLETED", "FAILED"):
        state = ElementState.TIMED_OUT
    return ElementStatus(number, state, code if state.ended else None)


QUEUE_FORMAT = "%K|%T|%j"  # number of the element, state, name


def queue_lines(lines: Iterable[str]) -> Iterator[tuple[str, int | None, str]]:
    """Name, element number and state from each complete line of squeue in QUEUE_FORMAT.

    The number is None in the joint record of elements that never started and were cancelled together.
    """
    for line in lines:
        element, word, name = [*line.strip().split("|", 2), "", ""][:3]
        if name and (element.isdecimal() or element == "N/A"):
            yield name, int(element) if element.isdecimal() else None, word
