"""An MCP server that is a program of ours: started without a shell, spoken to by lines on its stdin and stdout.

The SDK's own transport holds a line of any length; here a line and the whole have a limit, what the program says on
stderr is kept for messages and never reaches the terminal, and one that does not end is killed with its children.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, ObjectReceiveStream, ObjectSendStream, Process
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from sciagent.agent.foreign.opened import MAX_BYTES, MAX_MESSAGE, Opened

GRACE = 2.0  # seconds to end by itself, and again after SIGTERM
MAX_STDERR = 4000


@asynccontextmanager
async def process_streams(
    command: Sequence[str], extra: Mapping[str, str], folder: Path, opened: Opened
) -> AsyncIterator[tuple[Any, Any]]:
    """Streams of messages from and to the program. extra: variables beside the few that are handed on. opened: is told
    when the program ends, and why. Raises OSError where it cannot be started."""
    environment = get_default_environment() | dict(extra)
    process = await anyio.open_process(
        list(command), stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=folder, env=environment, start_new_session=True
    )
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, to_session, opened)
        tasks.start_soon(_write, process, from_session)
        tasks.start_soon(_listen, process, opened)
        try:
            yield from_server, to_server
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
                for stream in (to_session, from_server, to_server, from_session):
                    await stream.aclose()
            tasks.cancel_scope.cancel()


async def _read(process: Process, to_session: ObjectSendStream[Any], opened: Opened) -> None:
    """Lines that are messages go to the session; others, which careless programs print, are passed over."""
    assert process.stdout is not None
    held, total = b"", 0
    async with to_session:
        with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            while True:
                chunk = await process.stdout.receive()
                total += len(chunk)
                *lines, held = (held + chunk).split(b"\n")
                if total > MAX_BYTES or len(held) > MAX_MESSAGE or any(len(line) > MAX_MESSAGE for line in lines):
                    opened.fault = f"it sent more than a message or a connection may have ({MAX_MESSAGE} bytes)"
                    break
                for line in lines:
                    with contextlib.suppress(ValueError):
                        await to_session.send(
                            SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                        )
    opened.fault = opened.fault or "its program ended"
    opened.over = True
    opened.stop.set()


async def _write(process: Process, from_session: ObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        async for one in from_session:
            text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send(text.encode() + b"\n")


async def _listen(process: Process, opened: Opened) -> None:
    """Keeps the end of what it says on stderr."""
    stream: ByteReceiveStream | None = process.stderr
    assert stream is not None
    with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        while True:
            opened.said = (opened.said + await stream.receive())[-MAX_STDERR:]


async def _end(process: Process) -> None:
    """Close its stdin, wait, then end it and its children."""
    assert process.stdin is not None
    with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        with anyio.move_on_after(GRACE):
            await process.wait()
        if process.returncode is not None:
            break
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, number)
            else:
                process.kill()
    with anyio.move_on_after(GRACE):
        await process.aclose()
