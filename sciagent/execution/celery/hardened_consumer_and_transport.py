"""Celery's message consumer and Redis transport, made safe for brokers to which other programs can write."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from celery.worker.consumer import Consumer as CeleryConsumer
from celery.worker.state import maybe_shutdown
from kombu import Message
from kombu.transport import redis

from sciagent.execution.celery import broker_address_and_work_tokens
from sciagent.execution.celery.broker_address_and_work_tokens import PREFIX, Broker, wrong_keys

if TYPE_CHECKING:
    pass

log = logging.getLogger(__name__)
LONGEST_REFUSAL_PAUSE = 30.0  # seconds between two trials of a broker that refuses requests
ASK_SECONDS = 5.0  # time limit for each answer on the types of keys
SIGNAL_CHECK_SECONDS = 0.2  # how often a waiting worker checks whether it was told to end


class Consumer(CeleryConsumer):  # type: ignore[misc]
    """Accepts only tokens for the worker's own queues, and prefetches at most one.

    A worker that is busy for hours must not hold tokens that other workers could take.
    """

    class Blueprint(CeleryConsumer.Blueprint):  # type: ignore[misc]
        """The consumer's steps, without remote control, gossip, heartbeats and delayed delivery."""

        default_steps = [
            "celery.worker.consumer.connection:Connection",
            "celery.worker.consumer.events:Events",
            "celery.worker.consumer.tasks:Tasks",
            "celery.worker.consumer.consumer:Evloop",
        ]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.initial_prefetch_count = 1
        self._refused_at = float("-inf")  # monotonic time of the last refusal
        self._refusal_pause = 0.0

    def _update_prefetch_count(self, index: int = 0) -> None:
        """Keeps the prefetch count at one, whatever the size of the pool."""

    def create_task_handler(self, *args: Any, **options: Any) -> Callable[[Message], None]:
        handle = super().create_task_handler(*args, **options)
        cycle = getattr(self.connection.transport, "cycle", None)
        self.pool.on_free = cycle.ring if isinstance(cycle, Poller) else None  # RabbitMQ's transport prefetches one
        own_queues = {queue.name.removeprefix(PREFIX) for queue in self.app.amqp.queues.consume_from.values()}

        def receive(message: Message) -> None:
            try:
                queue = broker_address_and_work_tokens.queue_named(message)
                if queue not in own_queues:
                    raise ValueError("it names a queue of others")
            except ValueError as error:
                log.warning("a message was refused: %s", error)
                message.ack_log_error(log, self.connection_errors)
                return
            broker_address_and_work_tokens.renew(message, queue)  # drops headers that Celery would obey
            handle(message)

        return receive

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Waits before the broker is tried again that refused a request, since a key holds something else or a queue
        is of another kind. Each pause is twice as long as the one before, `LONGEST_REFUSAL_PAUSE` at most."""
        if not isinstance(exc, self.connection.channel_errors):
            super().on_connection_error_after_connected(exc)
            return
        queues = [queue.name for queue in self.app.amqp.queues.consume_from.values()]
        broker = Broker.parse(self.app.conf.broker_url)
        fault = ""
        with suppress(Exception), broker.connection(ASK_SECONDS) as connection:  # then the error itself is reported
            fault = wrong_keys(connection.channel(), queues)
        is_first = time.monotonic() - self._refused_at > 2 * LONGEST_REFUSAL_PAUSE
        self._refusal_pause = 1.0 if is_first else min(2 * self._refusal_pause, LONGEST_REFUSAL_PAUSE)
        log.warning(
            "the broker %s cannot be used, trying again in %.0f s: %s", broker.shown, self._refusal_pause, fault or exc
        )
        end = time.monotonic() + self._refusal_pause
        while time.monotonic() < end:
            maybe_shutdown()  # raises the error that ends a worker which was told to end
            time.sleep(SIGNAL_CHECK_SECONDS)
        self._refused_at = time.monotonic()

    def on_decode_error(self, message: Message, exc: Exception) -> None:
        log.warning("a message was refused: %s", type(exc).__name__)
        message.ack_log_error(log, self.connection_errors)

    def ensure_connected(self, connection: Any) -> Any:
        """Tries to connect, with pauses of at most five seconds, until the worker is shut down."""

        def warn(error: Exception, interval: float) -> None:
            log.warning("the broker %s does not answer: %s", connection.as_uri(), type(error).__name__)

        self.first_connection_attempt = False
        return connection.ensure_connection(
            errback=warn,
            max_retries=None,
            interval_start=0.5,
            interval_step=0.5,
            interval_max=5,
            callback=maybe_shutdown,
        )


class Channel(redis.Channel):  # type: ignore[misc]
    """Drops and logs malformed messages. The library's own reader raises an error that ends the worker. Redis removes a
    message from the queue before it is read, so it cannot come back."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            log.warning("what is no message was dropped from a queue: %s", type(error).__name__)
            return None


class Poller(redis.MultiChannelPoller):  # type: ignore[misc]
    """Polls the sockets of a connection, and looks again at once when a slot is free.

    While all slots are busy the library's poller reads no token, and checks only once a second whether it may again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bell, self._ringing_end = socket.socketpair()
        self._bell.setblocking(False)
        self._ringing_end.setblocking(False)

    def ring(self) -> None:
        """Make the event loop look for tokens. Any thread may call it, also after `close`."""
        with suppress(OSError):  # the buffer is full of earlier rings, or the connection was closed
            self._ringing_end.send(b"!")

    def close(self) -> None:
        super().close()
        self._bell.close()
        self._ringing_end.close()

    @property
    def fds(self) -> dict[int, Any]:
        """The sockets that the event loop watches."""
        is_open = self._bell.fileno() >= 0
        return {**super().fds, self._bell.fileno(): None} if is_open else super().fds

    def on_readable(self, fileno: int) -> None:
        if fileno == self._bell.fileno():
            self._bell.recv(4096)
        else:
            super().on_readable(fileno)


class Transport(redis.Transport):  # type: ignore[misc]
    Channel = Channel

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cycle = Poller()
