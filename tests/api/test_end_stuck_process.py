"""A process obeys Ctrl-C and SIGTERM although a call in C does not return."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import sys, time
from sciagent.api.end_stuck_process import stuck_process_ends
from sciagent.api.terminal_tables_and_signals import each_signal
computation = {"in C": lambda: sum(range(10**12)), "in Python": lambda: time.sleep(60)}[sys.argv[1]]
with stuck_process_ends(1.0):
    if sys.argv[2] == "first step":
        with each_signal(lambda: sys.exit(7), last=sys.exit):
            print("begun", flush=True)
            computation()
    print("begun", flush=True)
    computation()
"""


def _end(computation: str, step: str, number: signal.Signals) -> tuple[int, str, float]:
    """Sends a signal to the computation. Returns exit code, stderr and the seconds until the process has ended."""
    command = [sys.executable, "-c", PROGRAM, computation, step]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.3)  # until the computation has begun
        began = time.monotonic()
        process.send_signal(number)
        _, messages = process.communicate(timeout=60)
        return process.returncode, messages, time.monotonic() - began


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_call_in_c_that_does_not_return_is_ended_after_a_signal(number: signal.Signals) -> None:
    code, messages, seconds = _end("in C", "first step", number)
    assert (code, "has not obeyed a signal for 1 s" in messages) == (-signal.SIGKILL, True)
    assert seconds > 0.7


def test_a_signal_that_python_obeys_ends_nothing_by_force() -> None:
    code, messages, _ = _end("in Python", "first step", signal.SIGTERM)
    assert (code, messages) == (7, "")
    code, messages, _ = _end("in Python", "none", signal.SIGINT)
    assert (code in (1, -signal.SIGINT, 130), "obeyed" in messages) == (True, False)
    assert "KeyboardInterrupt" in messages
