"""One life of a job: killed at the same stage it ends alike, whether the local pool, a worker of the ledger, a Celery
worker or an element of a Slurm array ran it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.driving.driver import Driver
from sciagent.execution.celery.wakeups import Wakeups
from sciagent.execution.worker.end_attempts import reap_expired
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import cluster_reservations
from tests.support.campaigns import environment
from tests.support.elsewhere import again, driver, molecules, until, written

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
ROOT = Path(__file__).parents[2]
EXECUTORS = ["local", *(pytest.param(name, marks=pytest.mark.long) for name in ("ledger", "celery", "slurm"))]
CORES = 2


class End(NamedTuple):
    """The job, and the last of its attempts."""

    job: str
    kills: int
    losses: int
    attempt: str
    reason: str | None
    cores: float
    """Booked core-seconds for each second of wall time; as expected where no heartbeat came after the claim."""


EXPECTED = {
    "claimed": End("queued", 0, 1, "lost", "lease_expired", CORES),
    "running": End("queued", 0, 1, "lost", "lease_expired", CORES),
    "finished": End("queued", 0, 1, "lost", "lease_expired", CORES),
}


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("stage", ["claimed", "running", "finished"])
def test_a_job_killed_at_a_stage_ends_alike_whoever_ran_it(
    ledger: Ledger, tmp_path: Path, stage: str, executor: str, request: pytest.FixtureRequest
) -> None:
    broker = str(request.getfixturevalue("redis_url")) if executor == "celery" else ""
    (smiles,) = molecules(1)
    settings = {"claimed": "{declared: 5}", "running": "{seconds: 60, declared: 5}", "finished": "{declared: 5}"}[stage]
    built = written(ledger, tmp_path, [smiles], settings=settings, resources=f"{{cores: {CORES}}}")
    element = offered(built, executor)
    with run(ledger, tmp_path, stage, executor, broker, element) as process:
        if broker:
            wake(broker)
        assert process.wait(60) != 0
    taken_back(ledger, executor)
    assert last(ledger) == EXPECTED[stage]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_job_that_kills_what_forks_it_is_quarantined_after_two(
    ledger: Ledger, tmp_path: Path, executor: str, request: pytest.FixtureRequest
) -> None:
    broker = str(request.getfixturevalue("redis_url")) if executor == "celery" else ""
    (smiles,) = molecules(1)
    settings = f"{{kill_at: {smiles}, declared: 5}}"
    built = written(ledger, tmp_path, [smiles], settings=settings, resources=f"{{cores: {CORES}}}")
    element = offered(built, executor)
    with run(ledger, tmp_path, "never", executor, broker, element) as process:
        if broker:
            wake(broker)
        if executor == "slurm":  # an element takes one job of several cores: that for which it was made
            assert process.wait(60) == 0 and last(ledger).kills == 1
        else:
            until(lambda: last(ledger).job == "quarantined", 60)
            process.kill()
    if executor == "slurm":
        reserve(ledger)
        with run(ledger, tmp_path, "never", executor, broker, element) as process:
            assert process.wait(60) == 0
    assert last(ledger) == End("quarantined", 2, 0, "failed", "worker_died", CORES)


def test_a_job_that_takes_its_driver_down_is_quarantined_after_five(ledger: Ledger, tmp_path: Path) -> None:
    written(ledger, tmp_path, molecules(1), settings="{declared: 5}")
    with run(ledger, tmp_path, "claimed", "local", "", "", lives=5) as process:
        assert process.wait(240) == 0
    taken_back(ledger, "local")
    assert last(ledger)[:3] == ("quarantined", 0, 5)
    with ledger.read() as connection:
        placed = connection.execute(sa.select(t.campaign_candidate.c.verdict, t.campaign_candidate.c.reason)).one()
    assert tuple(placed) == ("error", "kills_workers")


def offered(built: Built, executor: str) -> str:
    """Offer the job to workers elsewhere; for Slurm it is reserved. Returns the element's description."""
    if executor == "local":
        return ""
    with driver(built) as one:
        until(lambda: one.step() or last_state(built.ledger) == "queued")
        one.session.crews[0].abort()
        one.abort()
        with built.ledger.begin() as connection:
            ids = connection.execute(sa.select(t.job.c.id)).scalars().all()
    with built.ledger.begin() as connection:  # the driver that left has withdrawn it
        connection.execute(sa.update(t.job).values(queue="simulation"))
    if executor == "slurm":
        reserve(built.ledger)
    made = {"name": "slurm one_0", "jobs": ids[:1], "queues": ["simulation"], "seconds": 60.0, "margin": 2.0}
    return json.dumps(made | {"memory_mb": 8000})


def reserve(ledger: Ledger) -> None:
    """For the one element of an array."""
    with ledger.begin() as connection:
        ids = connection.execute(sa.select(t.job.c.id)).scalars().all()
        cluster_reservations.reserve_for(connection, dict.fromkeys(ids, "slurm one_0"))


def run(
    ledger: Ledger, folder: Path, stage: str, executor: str, broker: str, element: str, lives: int = 0
) -> subprocess.Popen[bytes]:
    env = environment(
        SCIAGENT_ARTIFACTS=str(ledger.artifacts.root), SCIAGENT_LEASE_SECONDS="2", PYTHONPATH=pythonpath()
    )
    command = [sys.executable, "-m", "tests.support.mortal", stage, executor]
    command += [ledger.url.render_as_string(False), broker, element, *([str(lives)] if lives else [])]
    with (folder / "mortal.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True)


def pythonpath() -> str:
    return os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])


def wake(broker: str) -> None:
    wakeups = Wakeups(broker)
    wakeups.wake("simulation")
    wakeups.close()


def taken_back(ledger: Ledger, executor: str) -> None:
    """By the next driver, or by whoever sees that the lease has run out."""
    if executor == "local":
        with Driver(again(ledger)) as one:
            one.abort()
            until(lambda: one.step() is not None)
        return

    def reaped() -> Any:
        with ledger.begin() as connection:
            return reap_expired(connection)

    until(reaped, 20)


def last(ledger: Ledger) -> End:
    a = t.attempt.c
    query = (
        sa.select(t.job.c.state, t.job.c.kills, t.job.c.losses, a.state, a.reason, a.id, a.cost, a.wall_seconds)
        .join(t.attempt, t.attempt.c.job_id == t.job.c.id)
        .order_by(t.attempt.c.id.desc())
    )
    with ledger.read() as connection:
        row = connection.execute(query.limit(1)).first()
        booked = {id_: amount for id_, amount in connection.execute(sa.select(t.spend.c.attempt_id, t.spend.c.amount))}
    if row is None:
        return End("", 0, 0, "", None, 0.0)
    *parts, reason, id_, cost, wall = row
    assert booked.get(id_, 0.0) == cost.get("core_seconds", 0.0)
    return End(*parts, reason, round(booked.get(id_, 0.0) / wall, 6) if wall else float(CORES))


def last_state(ledger: Ledger) -> str | None:
    with ledger.read() as connection:
        return connection.execute(sa.select(t.job.c.state)).scalar()
