"""The servers that other tests kill: they come back with their data, and never outlive the tests."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import kombu
import psutil
import psycopg
import pytest
import redis

from tests.support.servers.postgres import Postgres
from tests.support.servers.rabbitmq import RabbitMQ
from tests.support.servers.valkey import Valkey

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, time
from tests.support.servers.{module} import own_{module}
with own_{module}() as server:
    print(server.port, flush=True)
    time.sleep(60)
"""


def test_a_killed_valkey_comes_back_with_what_it_was_told(own_redis_server: Valkey) -> None:
    with redis.Redis.from_url(own_redis_server.url) as client:
        client.rpush("list", "one")
        own_redis_server.kill()
        own_redis_server.start()
        assert client.lrange("list", 0, -1) == [b"one"]


@pytest.mark.slow
def test_a_killed_rabbitmq_comes_back_with_what_it_was_told(own_rabbitmq_server: RabbitMQ) -> None:
    queue = kombu.Queue("kept", routing_key="kept", queue_arguments={"x-queue-type": "quorum"})
    options = {"transport_options": {"confirm_publish": True}}
    with kombu.Connection(own_rabbitmq_server.url, **options) as connection, connection.channel() as channel:
        queue(channel).declare()
        time.sleep(2)  # RabbitMQ 3.10 writes down within a second that there is a new quorum queue
        kombu.Producer(channel).publish("one", routing_key="kept")
    own_rabbitmq_server.kill()
    own_rabbitmq_server.start()
    with kombu.Connection(own_rabbitmq_server.url) as connection, connection.channel() as channel:
        deadline = time.monotonic() + 15
        while (message := queue(channel).get()) is None:  # its queue elects a leader first
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert message.payload == "one"


@pytest.mark.slow
def test_a_killed_postgresql_comes_back_with_what_it_was_told(own_postgres_server: Postgres) -> None:
    url = own_postgres_server.url.replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
        own_postgres_server.kill()
    own_postgres_server.start()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT one FROM kept").fetchone() == (1,)


@pytest.mark.parametrize("module", ["valkey", pytest.param("rabbitmq", marks=pytest.mark.slow), "postgres"])
def test_killed_tests_leave_no_server(module: str) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(module=module)], cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    assert holder.stdout is not None
    assert int(holder.stdout.readline()) > 0
    servers = psutil.Process(holder.pid).children(recursive=True)
    assert servers
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    gone, alive = psutil.wait_procs(servers, 15)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE], (gone, alive)
