"""A server as it is held through a campaign: connected, asked, and connected anew after it failed.

Runs in the event loop of `servers`. A call that failed is not sent again: nobody knows what it did.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp.types import CONNECTION_CLOSED, INVALID_REQUEST, PARSE_ERROR, REQUEST_TIMEOUT, CallToolResult

from sciagent.agent.foreign.address import address_streams
from sciagent.agent.foreign.opened import Opened, first_of
from sciagent.agent.foreign.process import process_streams
from sciagent.agent.foreign.schemas import one_line
from sciagent.agent.tools.wording import short
from sciagent.domain.text import without_secrets
from sciagent.errors import SciagentError

START_SECONDS = 30.0  # that a server may take to start and list its tools, or one call's timeout if that is longer
FIRST_PAUSE = 2.0  # seconds, after the second failure in a row; each is twice the last
LONGEST_PAUSE = 600.0
_BROKEN = (CONNECTION_CLOSED, INVALID_REQUEST, PARSE_ERROR, REQUEST_TIMEOUT)  # what a transport says of itself

_log = logging.getLogger("sciagent")
for _name in ("mcp", "client"):  # the SDK's: what a server does wrong is said by us, not on the terminal in its words
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False


@dataclass(frozen=True)
class Server:
    """name: the campaign's for it. command or url; folder: where a command runs. extra: variables that it is given.
    token: for a url. tools: those that may be called. timeout: seconds of one call."""

    name: str
    tools: tuple[str, ...]
    timeout: float
    command: tuple[str, ...] | None = None
    folder: Path = Path()
    extra: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    token: str | None = None


class ServerError(SciagentError):
    """A server did not answer, or refused; the message is for who called. last_words: of its program."""

    def __init__(self, message: str, last_words: str = "") -> None:
        super().__init__(message)
        self.last_words = last_words


class Link:
    """tasks: where connections are held."""

    def __init__(self, server: Server, tasks: TaskGroup) -> None:
        self.server, self._tasks = server, tasks
        self._lock = anyio.Lock()
        self._current: Opened | None = None
        self._failures, self._again_at = 0, 0.0

    def without_secrets(self, text: str) -> str:
        """A text of the server's, without the token and the variables that it was given."""
        return without_secrets(text, (self.server.token, *self.server.extra.values()))

    async def open(self) -> Opened:
        """The connection, made if there is none. Raises ServerError."""
        async with self._lock:
            if self._current is not None and not self._current.over:
                return self._current
            if (left := self._again_at - time.monotonic()) > 0:
                raise ServerError(f"it failed {self._failures} times in a row, and is tried again in {left:.0f} s")
            opened = Opened()
            self._tasks.start_soon(self._hold, opened)
            with anyio.move_on_after(max(START_SECONDS, self.server.timeout)) as late:
                await opened.ready.wait()
            if late.cancelled_caught:
                opened.fault = opened.fault or f"it did not start within {max(START_SECONDS, self.server.timeout):g} s"
            if not opened.over and opened.session is not None:
                missing = [name for name in self.server.tools if name not in opened.tools]
                if missing:
                    opened.fault = (
                        f"it does not offer {short(', '.join(missing), 300)}; it offers: "
                        f"{short(', '.join(sorted(opened.tools)) or 'nothing', 1000)}"
                    )
            if opened.fault or opened.session is None:
                self._retire(opened)
                raise ServerError(opened.why or "it ended", opened.last_words)
            self._current = opened
            return opened

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        """What it answers. Raises ServerError; where the connection is at fault, the next call makes a new one."""
        opened = await self.open()
        assert opened.session is not None
        opened.users, opened.status = opened.users + 1, 0
        try:
            with anyio.fail_after(self.server.timeout):
                found = await opened.session.call_tool(tool, arguments)
            assert isinstance(found, CallToolResult)
        except TimeoutError:
            opened.fault = opened.fault or f"it did not answer within {self.server.timeout:g} s"
            self._retire(opened)
            raise ServerError(opened.fault) from None
        except MCPError as error:
            if error.code in _BROKEN or opened.over or opened.status:
                self._retire(opened)
                raise ServerError(f"the connection broke: {opened.why or one_line(str(error), 300)}") from None
            self._failures = 0
            raise ServerError(f"it refused: {one_line(str(error), 600)}") from None
        except Exception as error:  # noqa: BLE001  the SDK raises what the server made it raise
            self._retire(opened)
            raise ServerError(f"it answered what cannot be read: {one_line(str(error), 300)}") from None
        finally:
            opened.users -= 1
            if opened.over and not opened.users:
                opened.stop.set()
        self._failures = 0
        return found

    def _retire(self, opened: Opened) -> None:
        """No new call on it; those that are out may finish. The first failure costs no pause."""
        if not opened.failed:
            opened.failed = True
            self._failures += 1
            if self._failures > 1:
                pause = min(FIRST_PAUSE * 2 ** min(self._failures - 2, 20), LONGEST_PAUSE)
                self._again_at = time.monotonic() + pause
            if opened.users:  # else it is at a start, and who starts is told
                said = self.without_secrets(f"{opened.why} {opened.last_words}")
                _log.warning('MCP server "%s" failed: %s', self.server.name, said)
        opened.over = True
        if self._current is opened:
            self._current = None
        if not opened.users:
            opened.stop.set()

    async def _hold(self, opened: Opened) -> None:
        """Keeps a connection: what is entered here is left here, whoever asks for it."""
        try:
            async with self._streams(opened) as (read, write):
                with anyio.CancelScope() as inside:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(_until, opened.stop, inside)
                        await opened.greet(read, write)
        except Exception as error:  # noqa: BLE001  whatever a server or a transport does is a fault of that server
            opened.fault = opened.fault or first_of(error)
        finally:
            opened.over = True
            opened.fault = opened.fault or "it ended"
            opened.stop.set()
            opened.ready.set()

    def _streams(self, opened: Opened) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        server = self.server
        if server.command is not None:
            return process_streams(server.command, server.extra, server.folder, opened)
        return address_streams(server.url, server.token, server.timeout, opened)


async def _until(stop: anyio.Event, scope: anyio.CancelScope) -> None:
    """Ends what is under way in a scope: a greeting that hangs, too."""
    await stop.wait()
    scope.cancel()
