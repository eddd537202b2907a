"""The local pool: calls wait, are taken back, and come back, whatever happens to them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.execution.worker.local_pool import Completed, Jobs, LocalPool
from sciagent.execution.worker.read_claimed_jobs import ClaimedJob, Task, request_of
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import leases
from sciagent.verification.sandbox.host import Limits
from sciagent.verification.verifier_registry import verifier_class
from tests.support import rows
from tests.support.elsewhere import until

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@pytest.fixture
def pool(ledger: Ledger, tmp_path: Path) -> Iterator[LocalPool]:
    made = LocalPool(ledger, 1, tmp_path / "scratch", ["bad.quick"], threading.Event())
    yield made
    made.close()


@pytest.fixture
def calls(ledger: Ledger) -> list[Jobs]:
    """Two calls of one claimed job each."""
    verifier = verifier_class("bad.quick")({})
    task = Task(1, 1, verifier, {}, Limits(60.0, 1000), {})
    with ledger.begin() as connection:
        row = rows.campaign(connection)
    found: list[Jobs] = []
    for job_id, candidate in zip(rows.queued_jobs(ledger, row, 2), rows.alkanes(2), strict=True):
        with ledger.begin() as connection:
            claim = leases.claim(connection, job_id, "the pool", 600)
        assert claim is not None
        found.append((ClaimedJob(claim, task, 1, candidate, verifier.evidence_key(candidate), None),))
    return found


def submitted(pool: LocalPool, jobs: Jobs, folder: Path) -> Jobs:
    pool.submit(jobs, request_of(jobs, folder))
    return jobs


def come_back(pool: LocalPool) -> Completed:
    pool._bell.wait(60)
    done = pool.next_completed()
    assert done is not None
    return done


def test_one_call_runs_one_waits_and_what_waits_is_taken_back(
    pool: LocalPool, calls: list[Jobs], tmp_path: Path
) -> None:
    assert (pool.free, pool.waiting_room) == (1, 1)
    first = submitted(pool, calls[0], tmp_path)
    until(pool._inbox.empty)
    assert (pool.free, pool.waiting_room) == (0, 1)
    second = submitted(pool, calls[1], tmp_path)
    assert (pool.free, pool.waiting_room, pool.n_calls) == (0, 0, 2)
    assert pool.recall() == [second]
    done = come_back(pool)
    assert done.jobs == first and done.results[0].finding.outcome is Outcome.OK
    assert (pool.free, pool.n_calls) == (1, 0)
