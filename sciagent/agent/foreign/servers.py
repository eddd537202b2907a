"""The MCP servers of a campaign, for threads that do not know of event loops: one loop in a thread of its own."""

from __future__ import annotations

import concurrent.futures
import json
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.from_thread import start_blocking_portal
from pydantic.json_schema import JsonSchemaValue

from sciagent.agent.foreign.answers import told
from sciagent.agent.foreign.checking import check_arguments
from sciagent.agent.foreign.link import Link, Server, ServerError
from sciagent.agent.foreign.naming import called
from sciagent.agent.foreign.schemas import closed, is_strict, one_line, plain
from sciagent.agent.tools.reading import CallError, read_arguments
from sciagent.agent.tools.registry import Observation
from sciagent.agent.tools.wording import bounded
from sciagent.errors import UsageError

MAX_DESCRIPTION = 600


@dataclass(frozen=True)
class ForeignTool:
    """name: as the model calls it; tool: as its server does. arguments: their schema, cut down to what is plain."""

    name: str
    server: str
    tool: str
    description: str
    arguments: Mapping[str, Any]

    @property
    def schema(self) -> JsonSchemaValue:
        """In OpenAI's form; strict only where the server's schema happens to be so."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.arguments),
            "strict": is_strict(self.arguments),
        }
        return {"type": "function", "function": function}

    @property
    def written(self) -> JsonSchemaValue | None:
        """The arguments as a grammar can write them; None where it cannot."""
        return closed(self.arguments)


class Servers:
    """Started whole or not at all. `tools`: by the name that the model calls. Threads may call at the same time."""

    def __init__(self, servers: Iterable[Server]) -> None:
        """Raises UsageError for a server that does not start, or does not offer what is allowed of it."""
        self.tools: dict[str, ForeignTool] = {}
        self._links: dict[str, Link] = {}
        self._closed = threading.Event()
        with ExitStack() as undo:
            self._portal = undo.enter_context(start_blocking_portal("asyncio"))
            undo.callback(self._portal.call, self._portal.stop, True)
            self._holding, links = self._portal.start_task(self._hold, tuple(servers))
            for link in links:
                self._begin(link)
            self._undo = undo.pop_all()

    async def _hold(self, servers: tuple[Server, ...], *, task_status: Any) -> None:
        """Connections live in this task, until all are closed."""
        async with anyio.create_task_group() as tasks:
            task_status.started([Link(one, tasks) for one in servers])
            await anyio.sleep_forever()

    def _begin(self, link: Link) -> None:
        name = link.server.name
        try:
            opened = self._portal.call(link.open)
        except ServerError as error:
            said = f"; it said: {error.last_words}" if error.last_words else ""
            why = link.without_secrets(f"{error}{said}")
            raise UsageError(f'the MCP server "{name}" of the campaign cannot be used: {why}') from None
        self._links[name] = link
        for tool in link.server.tools:
            found = opened.tools[tool]
            text = one_line(found.description or found.title or "", MAX_DESCRIPTION) or f"The tool {tool} of {name}."
            schema = json.loads(link.without_secrets(json.dumps(found.input_schema)))
            made = ForeignTool(called(name, tool), name, tool, link.without_secrets(text), plain(schema))
            self.tools[made.name] = made

    def call(self, name: str, arguments: str) -> Observation:
        """Carry out a call as a model wrote it; waits for the answer. name: one of `tools`. Raises nothing for what
        was written, nor for what a server does."""
        tool = self.tools[name]
        link = self._links[tool.server]
        try:
            given = check_arguments(tool.name, tool.arguments, read_arguments(arguments))
            found = self._asked(tool, given)
        except CallError as error:
            return Observation(False, bounded(f"error: {error}"), tool=name)
        except ServerError as error:
            text = f"error: the server {tool.server} was asked in vain: {error}. Go on without it, or try again later."
            return Observation(False, bounded(link.without_secrets(text)), tool=name)
        text = told(tool.server, found.content, found.structured_content)
        return Observation(not found.is_error, link.without_secrets(text), tool=name)

    def _asked(self, tool: ForeignTool, given: Mapping[str, Any]) -> Any:
        if self._closed.is_set():
            raise ServerError("the campaign stops")
        try:
            return self._portal.start_task_soon(self._links[tool.server].call, tool.tool, dict(given)).result()
        except (concurrent.futures.CancelledError, RuntimeError):
            raise ServerError("the campaign stops") from None

    def close(self) -> None:
        """Calls that are out are given up; programs that were started are ended."""
        if not self._closed.is_set():
            self._closed.set()
            self._undo.close()
