"""Sends wake-up messages to workers and drivers. The ledger holds the truth: a lost message costs time only."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import Any

from sciagent.execution.messaging import tokens
from sciagent.execution.messaging.broker_connection import AwayError, BrokerConnection
from sciagent.execution.messaging.brokers import Broker
from sciagent.execution.messaging.notifications import ENDED, Listener, exchange

log = logging.getLogger(__name__)
PATIENCE_SECONDS = 0.8
MOST_TOKENS = 1000  # per call; more would not wake more workers
_WAITING_ORDERS = 1000

Order = tuple[Callable[[Any, set[str]], Any], "Future[Any]", int]


class Wakeups:
    """Sends messages through a broker in a thread of its own, so that no caller waits for the network.

    Safe from any thread of the process that created it. No method raises because the broker is away: messages that
    cannot be sent are dropped and counted in `dropped`, and the connection is restored by itself.
    url: see `Broker.parse`, which raises UsageError.
    """

    def __init__(self, url: str) -> None:
        self.broker = Broker.parse(url)
        self.sent = 0
        self.dropped = 0
        self._orders: queue.Queue[Order | None] = queue.Queue(_WAITING_ORDERS)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._process = os.getpid()

    def wake(self, name: str, n: int = 1) -> None:
        """Send n tokens "there is work in NAME". Returns at once. Raises ValueError for an invalid queue name."""
        place = self.broker.queue(name)
        n = min(n, MOST_TOKENS)
        if n < 1:
            return

        def send(channel: Any, declared: set[str]) -> None:
            from kombu import Producer

            if name not in declared:
                place(channel).queue_declare()
                declared.add(name)
            producer = Producer(channel, serializer="json")
            for _ in range(n):
                producer.publish(
                    tokens.body(name), routing_key=place.routing_key, headers=tokens.headers(name), retry=False
                )

        self._order(send, n)

    def waiting(self, name: str) -> int | None:
        """Number of tokens in the broker's queue; None if the broker does not answer. Takes a second at most."""
        place = self.broker.queue(name)
        answer = self._order(lambda channel, declared: int(place(channel).queue_declare()[1]), 0)
        try:
            return int(answer.result(PATIENCE_SECONDS + 0.2))
        except (AwayError, NotInTime):
            return None

    def tell(self, campaign_id: int) -> None:
        """Notify the driver of this campaign that a job has ended. Returns at once."""

        def send(channel: Any, declared: set[str]) -> None:
            from kombu import Producer

            place = exchange()
            if ENDED not in declared:
                place(channel).declare()
                declared.add(ENDED)
            Producer(channel, exchange=place, serializer="json").publish(int(campaign_id), retry=False)

        self._order(send, 1)

    def listen(self, campaign_id: int, bell: threading.Event) -> Listener:
        """Set the bell at each end of a job of this campaign, until the listener is closed. The bell is also set when
        the connection opens, since earlier messages were missed."""
        return Listener(self.broker, campaign_id, bell)

    def close(self, patience: float = 1.0) -> None:
        """Send the remaining messages, for at most `patience` seconds."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None and self._process == os.getpid():
            try:
                self._orders.put_nowait(None)
            except queue.Full:
                return
            thread.join(patience)

    def _order(self, do: Callable[[Any, set[str]], Any], n: int) -> Future[Any]:
        """Queue a call for the sending thread. n: how many messages the call sends."""
        answer: Future[Any] = Future()
        try:
            with self._lock:
                if self._closed or self._process != os.getpid():  # a forked process has no sending thread
                    raise queue.Full
                self._orders.put_nowait((do, answer, n))
                if self._thread is None:
                    self._thread = threading.Thread(target=self._serve, name="wakeups", daemon=True)
                    self._thread.start()
        except queue.Full:
            self.dropped += n
            answer.set_exception(AwayError())
        return answer

    def _serve(self) -> None:
        line = BrokerConnection(self.broker, PATIENCE_SECONDS)
        while (order := self._orders.get()) is not None:
            do, answer, n = order
            try:
                answer.set_result(line.call(do))
                self.sent += n
            except AwayError as error:
                self.dropped += n
                answer.set_exception(error)
        line.close()
