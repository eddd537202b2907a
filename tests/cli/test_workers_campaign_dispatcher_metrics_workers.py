"""`sciagent workers`, as it is typed."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.report.prometheus_metrics import LedgerCollector
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import offers_claims_and_ended_jobs, workers_and_capacity
from sciagent.store.job_queue.jobs import Offer
from sciagent.store.job_queue.workers_and_capacity import NewWorker
from tests.support.commands import Typed, typed  # noqa: F401
from tests.support.waiting_jobs import claimed, six_jobs  # noqa: F401

ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@ON_SQLITE
def test_workers_say_who_lives_runs_what_and_which_queue_nobody_serves(
    ledger: Ledger,
    six_jobs: Built,  # noqa: F811
    typed: Typed,  # noqa: F811
) -> None:
    one = claimed(ledger)
    with ledger.begin() as connection:
        workers_and_capacity.register(connection, NewWorker("old:2:cd", "old", 2, "celery", ("high_fidelity",), 4))
        workers_and_capacity.report_stopped(connection, "old:2:cd")
        long_ago = db_now(connection) - timedelta(hours=5)
        connection.execute(sa.update(t.worker).where(t.worker.c.name == "node7:1:ab").values(started_at=long_ago))
        offers_claims_and_ended_jobs.offer_many(connection, {1: Offer("high_fidelity", None, None)})
    text = typed.told("workers")
    assert "node7:1:ab on node7 (ledger): 2 slots, 8 GB for simulation; up 5 h, seen " in text
    assert re.search(rf"node7:1:ab/0: job {one.job_id}, elsewhere remote, \S+, \d s", text)
    assert "old:2:cd" not in text
    assert "queue simulation: 4 wait, the oldest for" in text and "2 slots serve it" in text
    assert "nobody serves queue high_fidelity: sciagent worker --tier high_fidelity" in text
    text = typed.told("workers", "--all")
    assert "old:2:cd on old (celery): 4 slots for high_fidelity" in text and ", stopped" in text
    found = typed.data("workers", "--all")
    assert [(w["name"], w["alive"], len(w["running"])) for w in found["workers"]] == [
        ("node7:1:ab", True, 1),
        ("old:2:cd", False, 0),
    ]
    assert found["queues"][0] | {"oldest": None} == {"queue": "simulation", "depth": 4, "oldest": None, "slots": 2}


@ON_SQLITE
def test_a_worker_is_drained_and_takes_jobs_again(ledger: Ledger, six_jobs: Built, typed: Typed) -> None:  # noqa: F811
    claimed(ledger)
    assert "node7:1:ab takes nothing new; it finishes 1 job\n" in typed.told("workers", "--drain", "node7:1:ab")
    assert ", draining" in typed.told("workers") and "0 slots serve it" in typed.told("workers")
    assert typed.data("workers", "--drain", "node7:1:ab", "--undo")["draining"] is False
    assert 'unknown worker "node7:1:ac"; did you mean "node7:1:ab"' in typed.refused("workers", "--drain", "node7:1:ac")


@ON_SQLITE
def test_what_workers_have_and_jobs_hold_is_shown(ledger: Ledger, six_jobs: Built, typed: Typed) -> None:  # noqa: F811
    able = NewWorker("gpu1:5:ef", "gpu1", 5, "ledger", ("simulation",), 4, None, 8, {"gpu": 2, "gaussian": 4})
    with ledger.begin() as connection:
        workers_and_capacity.register(connection, able)
        offers_claims_and_ended_jobs.restate_needs(connection, {six_jobs.paid[0].id: "cores=3 gaussian=1 gpu=1"})
        (one,) = offers_claims_and_ended_jobs.claim_next(connection, ["simulation"], "gpu1:5:ef/0", worker=able)
        offers_claims_and_ended_jobs.restate_needs(connection, {six_jobs.paid[0].id: "cores=9"})
    text = typed.told("workers")
    assert text.splitlines()[-1] == (
        "no worker of queue simulation can ever hold a job that needs 9 cores: the most cores that a worker has are 8"
    )
    assert "gpu1:5:ef on gpu1 (ledger): 4 slots, 8 cores, 2 gpu, 4 gaussian for simulation" in text
    assert re.search(rf"job {one.job_id}, .*, holds 3 cores, 1 gaussian, GPU 0, \d s", text)
    found = {each["name"]: each for each in typed.data("workers")["workers"]}
    assert (found["gpu1:5:ef"]["cores"], found["gpu1:5:ef"]["resources"]) == (8, {"gpu": 2, "gaussian": 4})
    assert found["gpu1:5:ef"]["running"][0]["holds"] == {"cores": 3, "gaussian": 1, "gpu": [0]}
    assert "gpu 1 of 2, gaussian 1 of 4" in typed.told("top", "--once")
    used = {m.name: {tuple(s.labels.values()): s.value for s in m.samples} for m in LedgerCollector(ledger).collect()}
    assert used["sciagent_worker_resource_used"]["gpu1:5:ef", "gpu1", "ledger", "cores"] == 3
    assert used["sciagent_worker_resource"]["gpu1:5:ef", "gpu1", "ledger", "gpu"] == 2
