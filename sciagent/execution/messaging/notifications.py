"""Notifies a driver that a job of its campaign has ended. A lost message costs time only: the driver polls as well."""

from __future__ import annotations

import logging
import threading
import uuid
from typing import TYPE_CHECKING, Any

from sciagent.execution.messaging.brokers import FIRST_PAUSE, LONGEST_PAUSE, PREFIX, Broker, close_quietly

if TYPE_CHECKING:
    from kombu import Connection, Exchange, Message

log = logging.getLogger(__name__)
ENDED = f"{PREFIX}ended"
PATIENCE_SECONDS = 5.0
TURN_SECONDS = 1.0  # how often the listener checks whether it was closed
HEARTBEAT_SECONDS = 20


def exchange() -> Exchange:
    """The exchange of all campaigns. One is enough, since a message is only a campaign's id and few campaigns run."""
    from kombu import Exchange

    return Exchange(ENDED, type="fanout", durable=False, delivery_mode="transient")


class Listener:
    """A thread that sets `bell` at each message on the campaign. It also sets `bell` when the connection opens, since
    earlier messages may have been missed."""

    def __init__(self, broker: Broker, campaign_id: int, bell: threading.Event) -> None:
        self._broker = broker
        self._campaign_id = campaign_id
        self._bell = bell
        self._end = threading.Event()
        threading.Thread(target=self._serve, name=f"bell-{campaign_id}", daemon=True).start()

    def close(self) -> None:
        """Stop listening. The thread ends by itself within seconds."""
        self._end.set()

    def _serve(self) -> None:
        pause = FIRST_PAUSE
        while not self._end.is_set():
            connection = self._broker.connection(PATIENCE_SECONDS, HEARTBEAT_SECONDS)
            self._is_open = False
            try:
                self._listen(connection)
            except Exception as error:  # noqa: BLE001  sockets, TLS and bad answers raise errors of many kinds
                log.debug("no bell for campaign %d: %s", self._campaign_id, type(error).__name__)
            finally:
                close_quietly(connection)
            # a connection that was open and broke is tried again soon
            pause = FIRST_PAUSE if self._is_open else min(2 * pause, LONGEST_PAUSE)
            self._end.wait(pause)

    def _listen(self, connection: Connection) -> None:
        """Listen until closed. Raises the error that ends the connection."""
        from kombu import Consumer

        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
        with Consumer(
            connection,
            [self._queue()],
            callbacks=[self._hear],
            accept=["json"],
            no_ack=True,
            on_decode_error=lambda message, error: None,
        ):
            self._is_open = True
            self._bell.set()
            while not self._end.is_set():
                try:
                    connection.drain_events(timeout=TURN_SECONDS)
                except TimeoutError:
                    if connection.heartbeat:
                        connection.heartbeat_check()

    def _queue(self) -> Any:
        from kombu import Queue

        # RabbitMQ allows one connection per exclusive queue; Redis keeps queue names, so there the name never changes
        name = f"{PREFIX}bell.{self._campaign_id}" + ("" if self._broker.is_redis else f".{uuid.uuid4()}")
        return Queue(name, exchange(), durable=False, auto_delete=True, exclusive=True)

    def _hear(self, body: Any, message: Message) -> None:
        if type(body) is int and body == self._campaign_id:
            self._bell.set()
