"""What a worker reads of a job that it has claimed, and jobs that it cannot run."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.domain.states_and_needs import JobState
from sciagent.execution.worker.presence_and_leases import reap
from sciagent.execution.worker.worker_slot import Runner
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import workers_and_capacity
from sciagent.store.job_queue.workers_and_capacity import NewWorker
from tests.support.elsewhere import counts, driver, molecules, until, whole, working, written


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_candidate_that_cannot_be_made_is_lost_alone_and_blocks_nobody(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(3))
    j, runner = t.job.c, Runner(ledger, "here/0", ["simulation"], tmp_path / "work")
    with ledger.begin() as connection:
        workers_and_capacity.register(connection, NewWorker("here", "host", os.getpid(), "ledger", ("simulation",), 3))
    with driver(built) as one:
        until(lambda: one.step() or counts(ledger, j.state).get("queued", 0) == 3)
        with ledger.begin() as connection:
            urgent = connection.execute(sa.select(j.id, j.candidate_id).order_by(j.priority.desc(), j.id)).first()
            spoilt = sa.update(t.candidate).where(t.candidate.c.id == urgent.candidate_id)
            connection.execute(spoilt.values(standardiser="of another day", payload={}))
        assert [runner.run_next() for _ in range(3)] == [0, 1, 1]
        assert counts(ledger, j.state) == {"done": 2, "running": 1}
        with ledger.begin() as connection:
            until_ = connection.execute(sa.select(j.lease_until).where(j.id == urgent.id)).scalar_one()
            past = until_ - timedelta(hours=1)
            connection.execute(sa.update(t.job).where(j.id == urgent.id).values(lease_until=past))
        assert [(lost.claim.job_id, lost.state) for lost in reap(ledger)] == [(urgent.id, JobState.QUEUED)]
        one.abort()
        until(one.step)
    runner.close()
    assert counts(ledger, j.losses) == {"0": 2, "1": 1}


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_worker_that_lacks_the_verifier_leaves_the_job_to_others(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = written(ledger, tmp_path, molecules(1), settings="{declared: 5}")
    with driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state) == {"queued": 1})
        poor = Runner(ledger, "poor/0", ("simulation",), tmp_path / "poor")
        with ledger.begin() as connection:
            connection.execute(sa.update(t.rung).values(verifier_version="2"))
        assert poor.run_next() == 0 and poor.run_next() == 0
        poor.close()
        with ledger.begin() as connection:
            connection.execute(sa.update(t.rung).values(verifier_version="1"))
        with working(ledger, tmp_path):
            while one.step() is None:
                pass
    whole(ledger, 1)
    with ledger.read() as connection:
        event = connection.execute(sa.select(t.event.c.payload).where(t.event.c.kind == "worker_cannot")).scalar_one()
    assert "version 1 here" in event["why"] and event["worker"] == "poor/0"
