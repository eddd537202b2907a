"""The MCP servers of a campaign: connects to them, calls their tools, and reconnects after a failure.

A failed call is not repeated, since it may have had an effect. All servers share one event loop, which runs in a thread
of its own, so that callers need none.
"""

from __future__ import annotations

import concurrent.futures
import json
import logging
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup, TaskStatus
from anyio.from_thread import start_blocking_portal
from mcp import Client, ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    Tool,
)

from sciagent import __version__
from sciagent.agent.http_answer_limit import IDENTITY, bound_body
from sciagent.agent.tools import bound_mcp_server_output
from sciagent.agent.tools.mcp_tool_and_reduced_schema import ForeignTool, plain
from sciagent.agent.tools.tool_contract_and_calls import CallError, Observation, read_arguments
from sciagent.domain.safe_text_and_durations import bounded, one_line, without_secrets
from sciagent.errors import SciagentError, UsageError

START_SECONDS = 30.0
"""Seconds allowed for a server to start and to list its tools. A longer call timeout replaces them."""
FIRST_PAUSE = 2.0  # seconds after the second failure in a row; each later pause is twice as long
LONGEST_PAUSE = 600.0
MAX_MESSAGE = 1 << 20  # bytes of a message
MAX_STREAM = 1 << 26  # bytes of a stream of events
MAX_PAGES = 20  # pages of a server's list of tools
_INFO = Implementation(name="sciagent", version=__version__)

for _name in ("mcp", "client"):  # silences the SDK's loggers, which would print a server's faults on the terminal
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False


@dataclass(frozen=True)
class Server:
    """An MCP server that the campaign file lists, by a command or a URL."""

    name: str
    tools: tuple[str, ...]
    """Names of the tools that the model may call."""
    timeout: float
    """Seconds allowed for one call."""
    command: tuple[str, ...] | None = None
    folder: Path = Path()
    """The folder in which the command runs."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the command, besides basic ones such as `PATH` and `HOME`."""
    url: str = ""
    token: str | None = None
    """Bearer token, sent to the URL with every request. Redirects to another origin are not followed."""

    def without_secrets(self, text: str) -> str:
        """Returns the server's text without the values of its token and variables."""
        return without_secrets(text, (self.token, *self.variables.values()))


class ServerError(SciagentError):
    """The server did not answer, or refused the call. The caller is shown the message."""


@dataclass(frozen=True)
class Connection:
    """An open connection to a server that has listed its tools."""

    session: ClientSession
    tools: Mapping[str, Tool]
    close: Callable[[], None]


class Link:
    """The connection to one server. tasks: the task group that runs the connection."""

    def __init__(self, server: Server, tasks: TaskGroup) -> None:
        self.server = server
        self._tasks = tasks
        self._lock = anyio.Lock()
        self._connection: Connection | None = None
        self._failures = 0  # in a row
        self._again_at = 0.0  # time of the monotonic clock before which new calls are refused
        self._fault = ""  # why the last HTTP answer was refused; the SDK does not pass this on

    async def connect(self) -> Connection:
        """Returns the open connection, or opens one. Raises ServerError."""
        async with self._lock:
            if self._connection is None:
                pause = self._again_at - time.monotonic()
                if pause > 0:
                    raise ServerError(f"it failed {self._failures} times in a row, and is tried again in {pause:.0f} s")
                limit = max(START_SECONDS, self.server.timeout)
                self._fault = ""
                try:
                    with anyio.fail_after(limit):
                        self._connection = await self._tasks.start(self._hold)
                except TimeoutError:
                    raise self._failure(connection=None, fault=f"it did not start within {limit:g} s") from None
                except Exception as error:  # noqa: BLE001  whatever a server or a transport does is that server's fault
                    raise self._failure(connection=None, fault=_first_of(error)) from None
            return self._connection

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Calls a tool and returns the answer. Raises ServerError; the next call reconnects if needed."""
        connection = await self.connect()
        self._fault = ""
        # `session.call_tool` would run regular expressions of the server's own schema on the answer
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        try:
            with anyio.fail_after(self.server.timeout):
                result = await connection.session.send_request(request, CallToolResult)
        except TimeoutError:
            raise self._failure(connection, f"it did not answer within {self.server.timeout:g} s") from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                fault = f"it ended, or sent more than a message may have ({MAX_MESSAGE} bytes)"
                raise self._failure(connection, fault) from None
            # the SDK reports broken messages and refused HTTP answers as errors of the call, too
            if error.code in (INVALID_REQUEST, PARSE_ERROR) or self._fault:
                raise self._failure(connection, f"the connection broke: {one_line(str(error), 300)}") from None
            self._failures = 0
            raise ServerError(f"it refused: {one_line(str(error), 600)}") from None
        except Exception as error:  # noqa: BLE001  the SDK raises what the server made it raise
            raise self._failure(connection, f"it sent what cannot be read: {one_line(str(error), 300)}") from None
        self._failures = 0
        return result

    def _failure(self, connection: Connection | None, fault: str) -> ServerError:
        """Closes the connection and returns the error for a call. All calls that were open on it count as one failure
        together. From the second failure on, new calls are refused for a while."""
        if connection is self._connection:
            self._failures = self._failures + 1
            self._connection = None
            if self._failures > 1:
                n_doublings = min(self._failures - 2, 20)  # bounded, so that the power stays small
                pause = min(FIRST_PAUSE * 2**n_doublings, LONGEST_PAUSE)
                self._again_at = time.monotonic() + pause
        if connection is not None:
            connection.close()
        return ServerError(f"{fault}; {self._fault}" if self._fault else fault)

    async def _hold(self, *, task_status: TaskStatus[Connection]) -> None:
        """Keeps a connection open until it is closed. Raises errors only before the connection is established."""
        is_established = False
        try:
            async with Client(self._transport(), client_info=_INFO, cache=None) as client:
                tools = await _offered_tools(client)
                missing = [name for name in self.server.tools if name not in tools]
                if missing:
                    raise ServerError(
                        f"it does not offer {one_line(', '.join(missing), 300)}; it offers: "
                        f"{one_line(', '.join(sorted(tools)) or 'nothing', 1000)}"
                    )
                with anyio.CancelScope() as scope:
                    is_established = True
                    task_status.started(Connection(client.session, tools, scope.cancel))
                    await anyio.sleep_forever()
        except Exception:  # the calls on the connection report that it ended
            if not is_established:
                raise

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        """Yields the streams of messages to and from the server: by HTTP, or of the program that is started."""
        server = self.server
        if server.command is None:
            headers = dict(IDENTITY)
            if server.token:
                headers["Authorization"] = f"Bearer {server.token}"
            async with (
                httpx2.AsyncClient(
                    headers=headers, timeout=server.timeout + 5, event_hooks={"response": [self._check]}
                ) as client,
                streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
            ):
                yield streams
            return
        arguments = ["-I", bound_mcp_server_output.__file__, str(MAX_MESSAGE), *server.command]
        program = StdioServerParameters(
            command=sys.executable, args=arguments, env=dict(server.variables), cwd=server.folder
        )
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            try:
                async with stdio_client(program, log) as streams:
                    yield streams
            except Exception as error:  # the server did not start, and its last output usually says why
                log.seek(0)
                last_words = one_line(log.read()[-400:], 500)
                raise ServerError(f"{_first_of(error)}; it printed: {last_words or 'nothing'}") from error

    async def _check(self, response: httpx2.Response) -> None:
        """Limits the body of an HTTP answer. In a stream of events, the SDK also limits each event."""
        # a GET only asks for events besides the answers, and a server may refuse it
        if response.status_code >= 400 and response.request.method == "POST":
            self._report(f"HTTP {response.status_code}")
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        bound_body(response, MAX_STREAM if is_stream else MAX_MESSAGE, self._report)

    def _report(self, fault: str) -> None:
        self._fault = fault


async def _offered_tools(client: Client) -> dict[str, Tool]:
    """Returns the tools of a server by name, from the first MAX_PAGES pages of its list."""
    tools: dict[str, Tool] = {}
    cursor = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools |= {tool.name: tool for tool in page.tools}
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


def _first_of(error: BaseException) -> str:
    """Returns the text of the first error of a group, on one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return one_line(str(error) or type(error).__name__, 300)


