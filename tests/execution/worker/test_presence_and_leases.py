"""Leases are renewed while their jobs run, and a cancelled job is ended at the next look."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.domain.states_and_needs import AttemptState
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs
from tests.support.elsewhere import counts, driver, molecules, processes, running, until, working, written


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_cancelling_what_runs_takes_less_than_three_seconds_and_leaves_nothing(ledger: Ledger, tmp_path: Path) -> None:
    smiles = molecules(1)
    built = written(ledger, tmp_path, smiles, settings=f"{{hang_at: {smiles[0]}, declared: 5}}")
    with working(ledger, tmp_path), driver(built) as one:
        until(lambda: one.step() or processes("import time; time.sleep(1000)"))
        (job_id,) = running(ledger)
        began = time.monotonic()
        with ledger.begin() as connection:
            assert jobs.request_cancel(connection, [job_id]) == ([], [job_id])
        until(lambda: counts(ledger, t.job.c.state) == {"cancelled": 1} and not processes("time.sleep(1000)"), 10)
        took = time.monotonic() - began
        one.abort()
        while one.step() is None:
            pass
    assert took < 3.0
    with ledger.read() as connection:
        attempt = connection.execute(sa.select(t.attempt).where(t.attempt.c.job_id == job_id)).mappings().one()
        assert attempt["state"] == AttemptState.CANCELLED and attempt["cost"]["core_seconds"] > 0
