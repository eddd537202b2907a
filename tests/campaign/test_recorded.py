"""Three campaigns with fixed answers at fixed prices make the decisions that are recorded beside this file.

The driver, the ledger and the pool are the real ones. Time enters no decision: jobs are priced in money, there is one
worker, and the scheduler's clock stands still, so that it looks at the candidates when it has nothing left to buy.

To record again, after a change that is meant to change decisions, run this file with SCIAGENT_RECORD=1.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.pricing import priced_scheduler
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.plugins import installed

RECORDED = Path(__file__).parent / "recorded"
GROUPS = ("O", "N", "F", "Cl", "C#N", "C=O")

CAMPAIGN = """\
campaign: {name}
subject: molecule
seed: 7
objectives:
  - property: homo_lumo_gap
    window: [5.6, 6.4]
    unit: eV
ladder:
  - rung: cheap
    verifier: fixed.gap
    settings: {{method: cheap, error: 0.8, money: 0.05}}
    gate:
      homo_lumo_gap: {{min: 1, max: 9, unit: eV}}
  - rung: middle
    verifier: fixed.gap
    settings: {{method: middle, error: 0.3, money: 0.8}}
    gate:
      homo_lumo_gap: {{min: 4, max: 8, unit: eV}}
  - rung: truth
    verifier: fixed.gap
    settings: {{method: truth, error: 0.0, money: 4}}
goal: {{kind: hits}}
budget: {{money: 90, rungs: {{truth: 20}}}}
proposer: {{kind: screen, file: molecules.csv, batch: 24}}
scheduler: {scheduler}
workers: 1
"""
SCHEDULERS = {
    "priced": "{kind: priced, audit: 0.1}",
    "thresholds": "{kind: thresholds}",
    "halving": "{kind: halving, eta: 3}",
}


@pytest.fixture(scope="module", autouse=True)
def fixed_verifiers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed("recorded", tmp_path_factory.mktemp("site")):
        yield


def decisions(folder: Path, name: str) -> list[list[str]]:
    """[structure, rung, action, chooser, reason without its numbers] of each decision in order, then the ending."""
    molecules = ["C" * n + group for group in GROUPS for n in range(1, 13)]
    (folder / "molecules.csv").write_text("smiles\n" + "\n".join(molecules) + "\n", encoding="utf-8")
    file = folder / "campaign.yaml"
    file.write_text(CAMPAIGN.format(name=name, scheduler=SCHEDULERS[name]), encoding="utf-8")
    built = create_or_open(Ledger(str(folder / "sciagent.db")), load_spec(file), file.read_text(), "test").built
    with Driver(built) as driver:
        while driver.step(wait=0.0) is None:
            pool = driver.session.crews[0].pool
            # a step while its job runs could propose, or look at the candidates, a step too early
            while pool.n_calls and pool.completed.empty():
                time.sleep(0.004)
    with built.ledger.read() as connection:
        query = sa.select(
            t.candidate.c.text, t.rung.c.name, t.decision.c.action, t.decision.c.chooser, t.decision.c.why
        )
        query = query.join_from(t.decision, t.candidate, t.decision.c.candidate_id == t.candidate.c.id)
        query = query.join(t.rung, t.decision.c.rung_id == t.rung.c.id).order_by(t.decision.c.id)
        made = [[*row[:-1], _kind(row.why)] for row in connection.execute(query)]
        state, why = connection.execute(sa.select(t.campaign.c.state, t.campaign.c.stop_reason)).one()
    return [*made, [state, why]]


def _kind(why: str) -> str:
    return re.sub(r"\d[\d.]*(e[-+]?\d+)?", "#", why)


@pytest.mark.parametrize(
    "name", [name if name == "priced" else pytest.param(name, marks=pytest.mark.long) for name in SCHEDULERS]
)
def test_decisions_are_those_recorded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priced_scheduler, "time", SimpleNamespace(monotonic=lambda: 0.0))
    made, file = decisions(tmp_path, name), RECORDED / f"{name}.json"
    if os.environ.get("SCIAGENT_RECORD"):
        file.write_text("[\n" + ",\n".join(json.dumps(row) for row in made) + "\n]\n", encoding="utf-8")
    assert made == json.loads(file.read_text(encoding="utf-8"))
