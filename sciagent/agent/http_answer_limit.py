"""Limits the size of HTTP answers from servers that sciagent does not control."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2

IDENTITY = {"Accept-Encoding": "identity"}
"""Headers that ask for answers without compression."""


class _BoundedBody(httpx2.AsyncByteStream):
    """A response body that raises an error once it exceeds `limit` bytes."""

    def __init__(self, body: Any, limit: int, report: Callable[[str], None]) -> None:
        self._body = body
        self._limit = limit
        self._report = report

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for chunk in self._body:
            total += len(chunk)
            if total > self._limit:
                raise _reported_error(f"it sent more than an answer may have ({self._limit} bytes)", self._report)
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


def _reported_error(fault: str, report: Callable[[str], None]) -> httpx2.StreamError:
    """Reports a fault, and returns the error to raise for it."""
    report(fault)
    return httpx2.StreamError(fault)


def bound_body(response: httpx2.Response, limit: int, report: Callable[[str], None] = lambda fault: None) -> None:
    """Limits the body of an unread answer to `limit` bytes. Refuses compressed bodies, since a short one may unpack to
    any size; `IDENTITY` asks for uncompressed answers. report: receives the message before the error is raised, for
    callers behind a library that hides errors. Raises StreamError."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise _reported_error("it sent a compressed answer, which it was asked not to", report)
    response.stream = _BoundedBody(response.stream, limit, report)
