"""Tokens and bells over both real brokers, and while these are away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import kombu
import pytest

from sciagent.execution.celery import broker_address_and_work_tokens
from sciagent.execution.celery.broker_address_and_work_tokens import Broker
from sciagent.execution.celery.wakeups import Listener, Wakeups
from tests.execution.workers import until
from tests.support.servers.rabbitmq import RabbitMQ
from tests.support.servers.valkey import Valkey

QUEUE = "simulation"


@pytest.fixture
def wakeups(broker_url: str) -> Iterator[Wakeups]:
    found = Wakeups(broker_url)
    yield found
    found.close()


def take(url: str) -> kombu.Message | None:
    """What any consumer would get."""
    broker = Broker.parse(url)
    with broker.connection(5) as connection, connection.channel() as channel:
        return broker.queue(QUEUE)(channel).get(no_ack=True)


def test_tokens_wait_until_each_is_taken_once(wakeups: Wakeups, broker_url: str) -> None:
    assert wakeups.n_tokens(QUEUE) == 0
    wakeups.wake(QUEUE, 3)
    until(lambda: wakeups.n_tokens(QUEUE) == 3, "three tokens wait")
    for left in (2, 1, 0):
        message = take(broker_url)
        assert message is not None and broker_address_and_work_tokens.queue_named(message) == QUEUE
        until(lambda left=left: wakeups.n_tokens(QUEUE) == left, f"{left} tokens wait")
    assert take(broker_url) is None


def test_a_bell_rings_for_its_campaign_only(wakeups: Wakeups) -> None:
    bell, other = threading.Event(), threading.Event()
    listeners = [Listener(wakeups.broker, 7, bell), Listener(wakeups.broker, 8, other)]
    assert bell.wait(10) and other.wait(10)  # they are connected
    bell.clear(), other.clear()
    wakeups.notify_driver(7)
    assert bell.wait(5)
    assert not other.is_set()
    for one in listeners:
        one.close()


def test_a_broker_is_used_from_many_threads(wakeups: Wakeups) -> None:
    threads = [threading.Thread(target=lambda: [wakeups.wake(QUEUE) for _ in range(25)]) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    until(lambda: wakeups.n_tokens(QUEUE) == 100, "all tokens wait")


def test_what_is_sent_last_still_goes_out(broker_url: str) -> None:
    wakeups = Wakeups(broker_url)
    wakeups.wake(QUEUE)
    wakeups.close(10)
    assert take(broker_url) is not None
    wakeups.wake(QUEUE)
    assert wakeups.n_tokens(QUEUE) is None, "it is closed"


@pytest.mark.parametrize("name", ["", "Simulation", "../etc/passwd", "a b", "a" * 61, "ü", "sim\n"])
def test_a_queue_has_a_plain_name(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a queue"):
        Wakeups("redis://127.0.0.1:1/0").wake(name)


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:1/0", "amqp://u:secret@127.0.0.1:1//", "amqp://no.such.host.invalid//"]
)
def test_a_broker_that_is_away_costs_the_caller_nothing(url: str) -> None:
    wakeups = Wakeups(url)
    begun = time.monotonic()
    for _ in range(500):
        wakeups.wake(QUEUE)
        wakeups.notify_driver(1)
    assert time.monotonic() - begun < 5
    assert wakeups.n_tokens(QUEUE) is None
    assert time.monotonic() - begun < 8
    wakeups.close()


def disturbed(server: Valkey | RabbitMQ, seconds: float) -> None:
    """The broker is killed for a while, stands still for a while, and is there again each time."""
    wakeups = Wakeups(server.url)
    bell = threading.Event()
    listener = Listener(wakeups.broker, 7, bell)
    assert bell.wait(10)
    wakeups.wake(QUEUE, 2)
    until(lambda: wakeups.n_tokens(QUEUE) == 2, "two tokens wait")
    time.sleep(seconds)
    for away, back in ((server.kill, server.start), (server.pause, server.resume)):
        away()
        for _ in range(20):
            begun = time.monotonic()
            wakeups.wake(QUEUE)
            wakeups.notify_driver(7)
            assert time.monotonic() - begun < 1
            assert wakeups.n_tokens(QUEUE) is None
            assert time.monotonic() - begun < 3
        back()
        until(lambda: (wakeups.n_tokens(QUEUE) or 0) >= 2, "it counts again, and has kept what it had")
        until(lambda: ring(wakeups, bell), "the bell rings again")
    listener.close()
    wakeups.close()


def ring(wakeups: Wakeups, bell: threading.Event) -> bool:
    bell.clear()
    wakeups.notify_driver(7)
    return bell.wait(0.5)


def test_redis_is_killed_and_comes_back(own_redis_server: Valkey) -> None:
    disturbed(own_redis_server, 0)


@pytest.mark.slow
def test_rabbitmq_is_killed_and_comes_back(own_rabbitmq_server: RabbitMQ) -> None:
    disturbed(own_rabbitmq_server, 2)  # it writes down within a second that there is a new quorum queue
