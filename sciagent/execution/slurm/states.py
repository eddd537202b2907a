"""The states of array elements, from what Slurm says and what the elements left in the spool folder."""

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
    FAILED = "failed"  # with an exit code, or killed by a signal
    TIMED_OUT = "timed_out"  # ended by Slurm at its wall time, or stopped itself when it was warned
    OUT_OF_MEMORY = "out_of_memory"
    CANCELLED = "cancelled"
    NODE_FAIL = "node_fail"  # the node died, did not boot, or was taken for somebody else
    UNKNOWN = "unknown"  # Slurm uses a word that is not known here; ask again
    VANISHED = "vanished"  # Slurm has forgotten it, and it left no mark

    @property
    def ended(self) -> bool:
        return self not in (ElementState.PENDING, ElementState.RUNNING, ElementState.UNKNOWN)


@dataclass(frozen=True)
class Element:
    """code: its exit code, if it has one. signal: that killed it, if one did. word: Slurm's own; None if forgotten."""

    number: int
    state: ElementState
    code: int | None = None
    signal: int | None = None
    word: str | None = None


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
class Said:
    """What Slurm says of one element. code, signal: from its ExitCode, None if that was not asked."""

    word: str
    code: int | None = None
    signal: int | None = None


def decide_word(word: str) -> ElementState:
    """What a state of Slurm means by itself."""
    return _STATES.get(word, ElementState.UNKNOWN)


def decide(number: int, said: Said | None, spool: Spool) -> Element:
    """The state of an element. said: None if Slurm has forgotten it.

    Slurm calls an element that was stopped by the clock COMPLETED or FAILED; its own mark knows better, or the exit
    code of the script, where the mark is not to be seen yet.
    """
    if said is None:
        return _forgotten(number, spool.mark(number), spool.was_cancelled(number))
    state = decide_word(said.word)
    if not state.ended:
        return Element(number, state, word=said.word)
    mark = spool.mark(number)
    killed = None if mark else said.signal or None
    code = mark.code if mark else None if killed else said.code
    if state in (ElementState.COMPLETED, ElementState.FAILED) and (
        spool.was_warned(number) or (mark is None and said.code == TIMED_OUT_CODE)
    ):
        state = ElementState.TIMED_OUT
    elif state is ElementState.FAILED and mark is None and spool.ran_out_of_memory(number):
        state = ElementState.OUT_OF_MEMORY
    return Element(number, state, 0 if state is ElementState.COMPLETED else code, killed, said.word)


def _forgotten(number: int, mark: Mark | None, cancelled: bool) -> Element:
    if mark is None:
        return Element(number, ElementState.CANCELLED if cancelled else ElementState.VANISHED)
    if mark.warned:
        state = ElementState.TIMED_OUT
    elif mark.stopped:
        state = ElementState.CANCELLED
    else:
        state = ElementState.FAILED if mark.code else ElementState.COMPLETED
    return Element(number, state, mark.code)


_RECORD = {
    key: re.compile(rf"(?:^| ){key}=(\S*)") for key in ("JobName", "Name", "JobState", "ExitCode", "ArrayTaskId")
}
_EXIT_CODE = re.compile(r"(\d{1,5}):(\d{1,5})")


def queue_lines(lines: Iterable[str]) -> Iterable[tuple[int, str, int | None, Said]]:
    """Job id, name, element and state, of each line of squeue in QUEUE_FORMAT that has them.

    Element None: the record of those that never began, once they are cancelled all together.
    """
    for line in lines:
        job, element, word, name = [*line.strip().split("|", 3), "", "", ""][:4]
        if job.isdecimal() and word and (element.isdecimal() or element == "N/A"):
            yield int(job), name, int(element) if element.isdecimal() else None, Said(word)


QUEUE_FORMAT = "%F|%K|%T|%j"  # id of the array, number of the element, state, name


def records(lines: Iterable[str], name: str) -> Iterable[tuple[int, Said]]:
    """Elements of the array of that name in lines of `scontrol show job --oneliner` or of jobcomp/filetxt."""
    for line in lines:
        found = {key: match[1] for key, pattern in _RECORD.items() if (match := pattern.search(line))}
        number = found.get("ArrayTaskId", "")
        if name in (found.get("JobName"), found.get("Name")) and number.isdecimal():
            ended = _EXIT_CODE.fullmatch(found.get("ExitCode", ""))
            code, signal = (int(ended[1]), int(ended[2])) if ended else (None, None)
            yield int(number), Said(found.get("JobState", ""), code, signal)