MAX_DESCRIPTION = 600  # characters of a tool's description


class Servers:
    """The connected MCP servers of a campaign. Several threads may call tools at the same time."""

    def __init__(self, servers: Iterable[Server]) -> None:
        """Raises UsageError if a server does not start, or does not offer a tool that the campaign names."""
        self.tools: dict[str, ForeignTool] = {}
        """The tools, by the name that the model calls."""
        with ExitStack() as undo:
            self._portal = undo.enter_context(start_blocking_portal())
            undo.callback(self._portal.call, self._portal.stop, True)  # True: cancels the tasks that still run
            _future, self._links = self._portal.start_task(self._hold, tuple(servers))
            for link in self._links.values():
                self._add_tools(link)
            self._undo = undo.pop_all()

    async def _hold(self, servers: tuple[Server, ...], *, task_status: TaskStatus[dict[str, Link]]) -> None:
        """Runs the task that holds the connections until all are closed."""
        async with anyio.create_task_group() as tasks:
            task_status.started({server.name: Link(server, tasks) for server in servers})
            await anyio.sleep_forever()

    def _add_tools(self, link: Link) -> None:
        server = link.server
        try:
            offered = self._portal.call(link.connect).tools
        except ServerError as error:
            why = server.without_secrets(str(error))
            raise UsageError(f'the MCP server "{server.name}" of the campaign cannot be used: {why}') from None
        for name in server.tools:
            tool = offered[name]
            text = one_line(tool.description or tool.title or f"The tool {name} of {server.name}.", MAX_DESCRIPTION)
            schema = json.loads(server.without_secrets(json.dumps(tool.input_schema)))
            added = ForeignTool(server.name, name, server.without_secrets(text), plain(schema))
            self.tools[added.name] = added

    def call(self, name: str, arguments: str) -> Observation:
        """Carries out a call as the model wrote it and waits for the answer. name: a key of `tools`. Faults of the call
        or the server are reported in the observation, not raised."""
        tool = self.tools[name]
        link = self._links[tool.server]
        try:
            given = read_arguments(arguments)
            tool.check(given)
            result = self._portal.start_task_soon(link.call, tool.tool, given).result()
        except CallError as error:
            return Observation(ok=False, text=bounded(f"error: {error}"))
        except (ServerError, concurrent.futures.CancelledError, RuntimeError) as error:
            why = error if isinstance(error, ServerError) else "the campaign stops"
            text = f"error: the server {tool.server} was asked in vain: {why}. Go on without it, or try again later."
            return Observation(ok=False, text=bounded(link.server.without_secrets(text)))
        return Observation(ok=not result.is_error, text=link.server.without_secrets(tool.observed(result)))

    def close(self) -> None:
        """Cancels the open calls and ends the programs that were started."""
        self._undo.close()
