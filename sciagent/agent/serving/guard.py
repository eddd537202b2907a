"""Runs a server, and ends it with all its processes when whoever started this is gone. Standard library only.

    python -I guard.py COMMAND...

Its standard input is a pipe that its parent holds open. However the parent ends, killed too, the pipe closes; then the
server's process group gets SIGTERM, and SIGKILL after GRACE seconds. Its own exit code is the server's.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

GRACE = 15.0  # seconds


def main(command: list[str]) -> int:
    asked, ask = os.pipe()  # whatever should end the server: the pipe of the parent, a signal, the server's own end
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    os.set_blocking(ask, False)
    signal.set_wakeup_fd(ask, warn_on_full_buffer=False)
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    while server.poll() is None:
        ready, _, _ = select.select([sys.stdin, asked], [], [])
        received = os.read(asked, 64) if asked in ready else b""
        if sys.stdin in ready or set(received) - {int(signal.SIGCHLD)}:
            break
    _end(server, asked)
    return server.returncode if server.returncode >= 0 else 128 - server.returncode


def _end(server: subprocess.Popen[bytes], asked: int) -> None:
    """End all processes of the group, including those that outlive its leader."""
    _signal(server.pid, signal.SIGTERM)
    until = time.monotonic() + GRACE
    while server.poll() is None and (left := until - time.monotonic()) > 0:
        select.select([asked], [], [], left)  # woken by SIGCHLD
        os.read(asked, 64) if select.select([asked], [], [], 0)[0] else None
    until = time.monotonic() + GRACE
    while _signal(server.pid, signal.SIGKILL) and time.monotonic() < until:
        server.poll()
        time.sleep(0.01)  # nothing tells when the grandchildren of a process are gone
    server.wait()


def _signal(group: int, number: int) -> bool:
    """Send a signal; returns whether the group still exists."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
