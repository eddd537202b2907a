"""Answers that the ledger has already, which a campaign takes up although the places of their rung are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import sciagent
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger

SPEC = """
campaign: chains
subject: molecule
objectives:
  - {{property: oxygen_share, min: 0.3}}
ladder:
  - {{rung: checks, verifier: molecule.checks}}
  - {{rung: share, verifier: oxygen_counter}}
goal: {{kind: hits}}
budget: {{proposals: 50, rungs: {{share: 2}}}}
proposer: {{kind: screen, file: chains.csv, batch: 20}}
scheduler: {{kind: {scheduler}}}
workers: 1
"""
CHAINS = ("CO", "CCO", "CCCO", "CCCCO", "CCCCCO", "OCCO", "OCCCO", "OCCCCO")
KNOWN = CHAINS[3:]


@pytest.mark.parametrize("scheduler", ["priced", "thresholds", "exhaustive", "halving"])
def test_known_answers_are_taken_up_beyond_the_places_of_a_rung(tmp_path: Path, scheduler: str) -> None:
    @sciagent.verifier(measures="oxygen_share", name="oxygen_counter", cost=0.01)
    def share(molecule: Any) -> tuple[float, float]:
        return molecule.smiles.count("O") / molecule.heavy_atoms, 0.0

    ledger = Ledger(str(tmp_path / "ledger.db"))
    sciagent.calc("oxygen_counter", list(KNOWN), ledger=ledger)
    (tmp_path / "chains.csv").write_text("smiles\n" + "\n".join(CHAINS) + "\n")
    file = tmp_path / "chains.yaml"
    file.write_text(SPEC.format(scheduler=scheduler))
    built = create_or_open(ledger, load_spec(file), file.read_text(), "test").built
    with Driver(built) as driver:
        driver.run()
    cc = t.campaign_candidate.c
    query = sa.select(t.candidate.c.text, cc.verdict).join(t.campaign_candidate, cc.candidate_id == t.candidate.c.id)
    d = t.decision.c
    of_rung = sa.select(d.action, sa.func.count()).where(d.rung_id == built.rungs[-1].id).group_by(d.action)
    with ledger.read() as connection:
        verdicts = {text: verdict for text, verdict in connection.execute(query)}
        actions = connection.execute(of_rung).all()
    assert {action: n for action, n in actions} == {"run": 2, "reuse": len(KNOWN)}
    answered = {text for text, verdict in verdicts.items() if verdict is not None}
    assert answered >= set(KNOWN) and len(answered) == len(KNOWN) + 2
