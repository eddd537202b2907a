"""What Slurm says and what an element left behind, put together: every word, and every pair that disagrees."""

from __future__ import annotations

import pytest

from sciagent.execution.slurm.spool import Spool
from sciagent.execution.slurm.states import ElementState, SlurmRecord, element_status, queue_lines, records
from tests.execution.slurm.marks import leave, spool

__all__ = ["spool"]

WORDS = {
    "PENDING": "pending",
    "CONFIGURING": "pending",
    "REQUEUED": "pending",
    "RUNNING": "running",
    "COMPLETING": "running",
    "SUSPENDED": "running",
    "COMPLETED": "completed",
    "FAILED": "failed",
    "TIMEOUT": "timed_out",
    "DEADLINE": "timed_out",
    "OUT_OF_MEMORY": "out_of_memory",
    "CANCELLED": "cancelled",
    "NODE_FAIL": "node_fail",
    "BOOT_FAIL": "node_fail",
    "PREEMPTED": "node_fail",
    "NEW_IN_2031": "unknown",
}


@pytest.mark.parametrize(("word", "state"), WORDS.items())
def test_a_word_of_slurm_has_one_meaning(spool: Spool, word: str, state: str) -> None:
    found = element_status(0, SlurmRecord(word), spool)
    assert (str(found.state), found.word) == (state, word)
    assert found.state.ended == (state not in ("pending", "running", "unknown"))


@pytest.mark.parametrize("word", ["COMPLETED", "FAILED"])
def test_a_trapped_time_out_is_a_time_out_whatever_slurm_calls_it(spool: Spool, word: str) -> None:
    (spool.folder / "warned.0").touch()
    assert element_status(0, SlurmRecord(word), spool).state is ElementState.TIMED_OUT
    leave(spool, 0, warned=True)
    assert element_status(0, SlurmRecord(word), spool).state is ElementState.TIMED_OUT
    assert element_status(0, None, spool).state is ElementState.TIMED_OUT


def test_the_exit_code_of_the_script_tells_where_its_marks_are_not_to_be_seen_yet(spool: Spool) -> None:
    assert element_status(0, SlurmRecord("FAILED", 124, 0), spool).state is ElementState.TIMED_OUT
    leave(spool, 124)
    found = element_status(0, SlurmRecord("FAILED", 124, 0), spool)
    assert (found.state, found.code) == (ElementState.FAILED, 124), "it is the command's own"


def test_one_that_was_warned_and_runs_still_runs(spool: Spool) -> None:
    (spool.folder / "warned.0").touch()
    assert element_status(0, SlurmRecord("RUNNING"), spool).state is ElementState.RUNNING


@pytest.mark.parametrize(
    ("code", "stopped", "state"),
    [(0, False, "completed"), (3, False, "failed"), (143, True, "cancelled"), (0, True, "cancelled")],
)
def test_what_slurm_has_forgotten_is_what_its_mark_says(spool: Spool, code: int, stopped: bool, state: str) -> None:
    leave(spool, code, stopped=stopped)
    found = element_status(0, None, spool)
    assert (str(found.state), found.code, found.word) == (state, code, None)


def test_without_a_mark_it_has_vanished_unless_we_cancelled_it(spool: Spool) -> None:
    assert element_status(0, None, spool).state is ElementState.VANISHED
    spool.note_cancelled([0])
    assert element_status(0, None, spool).state is ElementState.CANCELLED


def test_only_slurm_s_own_line_is_read_as_out_of_memory(spool: Spool) -> None:
    out = spool.folder / "out.0"
    out.write_text("I exceeded memory limit\nsays slurmstepd: error: Exceeded job memory limit\n")
    assert element_status(0, SlurmRecord("FAILED", 0, 9), spool).state is ElementState.FAILED
    out.write_text("x\n" * 10_000 + "slurmstepd-n1: error: StepId=4.batch exceeded memory limit (2 > 1)\n")
    assert element_status(0, SlurmRecord("FAILED", 0, 9), spool).state is ElementState.OUT_OF_MEMORY
    leave(spool, 3)
    assert element_status(0, SlurmRecord("FAILED"), spool).state is ElementState.FAILED, "it came to its end"


def test_lines_that_are_not_as_asked_are_passed_over() -> None:
    lines = ["", "x", "1|2", "a|0|RUNNING|n", "7|3|RUNNING|sciagent-a|b", "7|N/A|CANCELLED|n", "7|x|RUNNING|n"]
    assert list(queue_lines(lines)) == [
        (7, "sciagent-a|b", 3, SlurmRecord("RUNNING")),
        (7, "n", None, SlurmRecord("CANCELLED")),
    ]


def test_a_record_is_that_of_the_array_of_that_name() -> None:
    lines = [
        "JobId=9 ArrayJobId=7 ArrayTaskId=1 JobName=sciagent-a JobState=FAILED ExitCode=3:0 Comment=JobState=OK",
        "JobId=8 ArrayJobId=7 ArrayTaskId=0 JobName=other JobState=COMPLETED ExitCode=0:0",
        "JobId=7 ArrayJobId=7 ArrayTaskId=2-4%2 JobName=sciagent-a JobState=PENDING ExitCode=0:0",
        "JobId=5 UserId=u Name=sciagent-a JobState=FAILED ArrayJobId=4 ArrayTaskId=2 DerivedExitCode=0:0 ExitCode=0:9 ",
    ]
    assert list(records(lines, "sciagent-a")) == [(1, SlurmRecord("FAILED", 3, 0)), (2, SlurmRecord("FAILED", 0, 9))]
