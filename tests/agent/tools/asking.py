"""Real MCP servers, asked over standard streams or HTTP."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sciagent.agent.tools.mcp_client import Server, Servers
from tests.support.mcp_servers import SERVER, over_http, starts


@contextmanager
def asked(way: str, folder: Path, *tools: str, timeout: float = 20.0, hostile: bool = False) -> Iterator[Servers]:
    if way == "http":
        with over_http(folder, hostile=hostile) as url:
            servers = Servers([Server("lit", tools, timeout, url=url)])
            try:
                yield servers
            finally:
                servers.close()
        return
    command = (sys.executable, str(SERVER), str(folder), *(["--hostile"] if hostile else []))
    servers = Servers([Server("lit", tools, timeout, command, folder)])
    try:
        yield servers
    finally:
        servers.close()


def until_ended(folder: Path) -> None:
    """Every program that was started is gone."""
    for pid in starts(folder):
        until = time.monotonic() + 15
        while alive(pid):
            assert time.monotonic() < until, f"{pid} is left"
            time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


WAYS = ("stdio", "http")
