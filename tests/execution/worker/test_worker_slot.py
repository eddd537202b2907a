"""A slot of a worker ends jobs at their limit or when they are cancelled, and goes on from checkpoints."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.answers.status_and_comparison import CampaignCounts, JobProgress
from sciagent.execution.worker.presence_and_leases import reap
from sciagent.execution.worker.read_claimed_jobs import scratch_of
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks
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


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_job_that_ran_into_its_limit_goes_on_from_its_checkpoint_when_it_is_raised(
    ledger: Ledger, tmp_path: Path
) -> None:
    """While it runs its progress is in the ledger within 5 s; it pays at most what was left and one step."""
    limits = "{{wall_seconds: {}}}"
    options = {"settings": "{steps: 10, seconds: 0.6, declared: 5}", "limits": limits.format(4)}
    built = written(ledger, tmp_path, molecules(1), **options)
    seen = list[JobProgress]()
    began = time.monotonic()

    def status() -> CampaignCounts:
        with ledger.read() as connection:
            return campaign_counts_and_remarks.counts(connection, campaigns.get(connection, built.row.name))

    with driver(built) as one, working(ledger, tmp_path):
        while one.step() is None:
            if not seen and (told := status().progress):
                seen += told
                assert time.monotonic() - began < 5 + 3, "3 s to start a worker"
    assert seen[0].of == 10 and "step" in seen[0].words
    assert counts(ledger, t.job.c.outcome) == {"timeout": 1}
    assert status().progress == (), "nothing runs"
    assert len(list((scratch_of(ledger.artifacts) / "checkpoints").glob("*/*/done"))) == 1

    text = built.row.source.replace(limits.format(4), limits.format(60))
    raised = create_or_open(ledger, parse_spec(text, base=tmp_path), text, "test").built
    with working(ledger, tmp_path):
        assert driven(raised) == "finished"
    with ledger.read() as connection:
        said = connection.execute(
            sa.select(t.evidence.c.diagnostics).where(t.evidence.c.verifier == "bad.remote")
        ).scalar_one()
        done = sa.and_(t.attempt.c.state == "done", t.attempt.c.job_id.is_not(None))
        cost = connection.execute(sa.select(t.attempt.c.cost).where(done)).scalar_one()
    left = 10 - said["began_at"]
    assert 0 < left < 10 and cost["core_seconds"] < (left + 1) * 0.6 + 0.5
    assert list((scratch_of(ledger.artifacts) / "checkpoints").glob("*")) == []
