"""A campaign in which people decide: checks on four molecules, then a measurement."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.states_and_needs import CampaignState
from sciagent.store.database import tables as t
from sciagent.store.database.engine import sqlite_path
from sciagent.store.database.ledger import Ledger

CAMPAIGN = """
campaign: {name}
subject: molecule
seed: 1
objectives:
  - {{property: homo_lumo_gap, window: [4.0, {high}], unit: eV}}
ladder:
  - {{rung: checks, verifier: molecule.checks}}
  - rung: lab
    verifier: lab.measurement
    settings: {{quantities: [homo_lumo_gap], method: UV-vis onset, conditions: {{temperature: 25 °C}}}}
    lab: {lab}
terminal: lab
goal: {{kind: hits, count: 2}}
budget: {budget}
proposer: {{kind: screen, file: molecules.csv}}
scheduler: {{kind: exhaustive}}
workers: 1
"""
MOLECULES = ("Oc1ccccc1", "Cc1ccccc1O", "CCO", "Nc1ccccc1")
Make = Callable[..., Built]
_driven: dict[str, tuple[bytes, str]] = {}
"""Ledgers in which only one campaign has been driven until it waits, and their secrets, by the text of the campaign:
driving it takes a second."""


@pytest.fixture
def make(ledger: Ledger, tmp_path: Path) -> Make:
    """Makes a campaign and drives it until it waits for people. quantities: what is measured. wanted: further lines
    of the objectives. header, smiles: lines of the file of molecules."""

    def made(
        name: str = "gaps",
        *,
        lab: str = "{ahead: 3}",
        budget: str = "{lab_slots: 9}",
        high: float = 4.6,
        smiles: Sequence[str] = MOLECULES,
        header: str = "smiles",
        count: int = 2,
        quantities: str = "homo_lumo_gap",
        wanted: str = "",
        more: str = "",
    ) -> Built:
        (tmp_path / "molecules.csv").write_text("\n".join((header, *smiles, "")), encoding="utf-8")
        text = (
            CAMPAIGN.format(name=name, lab=lab, budget=budget, high=high)
            .replace("count: 2", f"count: {count}")
            .replace("quantities: [homo_lumo_gap]", f"quantities: [{quantities}]")
            .replace("ladder:\n", f"{wanted}ladder:\n")
        ) + more
        file = None if _campaigns(ledger) else sqlite_path(ledger.engine)
        known = "\n".join((text, header, *smiles))
        if file and known in _driven:
            with closing(sqlite3.connect(":memory:")) as stored, closing(sqlite3.connect(file)) as opened:
                whole, secret = _driven[known]
                stored.deserialize(whole)
                stored.backup(opened)
            ledger.artifacts.root.mkdir(exist_ok=True)
            ledger.secret.path.write_text(secret, encoding="ascii")
        built = create_or_open(ledger, parse_spec(text, base=tmp_path), text, "test").built
        if not file or known not in _driven:
            assert drive(built) is CampaignState.WAITING
        if file and known not in _driven:
            with closing(sqlite3.connect(file)) as opened:
                driven = bytearray(opened.serialize())
            driven[18:20] = b"\1\1"  # no write-ahead log, which a database in memory cannot have
            _driven.setdefault(known, (bytes(driven), ledger.secret.path.read_text(encoding="ascii")))
        return built

    return made


def _campaigns(ledger: Ledger) -> int:
    with ledger.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(t.campaign)).scalar_one())


def drive(built: Built) -> CampaignState:
    """Drives the campaign until it ends."""
    with Driver(built) as driver:
        return driver.run()
