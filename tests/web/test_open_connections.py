"""The connection that has waited longest makes room, and warnings about connections are few."""

from __future__ import annotations

import logging
import socket

from sciagent.web import open_connections
from sciagent.web.open_connections import OpenConnections


def test_an_unreadable_request_is_logged_once_a_minute() -> None:
    quiet = open_connections.OncePerMinute()

    def record(text: str, name: str = "uvicorn.error", error: Exception | None = None) -> logging.LogRecord:
        details = None if error is None else (type(error), error, None)
        return logging.LogRecord(name, logging.WARNING, "", 1, text, (), details)

    passed = [quiet.filter(record("Invalid HTTP request received.")) for _ in range(3)]
    assert passed == [True, False, False]
    faults = [quiet.filter(record("Exception in ASGI application", error=ValueError())) for _ in range(2)]
    assert faults == [True, True]
    of_loop = [quiet.filter(record("socket.accept()", "asyncio", OSError())) for _ in range(2)]
    assert of_loop == [True, False]


def test_a_busy_connection_is_not_closed_for_a_new_one() -> None:
    class Busy:
        waiting_since = None

        def fault(self, now: float) -> str | None:
            return None

        def abort(self) -> None:
            raise AssertionError("a request is served on it")

    connections = OpenConnections(most=3, most_of_address=2)
    made = [open_connections.OpenConnection() for _ in range(5)]
    assert connections.admit(made[0], ("192.0.2.1", 1)) and connections.admit(made[1], ("192.0.2.1", 2))
    made[0].protocol = Busy()
    assert connections.admit(made[2], ("192.0.2.1", 3)) and len(connections) == 2, "the second has made room"
    assert connections.of_peer(("192.0.2.1", 2)) is None
    made[2].protocol = Busy()
    assert not connections.admit(made[3], ("192.0.2.1", 4))
    assert connections.admit(made[4], ("192.0.2.2", 1)) and len(connections) == 3
    made[4].protocol = Busy()
    assert not connections.admit(made[3], ("192.0.2.3", 1))
    for connection in made:
        socket.socket.close(connection)
