"""A worker is killed in the middle of a DFT calculation: another goes on from its checkpoint, soon, and pays less."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.execution.worker.read_claimed_jobs import scratch_of
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.elsewhere import driven, driver, until, worker, working

LEASE = 6.0
TEXT = """
campaign: dft
subject: molecule
objectives: [{property: homo_lumo_gap, max: 9, unit: eV}]
ladder:
  - rung: dft
    verifier: pyscf.scf
    settings: {functional: PBE0, basis: def2-SVP, spin_check: "off", geometry: {conformers: 1}}
goal: {kind: graded}
budget: {core_seconds: 100000}
proposer: {kind: screen, file: molecules.smi}
scheduler: {kind: exhaustive}
"""


def opened(folder: Path) -> tuple[Ledger, Built]:
    folder.mkdir()
    (folder / "molecules.smi").write_text("c1ccc2[nH]ccc2c1\n")  # indole
    ledger = Ledger(str(folder / "ledger.db"), artifacts=folder / "artifacts")
    return ledger, create_or_open(ledger, parse_spec(TEXT, base=folder), TEXT, "test").built


def attempts(ledger: Ledger) -> list[sa.RowMapping]:
    with ledger.read() as connection:
        query = sa.select(t.attempt).where(t.attempt.c.job_id.is_not(None)).order_by(t.attempt.c.id)
        return list(connection.execute(query).mappings())


@pytest.mark.slow
def test_a_worker_killed_mid_dft_is_followed_by_one_that_goes_on_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, built = opened(tmp_path / "fresh")
    with working(ledger, tmp_path / "fresh", slots=1):
        assert driven(built, 600) == "finished"
    (whole,) = attempts(ledger)
    ledger.close()

    folder = tmp_path / "killed"
    ledger, built = opened(folder)
    lease = {"SCIAGENT_LEASE_SECONDS": str(LEASE)}
    with driver(built) as one:
        until(lambda: one.step() or _queued(ledger))
        first = worker(ledger, folder, log="first.log", **lease)
        checkpoints = scratch_of(ledger.artifacts) / "checkpoints"
        until(lambda: list(checkpoints.glob("*/fence-1/*.chk")), 120)
        time.sleep(0.5 * whole["wall_seconds"])
        assert attempts(ledger)[0]["state"] == "running"
        os.killpg(first.pid, signal.SIGKILL)
        killed = datetime.now(UTC)
        first.wait()
        second = worker(ledger, folder, log="second.log", **lease)
        until(lambda: one.step() is not None, 600)
        second.terminate()
        assert second.wait(timeout=60) == 0
    lost, done = attempts(ledger)
    with ledger.read() as connection:
        outcome = connection.execute(
            sa.select(t.evidence.c.outcome).where(t.evidence.c.verifier == "pyscf.scf")
        ).scalar_one()
    ledger.close()
    assert (lost["state"], done["state"], outcome) == ("lost", "done", "ok")
    assert (done["started_at"] - killed).total_seconds() < LEASE + 5
    assert done["cost"]["core_seconds"] < 0.8 * whole["cost"]["core_seconds"]
    assert lost["cost"]["core_seconds"] > 0


def _queued(ledger: Ledger) -> bool:
    with ledger.read() as connection:
        return connection.execute(sa.select(t.job.c.id).limit(1)).first() is not None
