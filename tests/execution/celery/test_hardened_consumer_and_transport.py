"""Workers on both real brokers take tokens, and refuse all other messages."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import kombu
import pytest
import redis

from sciagent.execution.celery import broker_address_and_work_tokens
from sciagent.execution.celery.broker_address_and_work_tokens import PREFIX, Broker
from sciagent.execution.celery.wakeups import Wakeups
from tests.execution.workers import done, log, until, worker
from tests.support.celery_worker import Folder

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


def hostile(wakeups: Wakeups, trap: Path) -> int:
    """Send what no one should send, straight into the queue; how many messages that were."""
    name = PREFIX + QUEUE
    good = broker_address_and_work_tokens.body(QUEUE)
    many: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
        (Pickled(trap), broker_address_and_work_tokens.headers(QUEUE), {"serializer": "pickle"}),
        ([["../../etc/passwd"], {}, {}], broker_address_and_work_tokens.headers(QUEUE), {}),
        ([["high_fidelity"], {}, {}], broker_address_and_work_tokens.headers(QUEUE), {}),
        ([[QUEUE, "more"], {}, {}], broker_address_and_work_tokens.headers(QUEUE), {}),
        ([[{"a": 1}], {}, {}], broker_address_and_work_tokens.headers(QUEUE), {}),
        ([[QUEUE], {"queue": "x"}, {}], broker_address_and_work_tokens.headers(QUEUE), {}),
        ([["x" * 100_000], {}, {}], broker_address_and_work_tokens.headers(QUEUE), {}),
        ({"task": broker_address_and_work_tokens.TASK, "args": [QUEUE], "id": "1"}, {}, {}),
        (None, broker_address_and_work_tokens.headers(QUEUE), {}),
        (good, {**broker_address_and_work_tokens.headers(QUEUE), "task": "os.system"}, {}),
        (good, {**broker_address_and_work_tokens.headers(QUEUE), "task": "celery.backend_cleanup"}, {}),
        (good, {**broker_address_and_work_tokens.headers(QUEUE), "task": ["a", "list"]}, {}),
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
                headers=broker_address_and_work_tokens.headers(QUEUE),
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
            **broker_address_and_work_tokens.headers(QUEUE),
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


@pytest.mark.parametrize("key", [PREFIX + QUEUE, "unacked"])
def test_a_worker_waits_while_a_key_of_the_broker_holds_something_else(key: str, jobs: Folder, redis_url: str) -> None:
    wakeups = Wakeups(redis_url)
    with worker(jobs.root, redis_url) as process, redis.Redis.from_url(redis_url) as client:
        jobs.put("first")
        wakeups.wake(QUEUE)
        done(jobs, 1)
        client.delete(key)
        client.set(key, "of another program")
        wakeups.wake(QUEUE)
        until(lambda: f'the key "{key}" holds a string' in log(jobs), "the worker says which key it is")
        assert f"redis-cli DEL {key}" in log(jobs)
        assert process.poll() is None
        client.delete(key)
        jobs.put("second")
        until(lambda: wakeups.wake(QUEUE) or len(jobs.names("done")) == 2, "it takes tokens again")
        assert process.poll() is None
    assert "Traceback" not in log(jobs)
    wakeups.close()
