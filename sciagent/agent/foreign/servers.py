"""The MCP servers of a campaign, for threads without an event loop. The event loop runs in its own thread."""

from __future__ import annotations

import concurrent.futures
import json
from collections.abc import Iterable
from contextlib import ExitStack

import anyio
from anyio.abc import TaskStatus
from anyio.from_thread import start_blocking_portal

from sciagent.agent.tools.foreign_tools import ForeignTool, plain
from sciagent.agent.tools.mcp_client import Link, Server, ServerError
from sciagent.agent.tools.reading import CallError, read_arguments
from sciagent.agent.tools.registry import Observation
from sciagent.domain.text import bounded, one_line
from sciagent.errors import UsageError

MAX_DESCRIPTION = 600


class Servers:
    """The connected MCP servers of a campaign. Several threads may call tools at the same time."""

    def __init__(self, servers: Iterable[Server]) -> None:
        """Raises UsageError if a server does not start, or does not offer a tool that the campaign names."""
        self.tools: dict[str, ForeignTool] = {}
        """The tools, by the name that the model calls."""
        with ExitStack() as undo:
            self._portal = undo.enter_context(start_blocking_portal())
            undo.callback(self._portal.call, self._portal.stop, True)
            _, self._links = self._portal.start_task(self._hold, tuple(servers))
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
            return Observation(False, bounded(f"error: {error}"))
        except (ServerError, concurrent.futures.CancelledError, RuntimeError) as error:
            why = error if isinstance(error, ServerError) else "the campaign stops"
            text = f"error: the server {tool.server} was asked in vain: {why}. Go on without it, or try again later."
            return Observation(False, bounded(link.server.without_secrets(text)))
        return Observation(not result.is_error, link.server.without_secrets(tool.observed(result)))

    def close(self) -> None:
        """Cancels the open calls and ends the programs that were started."""
        self._undo.close()
