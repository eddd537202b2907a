"""Celery workers on both real brokers: what they take, what they refuse, how they end, and what they outlive."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import kombu
import pytest
import redis

from sciagent.errors import UsageError
from sciagent.execution.celery import broker_messages
from sciagent.execution.celery.broker_messages import PREFIX, Broker
from sciagent.execution.celery.wakeups import Wakeups
from sciagent.execution.celery.worker import serve
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue.workers_and_capacity import NewWorker
from tests.execution.workers import until, worker
from tests.support.celery_worker import Folder
from tests.support.servers.rabbitmq import RabbitMQ
from tests.support.servers.valkey import Valkey

QUEUE = "simulation"


class Pickled:
    """Whoever reads it as a pickle makes a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


@pytest.fixture
def jobs(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def done(jobs: Folder, n: int) -> None:
    until(lambda: len(jobs.names("done")) >= n, f"{n} jobs are done; the worker said {log(jobs)}", 40)
    assert len(jobs.names("done")) == n


def log(jobs: Folder) -> str:
    return (jobs.root / "log").read_text()


def hostile(wakeups: Wakeups, trap: Path) -> int:
    """Send what no one should send, straight into the queue; how many messages that were."""
    name = PREFIX + QUEUE
    good = broker_messages.body(QUEUE)
    many: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
        (Pickled(trap), broker_messages.headers(QUEUE), {"serializer": "pickle"}),
        ([["../../etc/passwd"], {}, {}], broker_messages.headers(QUEUE), {}),
        ([["high_fidelity"], {}, {}], broker_messages.headers(QUEUE), {}),
        ([[QUEUE, "more"], {}, {}], broker_messages.headers(QUEUE), {}),
        ([[{"a": 1}], {}, {}], broker_messages.headers(QUEUE), {}),
        ([[QUEUE], {"queue": "x"}, {}], broker_messages.headers(QUEUE), {}),
        ([["x" * 100_000], {}, {}], broker_messages.headers(QUEUE), {}),
        ({"task": broker_messages.TASK, "args": [QUEUE], "id": "1"}, {}, {}),
        (None, broker_messages.headers(QUEUE), {}),
        (good, {**broker_messages.headers(QUEUE), "task": "os.system"}, {}),
        (good, {**broker_messages.headers(QUEUE), "task": "celery.backend_cleanup"}, {}),
        (good, {**broker_messages.headers(QUEUE), "task": ["a", "list"]}, {}),
        (good, {"id": "1"}, {}),
    ]
    with Broker.parse(wakeups.broker.url).connection(5) as connection, connection.channel() as channel:
        for body, headers, options in many:
            producer = kombu.Producer(channel, **{"serializer": "json", **options})
            producer.publish(body, routing_key=name, headers=headers)
        raw = kombu.Producer(channel)
        for content_type, encoding in (
            ("application/json", "utf-8"),
            ("text/weird", "no-such"),
            ("application/json", ""),
        ):
            raw.publish(
                b"\xff\xfe garbage",
                routing_key=name,
                content_type=content_type,
                content_encoding=encoding,
                headers=broker_messages.headers(QUEUE),
            )
    if not wakeups.broker.is_redis:
        return len(many) + 3
    entries = [
        "",
        "garbage",
        "[1]",
        "{}",
        "null",
        '"text"',
        '{"properties": 1}',
        "[" * 100_000,
        json.dumps({"body": "!", "properties": {"body_encoding": "base64", "delivery_tag": [1]}}),
        json.dumps({"properties": {"delivery_tag": "1"}, "headers": [1], "body": ""}),
    ]
    with redis.Redis.from_url(wakeups.broker.url) as client:
        client.lpush(name, *entries, b"\xff\xfe")
    return len(many) + 3 + len(entries) + 1


