"""A slot of a worker ends jobs at their limit or when they are cancelled, and goes on from checkpoints."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.execution.worker.presence_and_leases import reap
from sciagent.execution.worker.read_claimed_jobs import scratch_of
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.elsewhere import counts, driven, driver, molecules, processes, until, whole, worker, working, written


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_hanging_job_is_ended_at_its_limit_with_its_children(ledger: Ledger, tmp_path: Path) -> None:
    smiles = molecules(2)
    built = written(
        ledger, tmp_path, smiles, settings=f"{{hang_at: {smiles[0]}, declared: 5}}", limits="{wall_seconds: 2}"
    )
    with working(ledger, tmp_path):
        assert driven(built) == "finished"
    assert counts(ledger, t.job.c.state) == {"done": 1, "failed": 1}
    assert counts(ledger, t.attempt.c.outcome, t.attempt.c.state == "failed") == {"timeout": 1}
    assert [p for p in processes("import time; time.sleep(1000)")] == []


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_another_worker_goes_on_from_the_checkpoint_and_pays_less(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(1), settings="{steps: 8, seconds: 0.4, declared: 5}")
    with driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state) == {"queued": 1})
        killed = worker(ledger, tmp_path)
        done = scratch_of(ledger.artifacts) / "checkpoints"
        until(lambda: [p for p in done.glob("*/fence-1/done") if int(p.read_text() or 0) >= 4])
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        with ledger.begin() as connection:  # what a lease of a minute would do
            connection.execute(sa.update(t.job).values(lease_until=t.job.c.created_at))
        with working(ledger, tmp_path):
            reap(ledger)
            while one.step() is None:
                pass
    whole(ledger, 1)
    paid = sa.and_(t.attempt.c.state == "done", t.attempt.c.job_id.is_not(None))
    with ledger.read() as connection:
        said = connection.execute(
            sa.select(t.evidence.c.diagnostics).where(t.evidence.c.verifier == "bad.remote")
        ).scalar_one()
        cost = connection.execute(sa.select(t.attempt.c.cost).where(paid)).scalar_one()
    assert said["began_at"] >= 4
    assert cost["core_seconds"] < 8 * 0.4
    assert list(done.glob("*")) == []
