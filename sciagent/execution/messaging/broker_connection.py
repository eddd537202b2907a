"""One connection to the broker: made when needed, given up at the first fault, made again after a growing pause."""

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
    """The broker does not answer at the moment."""


class Line:
    """Used by one thread. patience: seconds a connection, or an answer, may take."""

    def __init__(self, broker: Broker, patience: float) -> None:
        self._broker = broker
        self._patience = patience
        self._connection: Connection | None = None
        self._channel: Any = None
        self._declared: set[str] = set()
        self._pause = FIRST_PAUSE
        self._not_before = 0.0

    def call(self, do: Callable[[Any, set[str]], T]) -> T:
        """do(channel, names declared on it). Raises AwayError: at once while a pause lasts, else after two tries at
        most, for a connection that was left idle may have ended meanwhile."""
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
            hang_up(connection)


def hang_up(connection: Connection) -> None:
    """Without a word to a server that may not listen."""
    try:
        connection.collect(socket_timeout=0.2)
    except Exception:
        log.debug("closing a connection to the broker failed", exc_info=True)
