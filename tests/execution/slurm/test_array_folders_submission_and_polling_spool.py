"""What elements leave in the spool, and what is read from it and from Slurm: each word, and pairs that disagree."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.execution.slurm.array_folders_submission_and_polling import (
    ElementState,
    ExitMark,
    Spool,
    element_status,
    queue_lines,
)
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
    "OUT_OF_MEMORY": "lost",
    "CANCELLED": "cancelled",
    "NODE_FAIL": "lost",
    "BOOT_FAIL": "lost",
    "PREEMPTED": "lost",
    "NEW_IN_2031": "unknown",
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"code": 0}',
        '{"code": -1, "warned": false, "stopped": false}\n',
        "[" * 5000,
        "\0" * 10000,
        '{"code": 0, "warned": false, "stopped": false}\n' * 2,
        '{"code": 0, "warned": false, "stopped": fal',
    ],
    ids=range(8),
)
def test_a_mark_that_is_not_whole_is_none(spool: Spool, text: str) -> None:
    (spool.folder / "exit.0").write_text(text)
    assert spool.exit_mark(0) is None
    assert element_status(0, None, spool).state is ElementState.LOST


@pytest.mark.parametrize("token", ["../../etc", "0123456789ABCDEF", "0123456789abcde", "0123456789abcdef\n"])
def test_a_token_that_is_none_of_ours_is_no_folder(tmp_path: Path, token: str) -> None:
    with pytest.raises(ValueError):
        Spool(str(tmp_path), token)


def test_a_mark_says_how_the_command_ended(spool: Spool) -> None:
    leave(spool, 7, stopped=True)
    assert spool.exit_mark(0) == ExitMark(7, True)


@pytest.mark.parametrize(("word", "state"), WORDS.items())
def test_a_word_of_slurm_has_one_meaning(spool: Spool, word: str, state: str) -> None:
    found = element_status(0, word, spool)
    assert str(found.state) == state
    assert found.state.ended == (state not in ("pending", "running", "unknown"))


@pytest.mark.parametrize("word", ["COMPLETED", "FAILED"])
def test_a_trapped_time_out_is_a_time_out_whatever_slurm_calls_it(spool: Spool, word: str) -> None:
    (spool.folder / "warned.0").touch()
    assert element_status(0, word, spool).state is ElementState.TIMED_OUT
    leave(spool, 0, warned=True)
    assert element_status(0, word, spool).state is ElementState.TIMED_OUT
    assert element_status(0, None, spool).state is ElementState.TIMED_OUT


def test_one_that_was_warned_and_runs_still_runs(spool: Spool) -> None:
    (spool.folder / "warned.0").touch()
    assert element_status(0, "RUNNING", spool).state is ElementState.RUNNING


@pytest.mark.parametrize(
    ("code", "stopped", "state"),
    [(0, False, "completed"), (3, False, "failed"), (143, True, "cancelled"), (0, True, "cancelled")],
)
def test_what_slurm_has_forgotten_is_what_its_mark_says(spool: Spool, code: int, stopped: bool, state: str) -> None:
    leave(spool, code, stopped=stopped)
    found = element_status(0, None, spool)
    assert (str(found.state), found.code) == (state, code)


def test_without_a_mark_it_is_lost(spool: Spool) -> None:
    assert element_status(0, None, spool).state is ElementState.LOST


def test_lines_that_are_not_as_asked_are_passed_over() -> None:
    lines = ["", "x", "1|2", "a|RUNNING|n", "3|RUNNING|sciagent-a|b", "N/A|CANCELLED|n", "x|RUNNING|n"]
    assert list(queue_lines(lines)) == [("sciagent-a|b", 3, "RUNNING"), ("n", None, "CANCELLED")]
