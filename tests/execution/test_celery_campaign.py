"""A whole campaign on Celery workers: real broker, real ledger, real processes."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
import sqlalchemy as sa

from sciagent.campaign.driving.driver import Driver
from sciagent.execution.celery_executor_and_choice_by_name import CeleryExecutor
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import workers_and_capacity
from tests.support.campaigns import environment
from tests.support.elsewhere import counts, molecules, until, whole, written

pytestmark = pytest.mark.slow
SERVE = """
import json, os, sys
from pathlib import Path
from sciagent.api.campaign import open_ledger
from sciagent.execution.celery.worker import serve
from sciagent.store.job_queue.workers_and_capacity import NewWorker
said = json.loads(sys.argv[1])
slots, more = said["slots"], {"resources": said.get("resources", {}), "cores": said.get("cores")}
new = NewWorker(said["name"], "here", os.getpid(), "celery", tuple(said["queues"]), slots, **more)
serve(open_ledger(said["ledger_url"]), said["broker_url"], new, Path(said["scratch"]))
"""


@contextmanager
def celery_worker(
    ledger: Ledger, folder: Path, broker_url: str, name: str, **more: Any
) -> Iterator[subprocess.Popen[bytes]]:
    said = {
        "ledger_url": ledger.url.render_as_string(False),
        "broker_url": broker_url,
        "name": name,
        "slots": 2,
        "queues": ["simulation", "high_fidelity"],
        "scratch": str(folder / f"scratch-{name}"),
        **more,
    }
    env = environment(SCIAGENT_ARTIFACTS=str(ledger.artifacts.root))
    with (folder / f"{name}.log").open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, json.dumps(said)],
            cwd=folder,
            env=env,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(40) == 0, (folder / f"{name}.log").read_text()
        finally:
            process.kill()


def test_a_campaign_runs_on_celery_workers(ledger: Ledger, tmp_path: Path, broker_url: str) -> None:
    built = written(ledger, tmp_path, molecules(60))
    with celery_worker(ledger, tmp_path, broker_url, "one"), celery_worker(ledger, tmp_path, broker_url, "two"):
        until(lambda: alive(ledger) == {"one", "two"})
        with Driver(built, executor=CeleryExecutor(broker_url)) as driver:
            assert str(driver.run(lambda: None)) == "finished"
    whole(ledger, 60)
    assert alive(ledger) == set()
    owners = {owner.partition("/")[0] for owner in counts(ledger, t.attempt.c.owner, t.attempt.c.job_id.is_not(None))}
    assert owners <= {"one", "two"}


def test_celery_workers_hold_what_they_said_they_have(ledger: Ledger, tmp_path: Path, broker_url: str) -> None:
    settings = "{seconds: 0.2, declared: 5}"
    built = written(ledger, tmp_path, molecules(8), resources="{gpu: 1}", settings=settings)
    with (
        celery_worker(ledger, tmp_path, broker_url, "one", resources={"gpu": 1}),
        celery_worker(ledger, tmp_path, broker_url, "two", resources={"gpu": 1}, cores=1),
        celery_worker(ledger, tmp_path, broker_url, "bare"),
    ):
        until(lambda: alive(ledger) == {"one", "two", "bare"})
        with Driver(built, executor=CeleryExecutor(broker_url)) as driver:
            assert str(driver.run(lambda: None)) == "finished"
    whole(ledger, 8)
    a = t.attempt.c
    with ledger.read() as connection:
        found = connection.execute(sa.select(a.owner, a.started_at, a.ended_at, a.holds).where(a.job_id.is_not(None)))
        ran = sorted((owner.partition("/")[0], began, ended, holds) for owner, began, ended, holds in found.all())
    assert {owner for owner, *_ in ran} <= {"one", "two"} and all(holds["gpu"] == [0] for *_, holds in ran)
    for (owner, _, ended, _), (other, began, _, _) in itertools.pairwise(ran):
        assert owner != other or ended <= began, "a worker has one GPU"


def alive(ledger: Ledger) -> set[str]:
    with ledger.read() as connection:
        return {one.name for one in workers_and_capacity.alive(connection)}


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_drained_worker_takes_nothing_new_until_it_may_again(ledger: Ledger, tmp_path: Path, redis_url: str) -> None:
    built = written(ledger, tmp_path, molecules(4), settings="{declared: 5}")
    with celery_worker(ledger, tmp_path, redis_url, "one", slots=1) as process:
        until(lambda: alive(ledger) == {"one"})
        drain(ledger, True)
        with Driver(built, executor=CeleryExecutor(redis_url)) as driver:
            end = time.monotonic() + 8
            while time.monotonic() < end:
                driver.step()
                time.sleep(0.05)
            assert "done" not in counts(ledger, t.job.c.state)
            drain(ledger, False)
            assert str(driver.run(lambda: None)) == "finished"
        assert process.poll() is None
    whole(ledger, 4)


def drain(ledger: Ledger, on: bool) -> None:
    """Returns when the worker has heard of it: it listens every few seconds."""
    with ledger.begin() as connection:
        assert workers_and_capacity.drain(connection, "one", on)
    time.sleep(12)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_jobs_run_without_tokens_while_the_broker_cannot_be_used(
    ledger: Ledger, tmp_path: Path, redis_url: str
) -> None:
    built = written(ledger, tmp_path, molecules(6))
    key = "sciagent.simulation"
    with celery_worker(ledger, tmp_path, redis_url, "one") as process, redis.Redis.from_url(redis_url) as client:
        until(lambda: alive(ledger) == {"one"})
        client.delete(key)
        client.set(key, "of another program")
        with Driver(built, executor=CeleryExecutor(redis_url)) as driver:
            assert str(driver.run(lambda: None)) == "finished"
        assert client.get(key) == b"of another program"
        assert process.poll() is None
    whole(ledger, 6)
