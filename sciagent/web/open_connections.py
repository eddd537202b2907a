"""The open connections of a server: how many there may be, and which are ended.

A `CountedListener` accepts connections and counts them, those that have not yet ended their TLS handshake among them.
When there are too many, the connection that has waited longest for a request is closed for the new one; so many
half-open connections cannot keep others out. A full table of files costs single connections, and never the service.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import socket
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol

MOST_CONNECTIONS = 1000
MOST_OF_ADDRESS = 250  # people of one laboratory may share an address, and each open page holds a connection
OTHER_FILES = 192  # files that are left to the ledger, to artifacts and to connections that are about to be closed
FEWEST_CONNECTIONS = 16  # if the limit of files is very low
HANDSHAKE_SECONDS = 10  # time for a TLS handshake
LISTEN_QUEUE = 512  # connections that wait to be accepted
MOST_REFUSED_AT_ONCE = 100  # connections that are refused before others have their turn
QUIET_SECONDS = 60  # in which a warning about connections is written once
FULL_TABLE = (errno.EMFILE, errno.ENFILE)
_log = logging.getLogger(__name__)


class Served(Protocol):
    """The protocol of a connection, as far as its end is concerned."""

    @property
    def waiting_since(self) -> float | None:
        """The time at which it began to wait for a request; None while one is served. From `time.monotonic`."""

    def fault(self, now: float) -> str | None:
        """Returns why the connection is too slow; None if it is not. Called about once a second."""

    def abort(self) -> None:
        """Ends the connection at once."""


class OpenConnection(socket.socket):
    """An accepted connection. It is counted until it is closed."""

    connections: OpenConnections
    peer: Any
    """The address and port of the other side."""
    address: str
    opened_at: float
    protocol: Served | None = None
    """None until the TLS handshake has ended."""

    @property
    def waiting_since(self) -> float | None:
        return self.opened_at if self.protocol is None else self.protocol.waiting_since

    def is_too_slow(self, now: float) -> bool:
        """Returns whether the connection has to be ended."""
        if self.protocol is None:
            return now - self.opened_at > HANDSHAKE_SECONDS
        return self.protocol.fault(now) is not None

    def end(self) -> None:
        """Ends the connection. It is no longer counted; the event loop closes its file at its next turn."""
        self.connections.forget(self)
        if self.protocol is not None:
            self.protocol.abort()
            return
        with suppress(OSError):  # the other side has left
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.connections.forget(self)
        super().close()


class OpenConnections:
    """The connections of a server."""

    def __init__(self, most: int, most_of_address: int) -> None:
        self.most = most
        self.most_of_address = most_of_address
        self._open: dict[Any, OpenConnection] = {}
        """By the address and port of the other side."""
        self._of_address = Counter[str]()

    def __len__(self) -> int:
        return len(self._open)

    def of_peer(self, peer: Any) -> OpenConnection | None:
        """Returns the connection to an address and port; None if it was ended."""
        return self._open.get(peer)

    def admit(self, connection: OpenConnection, peer: Any) -> bool:
        """Counts a new connection. Returns False if there is no room, since requests are served on all others."""
        address = str(peer[0])
        if self._of_address[address] >= self.most_of_address:
            of_address = [other for other in self._open.values() if other.address == address]
            if not _end_oldest(of_address):
                return False
        if len(self._open) >= self.most and not self.end_oldest():
            return False
        connection.connections = self
        connection.address = address
        connection.opened_at = time.monotonic()
        connection.peer = peer
        self._open[peer] = connection
        self._of_address[address] += 1
        return True

    def forget(self, connection: OpenConnection) -> None:
        """No longer counts a connection."""
        if self._open.get(connection.peer) is connection:
            del self._open[connection.peer]
            self._of_address[connection.address] -= 1
            if not self._of_address[connection.address]:
                del self._of_address[connection.address]

    def end_oldest(self) -> bool:
        """Ends the connection that has waited longest for a request. Returns False if none waits."""
        return _end_oldest(self._open.values())

    def end_slow(self) -> None:
        """Ends all connections that are too slow."""
        now = time.monotonic()
        for connection in list(self._open.values()):
            if connection.is_too_slow(now):
                connection.end()


def _end_oldest(connections: Iterable[OpenConnection]) -> bool:
    oldest = None
    oldest_since = float("inf")
    for connection in connections:
        since = connection.waiting_since
        if since is not None and since < oldest_since:
            oldest = connection
            oldest_since = since
    if oldest is None:
        return False
    oldest.end()
    return True


class CountedListener(socket.socket):
    """A listening socket whose connections are counted."""

    def __init__(self, family: socket.AddressFamily, connections: OpenConnections) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._connections = connections
        self._spare: int | None = _spare_file()
        self._quiet = OncePerMinute()

    def listen(self, backlog: int = LISTEN_QUEUE, /) -> None:
        """Begins to listen. backlog: the event loop accepts as many connections at once; more may wait."""
        super().listen(max(backlog, LISTEN_QUEUE))

    def accept(self) -> tuple[socket.socket, Any]:
        """Returns the next connection for which there is room. Raises BlockingIOError if there is none."""
        for _ in range(MOST_REFUSED_AT_ONCE):
            try:
                accepted, peer = super().accept()
            except OSError as error:
                if error.errno not in FULL_TABLE:
                    raise
                self._give_way(error)
                continue
            connection = OpenConnection(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
            if self._connections.admit(connection, peer):
                return connection, peer
            self._warn("there are %d open connections, and requests are served on all; more are refused")
            socket.socket.close(connection)
        raise BlockingIOError(errno.EAGAIN, "other work comes first")

    def close(self) -> None:
        super().close()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def _give_way(self, error: OSError) -> None:
        """Refuses a connection by the file that is kept for this, and closes one that only waits. Raises the error if
        there is no such file; the event loop tries again after a second."""
        self._connections.end_oldest()
        if self._spare is None:
            self._spare = _spare_file()
            raise error
        self._warn("this process may open no more files (`ulimit -n`), with %d open connections; more are refused")
        os.close(self._spare)
        self._spare = None
        try:
            refused, _ = super().accept()
            refused.close()
        finally:
            self._spare = _spare_file()

    def _warn(self, text: str) -> None:
        if self._quiet.is_due(text):
            _log.warning(text, len(self._connections))


def _spare_file() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


class OncePerMinute(logging.Filter):
    """Lets each warning pass once a minute, since those who send the requests choose how many there are. What has a
    traceback is a fault of the program, and passes; but for those of the event loop, which are about files."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}
        """{text: time of the last one}; the texts are those of the program, so there are few."""

    def is_due(self, text: str) -> bool:
        """Returns whether the text was not written in the last minute, and notes that it is."""
        now = time.monotonic()
        if now - self._last.get(text, -QUIET_SECONDS) < QUIET_SECONDS:
            return False
        self._last[text] = now
        return True

    def filter(self, record: logging.LogRecord) -> bool:
        is_of_loop = record.name == "asyncio"
        if record.exc_info and not is_of_loop:
            return True
        return self.is_due(str(record.msg).splitlines()[0] if record.msg else "")


def room_for_connections() -> int:
    """Returns how many connections this process can hold. Raises its limit of open files as far as that needs and the
    system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = MOST_CONNECTIONS + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return MOST_CONNECTIONS
    if hard == resource.RLIM_INFINITY or hard > soft:
        soft = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, soft - OTHER_FILES))
