"""Celery workers on real brokers: how they end, and what they outlive."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from sciagent.errors import UsageError
from sciagent.execution.celery.wakeups import Wakeups
from sciagent.execution.celery.worker import serve
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue.workers_and_capacity import NewWorker
from tests.execution.workers import done, log, until, worker
from tests.support.celery_worker import Folder
from tests.support.servers.rabbitmq import RabbitMQ
from tests.support.servers.valkey import Valkey

QUEUE = "simulation"


@pytest.fixture
def jobs(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


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
