"""A connection to the broker that opens when needed, closes at the first fault, and reopens after growing pauses."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sciagent.execution.messaging.brokers import Broker

if TYPE_CHECKING:
    from kombu import Connection

log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0

T = TypeVar("T")


class AwayError(Exception):
    """The broker does not answer."""


class BrokerConnection:
    """Must be used by one thread only. patience: seconds allowed for connecting, and for each answer."""

    def __init__(self, broker: Broker, patience: float) -> None:
        self._broker = broker
        self._patience = patience
        self._connection: Connection | None = None
        self._channel: Any = None
        self._declared: set[str] = set()
        self._pause = FIRST_PAUSE
        self._not_before = 0.0

    def call(self, do: Callable[[Any, set[str]], T]) -> T:
        """Return do(channel, names declared on the channel).

        Raises AwayError: at once during a pause, otherwise after one try; an open connection is tried twice, since it
        may have been closed while idle.
        """
        if time.monotonic() < self._not_before:
            raise AwayError
        tries = 2 if self._channel is not None else 1
        while True:
            tries -= 1
            try:
                answer = do(self._open(), self._declared)
            except Exception as error:  # noqa: BLE001  drivers raise what sockets, TLS and a strange server make them
                self.close()
                if not tries:
                    self._wait(error)
                    raise AwayError from None
            else:
                self._pause = FIRST_PAUSE
                return answer

    def _open(self) -> Any:
        if self._channel is None:
            self._connection = self._broker.connection(self._patience)
            self._connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
            self._channel = self._connection.channel()
        return self._channel

    def _wait(self, error: Exception) -> None:
        if self._pause == FIRST_PAUSE:
            log.warning("the broker %s does not answer: %s", self._broker.shown, type(error).__name__)
        self._not_before = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def close(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        self._declared = set()
        if connection is not None:
            close_quietly(connection)


def close_quietly(connection: Connection) -> None:
    """Close without a farewell to the server, which may not answer."""
    try:
        connection.collect(socket_timeout=0.2)
    except Exception:
        log.debug("closing a connection to the broker failed", exc_info=True)
