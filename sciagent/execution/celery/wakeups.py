"""Messages that wake workers and drivers: `Wakeups` sends them, and a driver's `Listener` receives them.

Workers and drivers also poll the ledger, which records every job. Therefore a lost message costs time only.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as NotInTime
from typing import TYPE_CHECKING, Any

from sciagent.execution.celery import broker_address_and_work_tokens
from sciagent.execution.celery.broker_address_and_work_tokens import (
    ENDED,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    PREFIX,
    Broker,
    close_quietly,
    wrong_keys,
)

if TYPE_CHECKING:
    from kombu import Connection, Exchange, Message

log = logging.getLogger(__name__)
PATIENCE_SECONDS = 0.8  # for connecting, and for each answer
COUNT_SECONDS = PATIENCE_SECONDS + 0.2  # for counting tokens: one answer, and some time for the sending thread
LISTEN_SECONDS = 5.0  # for a listener to connect, and for each answer to it; longer, since no caller waits for it
TURN_SECONDS = 1.0  # how often a listener checks whether it was closed
HEARTBEAT_SECONDS = 20
MOST_TOKENS = 1000  # per call; more would not wake more workers


def exchange() -> Exchange:
    """The exchange of all campaigns. One is enough, since a message is only a campaign's id and few campaigns run."""
    from kombu import Exchange

    return Exchange(ENDED, type="fanout", durable=False, delivery_mode="transient")


class AwayError(Exception):
    """The broker does not answer."""


class Wakeups:
    """Sends messages through a broker in its own thread, so that no caller waits for the network.

    Safe from any thread. No method raises an error while the broker is away. Messages that cannot be sent are dropped,
    and the connection is tried again after growing pauses.
    url: see `Broker.parse`, which raises UsageError.
    """

    def __init__(self, url: str) -> None:
        self.broker = Broker.parse(url)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="wakeups")  # only this thread uses the fields below
        self._connection: Connection | None = None
        self._channel: Any = None
        self._queues: set[str] = set()  # names in the broker of the queues that were used so far
        self._declared: set[str] = set()  # names of the queues and exchanges that were declared on this connection
        self._pause = FIRST_PAUSE
        self._not_before = 0.0  # monotonic time before which no connection is tried

    def wake(self, name: str, n: int = 1) -> None:
        """Send n tokens "there is work in NAME". Returns at once. Raises ValueError for an invalid queue name."""
        token_queue = self.broker.queue(name)
        self._queues.add(token_queue.name)

        def send(channel: Any) -> None:
            from kombu import Producer

            if name not in self._declared:
                token_queue(channel).queue_declare()
                self._declared.add(name)
            producer = Producer(channel, serializer="json")
            for _ in range(min(n, MOST_TOKENS)):
                producer.publish(
                    broker_address_and_work_tokens.body(name),
                    routing_key=token_queue.routing_key,
                    headers=broker_address_and_work_tokens.headers(name),
                    retry=False,
                )

        self._submit(send)

    def n_tokens(self, name: str) -> int | None:
        """Number of tokens in the broker's queue; None if the broker does not answer. Takes a second at most."""
        token_queue = self.broker.queue(name)
        self._queues.add(token_queue.name)

        def count_tokens(channel: Any) -> Any:
            # to declare a queue that exists changes nothing; the broker answers (name, messages, consumers)
            _, n_tokens, *_ = token_queue(channel).queue_declare()
            return n_tokens

        answer = self._submit(count_tokens)
        if answer is None:
            return None
        try:
            return int(answer.result(COUNT_SECONDS))
        except (AwayError, NotInTime, CancelledError):
            return None

    def notify_driver(self, campaign_id: int) -> None:
        """Notify the driver of this campaign that a job has ended. Returns at once."""

        def send(channel: Any) -> None:
            from kombu import Producer

            ended = exchange()
            if ENDED not in self._declared:
                ended(channel).declare()
                self._declared.add(ENDED)
            Producer(channel, exchange=ended, serializer="json").publish(int(campaign_id), retry=False)

        self._submit(send)

    def close(self, patience: float = 1.0) -> None:
        """Send the remaining messages, for at most `patience` seconds."""
        disconnected = self._thread.submit(self._disconnect)
        wait([disconnected], timeout=patience)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _submit(self, do: Callable[[Any], Any]) -> Future[Any] | None:
        """Queue do(channel) for the sending thread; None after `close`."""
        try:
            return self._thread.submit(self._call, do)
        except RuntimeError:
            return None

    def _call(self, do: Callable[[Any], Any]) -> Any:
        """Returns do(channel). Raises AwayError at once during a pause, and otherwise when the last attempt has failed.
        An open connection gets two attempts, since it may have been closed while idle; a new one gets one attempt."""
        if time.monotonic() < self._not_before:
            raise AwayError
        n_attempts = 1 if self._channel is None else 2
        for attempt in range(1, n_attempts + 1):
            try:
                if self._channel is None:
                    self._connection = self.broker.connection(PATIENCE_SECONDS)
                    self._connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
                    self._channel = self._connection.channel()
                answer = do(self._channel)
            except Exception as error:  # noqa: BLE001  sockets, TLS and bad answers raise errors of many kinds
                is_last = attempt == n_attempts
                fault = wrong_keys(self._channel, sorted(self._queues)) if is_last else ""
                self._disconnect()
                if is_last:
                    self._begin_pause(error, fault)
            else:
                self._pause = FIRST_PAUSE
                return answer
        raise AwayError

    def _begin_pause(self, error: Exception, fault: str) -> None:
        """Try no connection until a pause has passed; each pause is twice as long as the one before. A warning is
        logged at the first pause only. fault: what `wrong_keys` says."""
        if self._pause == FIRST_PAUSE and fault:
            log.warning("the broker %s cannot be used: %s", self.broker.shown, fault)
        elif self._pause == FIRST_PAUSE:
            log.warning("the broker %s does not answer: %s", self.broker.shown, type(error).__name__)
        self._not_before = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _disconnect(self) -> None:
        connection = self._connection
        self._connection = None
        self._channel = None
        self._declared = set()
        if connection is not None:
            close_quietly(connection)


