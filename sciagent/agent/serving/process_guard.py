"""Runs a server, and ends it with all its processes once the parent process has ended. Standard library only.

    python -I process_guard.py COMMAND...

The parent holds the other end of standard input open. When the parent ends, even if killed, this pipe closes. The
server's process group then gets SIGTERM, and SIGKILL after GRACE seconds. The exit code is the server's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

GRACE = 15.0  # seconds


def main(command: list[str]) -> int:
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_end_with_parent, args=(server.pid,), daemon=True).start()
    code = server.wait()
    until = time.monotonic() + GRACE
    while _signal(server.pid, signal.SIGKILL) and time.monotonic() < until:
        time.sleep(0.01)  # there is no notification when processes end after their leader
    return code if code >= 0 else 128 - code  # the code that a shell gives for a process that a signal ended


def _end_with_parent(group: int) -> None:
    sys.stdin.buffer.read()
    _signal(group, signal.SIGTERM)
    time.sleep(GRACE)
    _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    """Sends a signal. Returns whether the process group still exists."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
