"""The HTTP server of the pages: uvicorn, with limits of time for what others send and read.

uvicorn itself only ends connections that are idle after a request. `TimedProtocol` also ends those whose headers take
too long, whose body comes too slowly, or that do not read their answer.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from sciagent.errors import UsageError
from sciagent.web.open_connections import (
    MOST_OF_ADDRESS,
    CountedListener,
    OncePerMinute,
    OpenConnection,
    OpenConnections,
    room_for_connections,
)

GRACE_SECONDS = 3  # in which running requests may end after `stop`
# connections that are accepted at once. A new one is read three turns of the event loop later; meanwhile fewer than
# `MOST_OF_ADDRESS` others may come, since the oldest that waits makes room.
ACCEPTED_AT_ONCE = 16
IDLE_SECONDS = 5  # after an answer, before the next request begins
HEADER_SECONDS = 10  # from the begin of a connection, or the last answer, to the end of the headers
MAX_HEADER_BYTES = 32_768
HEADER_PIECE = 1_024  # bytes of the headers that are read at a time
BYTES_A_SECOND = 4_000  # of a body that is sent, and of an answer that is read, in the mean
BODY_GRACE_SECONDS = 30  # in which nothing of a body may come, such as on a tablet that changes its network
READ_SECONDS = 60  # in which nothing of an answer may be read
# bytes that the system keeps for a client. It takes more only after a third was read, so with a larger buffer, a client
# that reads `BYTES_A_SECOND` would seem to read nothing for longer than `READ_SECONDS`.
SEND_BUFFER_BYTES = 262_144
TICKS_A_SECOND = 10  # of uvicorn's main loop
_QUIET = OncePerMinute()


class TimedProtocol(H11Protocol):
    """A connection that is ended if it is too slow."""

    def __init__(self, connections: OpenConnections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._open_connections = connections
        self._waiting_since = time.monotonic()
        self._checked_at = self._waiting_since
        self._body_seconds = float(BODY_GRACE_SECONDS)
        """Time for which the body may still be late; bytes that come add to it."""
        self._read_seconds = float(READ_SECONDS)
        """Time for which the client may still be late with reading; bytes that it reads add to it."""
        self._unread_bytes = 0

    @property
    def waiting_since(self) -> float | None:
        is_served = self.cycle is not None and not self.cycle.response_complete
        return None if is_served else self._waiting_since

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection = self._open_connections.of_peer(transport.get_extra_info("peername"))
        if isinstance(connection, OpenConnection):
            connection.protocol = self
        else:  # it was ended before its turn came
            transport.abort()

    def data_received(self, data: bytes) -> None:
        # h11 compares the size of headers with its limit only while they are not complete, so they come in pieces
        while data and self.waiting_since is not None and not self.transport.is_closing():
            super().data_received(data[:HEADER_PIECE])
            data = data[HEADER_PIECE:]
        if data and not self.transport.is_closing():
            self._body_seconds = min(BODY_GRACE_SECONDS, self._body_seconds + len(data) / BYTES_A_SECOND)
            super().data_received(data)

    def on_response_complete(self) -> None:
        self._waiting_since = time.monotonic()
        self._body_seconds = float(BODY_GRACE_SECONDS)
        super().on_response_complete()

    def fault(self, now: float) -> str | None:
        seconds = now - self._checked_at
        self._checked_at = now
        unread_bytes = self.transport.get_write_buffer_size()
        if unread_bytes:
            bytes_read = max(0, self._unread_bytes - unread_bytes)
            self._read_seconds = min(READ_SECONDS, self._read_seconds + bytes_read / BYTES_A_SECOND) - seconds
            self._waiting_since = now  # the time for the next request begins when this answer was read
        else:
            self._read_seconds = float(READ_SECONDS)
        self._unread_bytes = unread_bytes
        if self._read_seconds < 0:
            return "the answer is read too slowly"
        since = self.waiting_since
        if since is not None:
            return "no request came" if now - since > HEADER_SECONDS else None
        if self.cycle.more_body and not self.flow.read_paused:  # a pause is the server's, while it has other work
            self._body_seconds -= seconds
        return "the body comes too slowly" if self._body_seconds < 0 else None

    def abort(self) -> None:
        self.transport.abort()


class _TimedServer(uvicorn.Server):
    """A server that looks at its connections once a second."""

    def __init__(self, config: uvicorn.Config, connections: OpenConnections) -> None:
        super().__init__(config)
        self._open_connections = connections

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_A_SECOND == 0:
            self._open_connections.end_slow()
        return await super().on_tick(counter)


class PageServer:
    """A server of the pages. The port is taken at once, so that the address is known before it starts."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        tls_cert: Path | None = None,
        tls_key: Path | None = None,
        behind_proxy: bool = False,
    ) -> None:
        """port: 0 for any free one. behind_proxy: believe a proxy on this machine about scheme and client. Raises
        UsageError if the port cannot be opened, or the certificate not read."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        most = room_for_connections()
        # behind a proxy, all connections come from its address
        self.connections = OpenConnections(most, most if behind_proxy else min(most, MOST_OF_ADDRESS))
        self._socket = CountedListener(family, self.connections)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)  # connections inherit it
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise UsageError(f"cannot listen at {host}:{port}: {error.strerror or error}; name another port") from error
        config = uvicorn.Config(
            app, loop="asyncio", http=TimedProtocol, ws="none", log_level="warning",
            timeout_graceful_shutdown=GRACE_SECONDS, timeout_keep_alive=IDLE_SECONDS, backlog=ACCEPTED_AT_ONCE,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES, server_header=False, proxy_headers=behind_proxy,
            ssl_certfile=tls_cert, ssl_keyfile=tls_key,
        )  # fmt: skip
        try:
            config.load()
        except OSError as error:
            self._socket.close()
            raise UsageError(f"the certificate or its key cannot be read: {error}") from error
        config.http_protocol_class = partial(TimedProtocol, self.connections)  # type: ignore[assignment]
        for name in ("uvicorn.error", "asyncio", "python_multipart.multipart"):
            logging.getLogger(name).addFilter(_QUIET)
        self._server = _TimedServer(config, self.connections)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls_cert else 'http'}://{shown}:{self._socket.getsockname()[1]}"

    def run(self) -> None:
        """Serves until a signal, or `stop`."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Ends the server. May be called from any thread."""
        self._server.should_exit = True
