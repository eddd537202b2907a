"""Ends a process that takes no notice of Ctrl-C or SIGTERM, since a library computes without an end.

Python obeys a signal between two of its own instructions. While RDKit or another library in C++ computes, neither a
signal handler nor a thread of the process can run. So another process watches: Python's own handler in C tells it of
each signal at once, and the handler in Python, once it runs, answers. After `PATIENCE_SECONDS` without an answer the
process is killed. A ledger then holds the last commit, as after any kill.

The file is also the program of that other process; therefore it imports nothing but the standard library at its top.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

PATIENCE_SECONDS = 20.0
"""Time that a process has to take notice of a signal; longer than one wait for a lock of SQLite."""
ANSWER = b"\0"
"""The byte that the process writes when it has noticed the signal; no signal has this number."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
_pipe: list[int] = []
"""The writing end of the pipe to the watching process; empty if there is none."""


@contextmanager
def stuck_process_ends(patience: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Within the block, this process is killed if it takes no notice of SIGINT or SIGTERM for `patience` seconds.

    In a thread other than the main thread it does nothing, since only the main thread receives signals.
    """
    if _pipe or threading.current_thread() is not threading.main_thread():
        yield
        return
    from sciagent.verification.sandbox.process_trees import die_with

    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    watch = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(patience)],
        stdin=reading,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is sent to all processes of a session
        preexec_fn=partial(die_with, os.getpid()),
    )
    os.close(reading)
    before = signal.signal(signal.SIGINT, _interrupt)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    _pipe.append(writing)
    try:
        yield
    finally:
        _pipe.clear()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, before)
        os.close(writing)
        watch.kill()  # faster than the end of its input
        watch.wait()


def answer_signal() -> None:
    """Says that this process has taken notice of a signal. Each handler in Python calls it first."""
    for writing in _pipe:
        os.write(writing, ANSWER)


def _interrupt(number: int, frame: FrameType | None) -> None:
    answer_signal()
    raise KeyboardInterrupt


def watch(pid: int, patience: float) -> None:
    """Reads signals and answers from stdin, until it ends or the process has to be killed."""
    kill_at: float | None = None
    while True:
        remaining = None if kill_at is None else max(0.0, kill_at - time.monotonic())
        readable, _, _ = select.select([0], [], [], remaining)
        if not readable:
            sys.stderr.write(
                f"sciagent: the process has not obeyed a signal for {patience:g} s, since it is within a long "
                "computation of a library; it is ended. A campaign goes on with: sciagent resume NAME\n"
            )
            sys.stderr.flush()
            os.kill(pid, signal.SIGKILL)
            return
        received = os.read(0, 4096)
        if not received:
            return
        for number in received:
            if number == ANSWER[0]:
                kill_at = None
            elif number in SIGNALS and kill_at is None:
                kill_at = time.monotonic() + patience


if __name__ == "__main__":
    watch(int(sys.argv[1]), float(sys.argv[2]))