class Listener:
    """A thread that sets `bell` at each message on the campaign. It also sets `bell` when the connection opens, since
    earlier messages may have been missed."""

    def __init__(self, broker: Broker, campaign_id: int, bell: threading.Event) -> None:
        self._broker = broker
        self._campaign_id = campaign_id
        self._bell = bell
        self._closed = threading.Event()
        threading.Thread(target=self._serve, name=f"bell-{campaign_id}", daemon=True).start()

    def close(self) -> None:
        """Stop listening. The thread ends by itself within seconds."""
        self._closed.set()

    def _serve(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed.is_set():
            connection = self._broker.connection(LISTEN_SECONDS, HEARTBEAT_SECONDS)
            self._was_open = False
            try:
                self._listen(connection)
            except Exception as error:  # noqa: BLE001  sockets, TLS and bad answers raise errors of many kinds
                log.debug("no bell for campaign %d: %s", self._campaign_id, type(error).__name__)
            finally:
                close_quietly(connection)
            # a connection that was open and broke is tried again soon
            pause = FIRST_PAUSE if self._was_open else min(2 * pause, LONGEST_PAUSE)
            self._closed.wait(pause)

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
            on_decode_error=lambda message, error: None,  # a malformed message is ignored
        ):
            self._was_open = True
            self._bell.set()
            while not self._closed.is_set():
                try:
                    connection.drain_events(timeout=TURN_SECONDS)
                except TimeoutError:
                    if connection.heartbeat:
                        connection.heartbeat_check()

    def _queue(self) -> Any:
        from kombu import Queue

        # RabbitMQ allows one connection per exclusive queue; Redis keeps queue names, so there the name never changes
        name = f"{PREFIX}bell.{self._campaign_id}"
        if not self._broker.is_redis:
            name = f"{name}.{uuid.uuid4()}"
        return Queue(name, exchange(), durable=False, auto_delete=True, exclusive=True)

    def _hear(self, body: Any, message: Message) -> None:
        if type(body) is int and body == self._campaign_id:  # others may write anything; True is no campaign id
            self._bell.set()