@pytest.mark.parametrize("broker_url", ["redis", pytest.param("rabbitmq", marks=pytest.mark.slow)], indirect=True)
def test_workers_take_tokens_and_refuse_what_else_is_there(jobs: Folder, broker_url: str) -> None:
    wakeups = Wakeups(broker_url)
    trap = jobs.root / "trap"
    with worker(jobs.root, broker_url, slots=2) as process:
        jobs.put("first")
        wakeups.wake(QUEUE)
        done(jobs, 1)
        sent = hostile(wakeups, trap)
        until(lambda: wakeups.n_tokens(QUEUE) == 0, "all is taken")
        for i in range(40):
            jobs.put(f"job{i}")
        for _ in range(40):
            wakeups.wake(QUEUE)
        done(jobs, 41)
        assert process.poll() is None
        until(lambda: wakeups.n_tokens(QUEUE) == 0, "the spare tokens are taken")
        assert not trap.exists()
        said = log(jobs)
        assert said.count("was refused") + said.count("was dropped") == sent, said
        assert "Traceback" not in said and "passwd" not in said
        owners = {(jobs.root / "done" / name).read_text() for name in jobs.names("done")}
        assert {owner.partition(".")[0] for owner in owners} == {f"w1/{process.pid}"}

        # what headers ask for beyond the token is not done: a limit on its time, another date, what is to follow
        jobs.put("long", 1.5)
        headers = {
            **broker_messages.headers(QUEUE),
            "timelimit": [0.2, 0.1],
            "eta": "2999-01-01T00:00:00",
            "expires": "1999-01-01",
        }
        body = [[QUEUE], {}, {"callbacks": [{"task": "os.system", "args": ["x"]}], "chord": {"task": "y"}}]
        with Broker.parse(broker_url).connection(5) as connection, connection.channel() as channel:
            kombu.Producer(channel, serializer="json").publish(body, routing_key=PREFIX + QUEUE, headers=headers)
        done(jobs, 42)

        jobs.put("last", 1.5)
        wakeups.wake(QUEUE)
        until(lambda: jobs.names("running") == ["last"], "the job runs")
        process.send_signal(signal.SIGTERM)  # what runs is finished, nothing new is taken
        jobs.put("never")
        wakeups.wake(QUEUE)
        assert process.wait(20) == 0
    assert "last" in jobs.names("done") and jobs.names("todo") == ["never"]
    until(lambda: wakeups.n_tokens(QUEUE) == 1, "its token waits for others")
    wakeups.close()


@pytest.mark.slow
def test_a_second_signal_ends_what_still_runs_after_a_while(jobs: Folder, redis_url: str) -> None:
    wakeups = Wakeups(redis_url)
    with worker(jobs.root, redis_url, slots=2, soft_seconds=1.0) as process:
        jobs.put("long", 60)
        jobs.put("short", 2.2)
        wakeups.wake(QUEUE, 2)
        until(lambda: len(jobs.names("running")) == 2, "both run")
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        time.sleep(1.2)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
        assert time.monotonic() - begun > 2
    assert jobs.names("todo") == ["long"]  # it waits for others
    assert jobs.names("done") == ["short"]
    wakeups.close()


@pytest.mark.slow
def test_a_slot_is_a_thread_that_a_signal_ends(jobs: Folder, redis_url: str) -> None:
    wakeups = Wakeups(redis_url)
    with worker(jobs.root, redis_url, slots=2, soft_seconds=0.2) as process:
        for i in range(10):
            jobs.put(f"job{i}", 0.02)
        wakeups.wake(QUEUE, 10)
        done(jobs, 10)
        owners = {(jobs.root / "done" / name).read_text() for name in jobs.names("done")}
        assert {owner.partition(".")[0] for owner in owners} == {f"w1/{process.pid}"}
        jobs.put("long", 60)
        wakeups.wake(QUEUE)
        until(lambda: jobs.names("running") == ["long"], "the job runs")
        process.send_signal(signal.SIGQUIT)
        assert process.wait(15) == 0
    assert jobs.names("todo") == ["long"]
    assert len(jobs.names("closed")) == len(owners)
    wakeups.close()


@pytest.mark.slow
def test_workers_outlive_their_broker(jobs: Folder, own_broker: Valkey | RabbitMQ) -> None:
    """Thrice killed while idle, thrice while a job runs, once for long: each time they take tokens again."""
    wakeups = Wakeups(own_broker.url)
    n = 0
    with worker(jobs.root, own_broker.url, slots=2) as process:
        jobs.put("first")
        wakeups.wake(QUEUE)
        n += 1
        done(jobs, n)
        time.sleep(2)  # RabbitMQ writes down within a second that there is a new quorum queue
        for round_, away in enumerate((0, 0, 0, 0, 0, 0, 25)):
            if round_ >= 3:
                jobs.put(f"during{round_}", 3.0)
                wakeups.wake(QUEUE)
                n += 1
                until(lambda: jobs.names("running"), "the job runs")
            own_broker.kill()
            time.sleep(away)
            own_broker.start()
            until(lambda: wakeups.n_tokens(QUEUE) is not None, "the broker answers")
            for i in range(5):
                jobs.put(f"after{round_}.{i}")
            n += 5
            begun = time.monotonic()
            while len(jobs.names("done")) < n:
                if wakeups.n_tokens(QUEUE) == 0:
                    wakeups.wake(QUEUE)  # the ledger would say that jobs wait and tokens do not
                assert time.monotonic() - begun < 40, log(jobs)
                time.sleep(0.2)
            print(
                f"{own_broker.url.partition(':')[0]} round {round_}: {time.monotonic() - begun:.1f} s after it was back"
            )
        assert process.poll() is None
        own_broker.pause()
        time.sleep(5)
        own_broker.resume()
        jobs.put("after a pause")
        wakeups.wake(QUEUE)
        until(lambda: "after a pause" in jobs.names("done") or wakeups.wake(QUEUE), "it goes on after a pause")
        own_broker.kill()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0  # also while the broker is away
    wakeups.close()


def test_a_broker_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        serve(Ledger(str(tmp_path / "l.db")), "sqs://host", NewWorker("w", "here", 1, "celery", (QUEUE,), 1), tmp_path)
