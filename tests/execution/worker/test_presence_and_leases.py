"""Leases are renewed while their jobs run, and a cancelled job is ended at the next look."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.domain.states_and_needs import AttemptState, ReportedProgress
from sciagent.execution.worker import presence_and_leases
from sciagent.execution.worker.presence_and_leases import RenewedLeases
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs
from sciagent.store.job_queue.leases import Claim
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


def test_what_an_earlier_attempt_has_done_is_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charges, then two boxes of which the first and half of the second are there, then one unit every ten seconds."""
    held = RenewedLeases([], lambda: None)
    claim = Claim(job_id=1, attempt_id=7, fence=2)
    reports = [(0, 0, 1), (1, 15, 47), (2, 22, 47), *((2 + 10 * k, 22 + k, 47) for k in range(1, 5))]
    for now, done, of in reports:
        monkeypatch.setattr(presence_and_leases.time, "monotonic", lambda now=now: float(now))
        held.hear(claim, ReportedProgress(done, of))
    assert held.unwritten[7].remaining_seconds == pytest.approx((47 - 26) * 10)
