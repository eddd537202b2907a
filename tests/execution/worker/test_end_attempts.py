"""How attempts end that no ordinary result ended."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from benchmarks.orchestration.chaos import audited
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.states_and_needs import JobState
from sciagent.execution.worker.end_attempts import JobEnding, JobResult, complete, reap_expired
from sciagent.execution.worker.presence_and_leases import reap
from sciagent.execution.worker.read_claimed_jobs import Tasks, read_claimed
from sciagent.execution.worker.worker_slot import Runner
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import leases
from sciagent.verification.sandbox.host import HostResult
from tests.support.elsewhere import counts, driven, driver, molecules, running, until, whole, working, written


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_job_that_kills_whoever_forks_it_is_quarantined_after_two(ledger: Ledger, tmp_path: Path) -> None:
    smiles = molecules(5)
    built = written(ledger, tmp_path, smiles, settings=f"{{kill_at: {smiles[2]}, declared: 5}}")
    with working(ledger, tmp_path):
        assert driven(built) == "finished"
    assert counts(ledger, t.job.c.state) == {"done": 4, "quarantined": 1}
    with ledger.read() as connection:
        bad = connection.execute(sa.select(t.job).where(t.job.c.state == "quarantined")).mappings().one()
        assert (bad["kills"], bad["attempts"]) == (2, 2)
        place = connection.execute(sa.select(t.campaign_candidate).where(t.campaign_candidate.c.standing == "dropped"))
        (row,) = place.mappings().all()
        assert (row["verdict"], row["reason"]) == ("error", "kills_workers")


def test_what_comes_back_too_late_is_refused_and_counted(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(1), settings="{seconds: 1.5, declared: 5}")
    with driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state) == {"queued": 1})
        slow = Runner(ledger, "slow/0", ("simulation",), tmp_path / "slow")
        quick = Runner(ledger, "quick/0", ("simulation",), tmp_path / "quick")
        thread = threading.Thread(target=slow.run_next)
        thread.start()
        (job_id,) = until(lambda: running(ledger))
        next(iter(until(lambda: slow._renewer._held))).claims.clear()  # cut off: it hears nothing
        with ledger.begin() as connection:
            connection.execute(sa.update(t.job).values(lease_until=t.job.c.created_at))
        assert [found.state for found in reap(ledger)] == [JobState.QUEUED]
        assert quick.run_next() == 1
        thread.join(timeout=30)
        slow.close()
        quick.close()
        while one.step() is None:
            pass
    whole(ledger, 1)
    assert counts(ledger, t.attempt.c.state, t.attempt.c.job_id == job_id) == {"done": 1, "stale": 1}
    assert counts(ledger, t.attempt.c.owner, t.attempt.c.state == "stale") == {"slow/0": 1}
    with ledger.read() as connection:
        a = t.attempt.c
        watermarks = dict(connection.execute(sa.select(a.state, a.watermark).where(a.job_id == job_id)).all())
        known = connection.execute(sa.select(t.evidence.c.watermark).where(t.evidence.c.attempt_id.is_not(None)))
        assert watermarks["stale"] < watermarks["done"], "the loss came first, and its watermark stays"
        late = sa.select(a.cost_at_loss, a.late_watermark, a.cost).where(a.state == "stale")
        at_loss, later, cost = connection.execute(late).one()
        assert later > watermarks["stale"] and at_loss.get("core_seconds", 0.0) < cost["core_seconds"]
        assert watermarks["done"] in known.scalars().all(), "what brought evidence has its watermark"


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_late_result_that_is_written_twice_at_once_is_billed_once(ledger: Ledger, tmp_path: Path) -> None:
    """A worker whose connection was cut tries again while the database may still commit its first try."""
    built = written(ledger, tmp_path, molecules(1), settings="{declared: 5}")
    with driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state) == {"queued": 1})
        with ledger.begin() as connection:
            job_id = connection.execute(sa.select(t.job.c.id)).scalar_one()
            claim = leases.claim(connection, job_id, "slow/0")
            assert claim is not None
            [job] = Tasks().jobs(read_claimed(connection, [claim]))
            began_at = connection.execute(sa.select(t.attempt.c.started_at).where(t.attempt.c.job_id == job_id))
            last_beat = began_at.scalar_one() + timedelta(seconds=2)
            connection.execute(sa.update(t.attempt).values(heartbeat_at=last_beat))
            connection.execute(sa.update(t.job).values(lease_until=t.job.c.created_at))
            assert [lost.claim.job_id for lost in reap_expired(connection)] == [job_id]
        finding = Finding(job.candidate.key, Outcome.OK)
        late = JobResult(job, HostResult(finding, Cost(core_seconds=5.0), wall_seconds=5.0), ())

        def write_again() -> dict[int, JobEnding]:
            with ledger.begin() as connection:
                return complete(connection, [late])

        def waits() -> bool:
            with ledger.read() as connection:
                locked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                return connection.execute(sa.text(locked)).scalar_one() == 1

        with ThreadPoolExecutor(1) as pool:
            with ledger.begin() as connection:
                assert complete(connection, [late]) == {}
                second = pool.submit(write_again)
                until(waits)
            assert second.result(timeout=30) == {}
        with ledger.read() as connection:
            bills = sa.select(t.spend.c.amount).where(t.spend.c.attempt_id == claim.attempt_id).order_by(t.spend.c.id)
            assert connection.execute(bills).scalars().all() == [2.0, 3.0], "until the loss, and what the result added"
            audit = audited(connection)
            assert (audit["attempts_billed_twice"], audit["attempts_billed_otherwise"]) == (0, 0)
