"""Jobs that a call takes together, on every kind of worker: only the member that explodes, hangs or exhausts memory is
blamed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.driving.driver import Driver
from sciagent.execution.celery_executor_and_choice_by_name import CeleryExecutor
from sciagent.execution.slurm.controller import SlurmController
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.execution.slurm.conftest import (
    cluster,  # noqa: F401
    profile,
)
from tests.execution.test_celery_campaign import alive, celery_worker
from tests.support.elsewhere import driven, molecules, until, working, written
from tests.support.slurm_cluster import SlurmCluster

TEN, POISON = molecules(10), "CCCO"
QUEUES = ("simulation", "high_fidelity")


def campaign(ledger: Ledger, folder: Path, how: str) -> Built:
    settings, limits = f"{{poison: {POISON}, how: {how}}}", "{wall_seconds: 1, memory_mb: 300}"
    assert POISON in TEN
    return written(ledger, folder, TEN, settings=settings, limits=limits, verifier="bad.together")


def blamed(ledger: Ledger) -> dict[str, str]:
    """Returns the outcomes of the jobs that failed, by molecule. The others are done, some of them together."""
    j, e = t.job.c, t.evidence.c
    query = sa.select(t.candidate.c.text, j.state, j.outcome).select_from(t.job.join(t.candidate))
    with ledger.read() as connection:
        rows = connection.execute(query).all()
        found = connection.scalars(sa.select(e.diagnostics).where(e.verifier == "bad.together")).all()
    assert len(rows) == len(TEN) and len(found) == len(TEN) - 1
    assert max(one["batch"] for one in found) > 1
    return {text: str(outcome) for text, state, outcome in rows if state != "done"}


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ("memory", "out_of_memory"),
        pytest.param("exit", "crashed", marks=pytest.mark.long),
        pytest.param("sleep", "timeout", marks=pytest.mark.long),
        pytest.param("raise", "crashed", marks=pytest.mark.long),
    ],
)
def test_by_workers_of_the_ledger(ledger: Ledger, tmp_path: Path, how: str, outcome: str) -> None:
    built = campaign(ledger, tmp_path, how)
    with working(ledger, tmp_path, 1):
        assert driven(built) == "finished"
    assert blamed(ledger) == {POISON: outcome}


@pytest.mark.long
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_by_celery(ledger: Ledger, tmp_path: Path, redis_url: str) -> None:
    built = campaign(ledger, tmp_path, "memory")
    with celery_worker(ledger, tmp_path, redis_url, "one"):
        until(lambda: alive(ledger) == {"one"})
        with Driver(built, executor=CeleryExecutor(redis_url)) as driver:
            assert str(driver.run(lambda: None)) == "finished"
    assert blamed(ledger) == {POISON: "out_of_memory"}


@pytest.mark.long
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_by_slurm(ledger: Ledger, tmp_path: Path, cluster: SlurmCluster) -> None:  # noqa: F811
    built = campaign(ledger, tmp_path, "memory")
    here = {"SCIAGENT_LEDGER": str(ledger.url.database), "SCIAGENT_ARTIFACTS": str(ledger.artifacts.root)}
    site = profile(cluster, tmp_path / "spool", environment=here, poll_seconds=0.5, max_running=2)
    end = time.monotonic() + 120
    with Driver(built, executor=SlurmController(ledger, site, QUEUES)) as driver:
        assert str(driver.run(lambda: driver.abort() if time.monotonic() > end else None)) == "finished"
    assert blamed(ledger) == {POISON: "out_of_memory"}
    a = t.attempt.c
    with ledger.read() as connection:
        owners = set(connection.scalars(sa.select(a.owner).where(a.job_id.is_not(None))))
    assert len({owner.partition("@")[0] for owner in owners}) <= 3, "ten jobs of two calls take as many elements"
