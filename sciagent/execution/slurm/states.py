"""The states of array elements, from Slurm's records and the files that elements left in the spool folder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from sciagent.execution.slurm.script import TIMED_OUT_CODE
from sciagent.execution.slurm.spool import Mark, Spool


class ElementState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"  # ended with a non-zero exit code, or was killed by a signal
    TIMED_OUT = "timed_out"  # killed by Slurm at its wall time, or stopped itself after the warning
    OUT_OF_MEMORY = "out_of_memory"
    CANCELLED = "cancelled"
    NODE_FAIL = "node_fail"  # the node died or did not boot, or the job was preempted
    UNKNOWN = "unknown"  # Slurm reports a state that is not listed here; ask again later
    VANISHED = "vanished"  # Slurm has no record of it any more, and it left no file

    @property
    def ended(self) -> bool:
        return self not in (ElementState.PENDING, ElementState.RUNNING, ElementState.UNKNOWN)


@dataclass(frozen=True)
class ElementStatus:
    """The state of one element of an array."""

    number: int
    state: ElementState
    code: int | None = None
    """Exit code, if it has one."""
    signal: int | None = None
    """The signal that killed it, if one did."""
    word: str | None = None
    """Slurm's own name of the state; None if Slurm has no record any more."""


_WORDS = {
    ElementState.PENDING: "PENDING CONFIGURING REQUEUED REQUEUE_HOLD REQUEUE_FED RESV_DEL_HOLD SPECIAL_EXIT",
    ElementState.RUNNING: "RUNNING COMPLETING SUSPENDED STOPPED SIGNALING STAGE_OUT RESIZING UPDATE_DB POWER_UP_NODE",
    ElementState.COMPLETED: "COMPLETED",
    ElementState.FAILED: "FAILED",
    ElementState.TIMED_OUT: "TIMEOUT DEADLINE",
    ElementState.OUT_OF_MEMORY: "OUT_OF_MEMORY",
    ElementState.CANCELLED: "CANCELLED REVOKED",
    ElementState.NODE_FAIL: "NODE_FAIL BOOT_FAIL PREEMPTED LAUNCH_FAILED RECONFIG_FAIL",
}
_STATES = {word: state for state, words in _WORDS.items() for word in words.split()}


@dataclass(frozen=True)
class SlurmRecord:
    """Slurm's record of one element."""

    word: str
    """Slurm's name of the state."""
    code: int | None = None
    """Exit code; None if the record does not hold it."""
    signal: int | None = None
    """The signal that ended it, 0 for none; None if the record does not hold it."""


def state_of(word: str) -> ElementState:
    """The state for Slurm's word, without regard to the spool folder."""
    return _STATES.get(word, ElementState.UNKNOWN)


def element_status(number: int, record: SlurmRecord | None, spool: Spool) -> ElementStatus:
    """The state of an element. said: None if Slurm has forgotten it.

    Slurm calls an element that was stopped by the clock COMPLETED or FAILED. The element's own mark tells the
    difference, or the script's exit code while the mark is not visible yet.
    """
    if record is None:
        return _forgotten(number, spool.mark(number), spool.was_cancelled(number))
    state = state_of(record.word)
    if not state.ended:
        return ElementStatus(number, state, word=record.word)
    mark = spool.mark(number)
    killed = None if mark else record.signal or None
    code = mark.code if mark else None if killed else record.code
    if state in (ElementState.COMPLETED, ElementState.FAILED) and (
        spool.was_warned(number) or (mark is None and record.code == TIMED_OUT_CODE)
    ):
        state = ElementState.TIMED_OUT
    elif state is ElementState.FAILED and mark is None and spool.ran_out_of_memory(number):
        state = ElementState.OUT_OF_MEMORY
    return ElementStatus(number, state, 0 if state is ElementState.COMPLETED else code, killed, record.word)


def _forgotten(number: int, mark: Mark | None, cancelled: bool) -> ElementStatus:
    if mark is None:
        return ElementStatus(number, ElementState.CANCELLED if cancelled else ElementState.VANISHED)
    if mark.warned:
        state = ElementState.TIMED_OUT
    elif mark.stopped:
        state = ElementState.CANCELLED
    else:
        state = ElementState.FAILED if mark.code else ElementState.COMPLETED
    return ElementStatus(number, state, mark.code)


_RECORD = {
    key: re.compile(rf"(?:^| ){key}=(\S*)") for key in ("JobName", "Name", "JobState", "ExitCode", "ArrayTaskId")
}
_EXIT_CODE = re.compile(r"(\d{1,5}):(\d{1,5})")


def queue_lines(lines: Iterable[str]) -> Iterable[tuple[int, str, int | None, SlurmRecord]]:
    """Job id, name, element number and record from each complete line of squeue in QUEUE_FORMAT.

    The number is None in the joint record of elements that never started and were cancelled together.
    """
    for line in lines:
        job, element, word, name = [*line.strip().split("|", 3), "", "", ""][:4]
        if job.isdecimal() and word and (element.isdecimal() or element == "N/A"):
            yield int(job), name, int(element) if element.isdecimal() else None, SlurmRecord(word)


QUEUE_FORMAT = "%F|%K|%T|%j"  # id of the array, number of the element, state, name


def records(lines: Iterable[str], name: str) -> Iterable[tuple[int, SlurmRecord]]:
    """Element numbers and records of the named array, from `scontrol show job --oneliner` or jobcomp/filetxt."""
    for line in lines:
        fields = {key: match[1] for key, pattern in _RECORD.items() if (match := pattern.search(line))}
        number = fields.get("ArrayTaskId", "")
        if name in (fields.get("JobName"), fields.get("Name")) and number.isdecimal():
            ended = _EXIT_CODE.fullmatch(fields.get("ExitCode", ""))
            code, signal = (int(ended[1]), int(ended[2])) if ended else (None, None)
            yield int(number), SlurmRecord(fields.get("JobState", ""), code, signal)
