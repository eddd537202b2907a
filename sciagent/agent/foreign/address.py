"""An MCP server at an address, over streamable HTTP, with a limit on what it may send."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from sciagent.agent.bounded_http import IDENTITY, bound_body
from sciagent.agent.foreign.opened import MAX_BYTES, MAX_MESSAGE, Opened


@asynccontextmanager
async def address_streams(
    url: str, token: str | None, timeout: float, opened: Opened
) -> AsyncIterator[tuple[Any, Any]]:
    """Streams of messages from and to the server. token: sent with every request to it; a redirect to another origin
    is not followed. timeout: seconds of silence after which a request is given up."""

    def report(fault: str) -> None:
        opened.fault = fault

    async def check(response: httpx2.Response) -> None:
        if response.status_code >= 400 and response.request.method == "POST":
            opened.status = response.status_code
        streamed = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        bound_body(response, MAX_BYTES if streamed else MAX_MESSAGE, report)

    headers = IDENTITY | ({"Authorization": f"Bearer {token}"} if token else {})
    hooks: Any = {"response": [check]}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(timeout + 5), event_hooks=hooks) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        yield streams
