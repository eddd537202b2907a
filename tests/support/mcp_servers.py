"""Starts the servers of `mcp_server`."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVER = Path(__file__).with_name("mcp_server.py")


@contextmanager
def over_http(folder: Path, *, port: int = 0, hostile: bool = False, token: str = "") -> Iterator[str]:
    """The URL of a server in a process of its own."""
    if not port:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    more = ["--http", str(port), *([token] if token else []), *(["--hostile"] if hostile else [])]
    with subprocess.Popen([sys.executable, str(SERVER), str(folder), *more]) as process:
        try:
            until_open(port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def starts(folder: Path) -> list[int]:
    """Process ids of all that were started in the folder."""
    return [int(line) for line in (folder / "starts.txt").read_text().split()]


def until_open(port: int) -> None:
    """Until somebody listens there."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with socket.socket() as trying:
            if trying.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the server did not start")
