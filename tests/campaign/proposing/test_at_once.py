"""Rungs that answer inside the turn of an ordinary campaign: their cost, their evidence, and what was lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import sciagent
from sciagent.campaign.core.build import Built, create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.spec.load import parse_spec
from sciagent.domain.jobs.states import CampaignState
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import spend

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
TEXT = """
campaign: inline
subject: molecule
seed: 1
objectives: [{property: heavy_atoms, min: 3}]
ladder:
  - {rung: checks, verifier: molecule.checks}
  - {rung: weigh, verifier: fn.weigh, settings: {marker: MARKER}, inline: true}
goal: {kind: hits, count: 2}
budget: {proposals: 9, core_seconds: 50}
proposer: {kind: screen, file: molecules.csv, batch: 3}
safety: {screen: false, reason: molecules of a test}
"""


@sciagent.verifier(measures="heavy_atoms", unit="1", name="fn.weigh", cost=0.01)
def weigh(molecule: Any, marker: str = "") -> float:
    """The number of heavy atoms. The first COC takes the process down that all verifications come from."""
    if molecule.smiles == "COC" and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getppid(), signal.SIGKILL)
    return float(molecule.heavy_atoms)


def opened(ledger: Ledger, folder: Path, *molecules: str) -> Built:
    (folder / "molecules.csv").write_text("smiles\n" + "\n".join(molecules) + "\n")
    text = TEXT.replace("MARKER", str(folder / "marker"))
    return create_or_open(ledger, parse_spec(text, base=folder), text, "test")[0]


def test_a_campaign_ends_with_the_hits_that_its_inline_rung_has_found(ledger: Ledger, tmp_path: Path) -> None:
    built = opened(ledger, tmp_path, "C", "CCN", "CO", "CCO", "CCF", "CCCO")
    with Driver(built) as driver:
        assert driver.run() is CampaignState.FINISHED
    cc, a, s = t.campaign_candidate.c, t.attempt.c, t.spend.c
    with ledger.read() as connection:
        found = list(connection.execute(sa.select(cc.standing, cc.is_hit).order_by(cc.seq)))
        assert [tuple(row) for row in found] == [("settled", hit) for hit in (False, True, False, True, True, True)]
        attempts = connection.execute(
            sa.select(a.id, a.turn_id, a.cost, a.n_candidates).where(a.rung_id == built.rungs[-1].id)
        )
        rows = attempts.all()
        assert len(rows) == 6 and all(row.n_candidates == 1 and row.turn_id for row in rows), "one for each candidate"
        booked = dict(connection.execute(sa.select(s.attempt_id, s.amount).where(s.attempt_id.is_not(None))).all())
        assert all(booked[row.id] == row.cost["core_seconds"] for row in rows)
        of_turns = connection.execute(sa.select(t.turn.c.cost)).scalars()
        assert sum(cost["core_seconds"] for cost in of_turns) == pytest.approx(sum(booked.values()))
        assert connection.execute(sa.select(sa.func.count()).select_from(t.job)).scalar() == 0, "nothing was bought"
        assert len(spend.cost_ratios(connection, *built.rungs[-1].verifier.computation)) == 6, "costs are learnt"


def test_candidates_that_were_lost_with_the_process_of_another_are_tried_again(ledger: Ledger, tmp_path: Path) -> None:
    built = opened(ledger, tmp_path, "CCN", "COC", "CCF")
    with Driver(built) as driver:
        driver.run()
    with ledger.read() as connection:
        assert set(connection.execute(sa.select(t.campaign_candidate.c.standing)).scalars()) == {"settled"}
    assert (tmp_path / "marker").exists()
