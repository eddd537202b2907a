"""One connection to a server, from the first greeting to its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp import ClientSession, MCPError
from mcp.types import CallToolResult, Implementation, PaginatedRequestParams, Tool

from sciagent import __version__
from sciagent.agent.foreign.schemas import one_line

MAX_MESSAGE = 1 << 20  # bytes of one message
MAX_BYTES = 1 << 26  # bytes that one connection may bring; then it is made anew
MAX_PAGES = 20  # of a server's list of tools
MAX_LISTED = 2000


class Session(ClientSession):
    """The SDK's, which also holds answers to the schema that the server gives for them: regular expressions and
    references of a stranger's, run in our process. What comes is text to us, so nothing is lost without."""

    async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
        return


@dataclass(eq=False)
class Opened:
    """session: once it is greeted. users: calls that are out. over: no new call may begin on it. failed: it was counted
    as a failure. said: the end of what a program wrote on stderr. status: of the last HTTP answer that was an error.
    ready: it is greeted, or over. stop: when set, it is closed."""

    session: Session | None = None
    tools: dict[str, Tool] = field(default_factory=dict)
    users: int = 0
    over: bool = False
    failed: bool = False
    fault: str = ""
    said: bytes = b""
    status: int = 0
    ready: anyio.Event = field(default_factory=anyio.Event)
    stop: anyio.Event = field(default_factory=anyio.Event)

    @property
    def why(self) -> str:
        """What went wrong, as far as it is known, on one line."""
        return "; ".join(part for part in (self.fault, f"HTTP {self.status}" if self.status else "") if part)

    @property
    def last_words(self) -> str:
        """What a program said at the end, on one line: for people, not for a model."""
        return one_line(self.said.decode(errors="replace")[-600:], 500)

    async def greet(self, read: Any, write: Any) -> None:
        """Greet, list the tools, and stay until it is to be closed or the other side is gone."""
        info = Implementation(name="sciagent", version=__version__)
        async with Session(read, write, client_info=info) as session:
            try:
                await session.discover()
            except (MCPError, RuntimeError, ValueError):  # a server of before 2026
                await session.initialize()
            await self._list(session)
            self.session, self.status = session, 0
            self.ready.set()
            await self.stop.wait()

    async def _list(self, session: Session) -> None:
        cursor = None
        for _ in range(MAX_PAGES):
            page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            self.tools |= {one.name: one for one in page.tools[: MAX_LISTED - len(self.tools)]}
            cursor = page.next_cursor
            if cursor is None or len(self.tools) >= MAX_LISTED:
                return


def first_of(error: BaseException) -> str:
    """What a group of errors began with, in a few words."""
    return next((one_line(str(one) or type(one).__name__, 300) for one in _leaves(error)), type(error).__name__)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    elif not isinstance(error, anyio.BrokenResourceError):
        yield error
