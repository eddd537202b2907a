"""The outermost layer: headers that tell the browser what a page may do, and the limit on what a request may send.

It is plain ASGI, so that a stream ends when its client leaves.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 1_000_000  # bytes of a form
MAX_FILES = 50_000_000  # bytes of a form with attached files or a sheet
POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "style-src-attr 'unsafe-inline'",  # SVG by RDKit
    "img-src 'self'", "font-src 'self'", "connect-src 'self'", "manifest-src 'self'", "form-action 'self'",
    "base-uri 'none'", "frame-ancestors 'none'",
))  # fmt: skip
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class BodyTooLargeError(Exception):
    """A request sent more than it may."""


class Guarded:
    """Sets the headers of every answer, and ends a request that sends too much."""

    def __init__(self, app: ASGIApp, *, secure: bool) -> None:
        """secure: whether the server speaks TLS, or stands behind a proxy that does."""
        self._app, self._secure = app, secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        limit = MAX_FILES if headers.get(b"content-type", b"").startswith(b"multipart/form-data") else MAX_BODY
        sent, answered = 0, False

        async def counted() -> Message:
            nonlocal sent
            message = await receive()
            sent += len(message.get("body", b""))
            if sent > limit:
                raise BodyTooLargeError
            return message

        async def with_headers(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                own = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    own.setdefault(name, value)
                if not scope["path"].startswith("/static/"):
                    own.setdefault("cache-control", "no-store")
                if self._secure:
                    own.setdefault("strict-transport-security", "max-age=31536000")
            await send(message)

        too_large = PlainTextResponse(f"a request may send {limit:,} bytes", 413)
        try:
            if length.isdigit() and len(length) < 18 and int(length) <= limit:
                await self._app(scope, counted, with_headers)
            else:
                await too_large(scope, receive, with_headers)
        except BodyTooLargeError:
            if not answered:
                await too_large(scope, receive, with_headers)
