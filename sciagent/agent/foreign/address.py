"""An MCP server at an address, over streamable HTTP, with a limit on what it may send."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from sciagent.agent.foreign.opened import MAX_BYTES, MAX_MESSAGE, Opened


class _Counted(httpx2.AsyncByteStream):
    """A body that breaks off when it grows longer than `limit` bytes."""

    def __init__(self, body: Any, limit: int, opened: Opened) -> None:
        self._body, self._limit, self._opened = body, limit, opened

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for chunk in self._body:
            total += len(chunk)
            if total > self._limit:
                self._opened.fault = f"it sent more than an answer may have ({self._limit} bytes)"
                raise httpx2.StreamError(self._opened.fault)
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


@asynccontextmanager
async def address_streams(
    url: str, token: str | None, timeout: float, opened: Opened
) -> AsyncIterator[tuple[Any, Any]]:
    """Streams of messages from and to the server. token: sent with every request to it; a redirect to another origin
    is not followed. timeout: seconds of silence after which a request is given up."""

    async def check(response: httpx2.Response) -> None:
        if response.status_code >= 400 and response.request.method == "POST":
            opened.status = response.status_code
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            opened.fault = "it sent a compressed answer, which it was asked not to"
            raise httpx2.StreamError(opened.fault)
        streamed = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = _Counted(response.stream, MAX_BYTES if streamed else MAX_MESSAGE, opened)

    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {})
    hooks: Any = {"response": [check]}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(timeout + 5), event_hooks=hooks) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        yield streams
