"""Ledgers with campaigns that have measured the QED of small molecules."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.store.database.ledger import Ledger

ENDS = ("O", "N", "C(=O)O", "c1ccccc1", "C#N", "Oc1ccccc1")
PARTS = (ENDS[:2], ENDS[2:4], ENDS[4:])
TEXT = """
campaign: {name}
subject: molecule
seed: 1
objectives:
  - {{property: qed, min: 0.55}}
ladder:
  - {{rung: checks, verifier: molecule.checks, settings: {{elements: {elements}}}}}
goal: {{kind: hits}}
budget: {{proposals: {proposals}}}
proposer: {proposer}
scheduler: {{kind: exhaustive}}
workers: 1
"""


def driven(
    ledger: Ledger, folder: Path, name: str, proposer: str, proposals: int = 60, elements: str = "[H, C, N, O]"
) -> Built:
    """A campaign that has run, whose objective is a QED of at least 0.55."""
    text = TEXT.format(name=name, proposer=proposer, proposals=proposals, elements=elements)
    built = create_or_open(ledger, parse_spec(text, base=folder), text, "test").built
    with Driver(built) as driver:
        driver.run()
    return built


def measured(ledger: Ledger, folder: Path, name: str, ends: tuple[str, ...], elements: str = "[H, C, N, O]") -> Built:
    """A campaign that has measured the QED of chains with these ends."""
    texts = [f"{'C' * n}{end}" for n in range(2, 10) for end in ends]
    (folder / f"{name}.csv").write_text("\n".join(("smiles", *texts, "")), encoding="utf-8")
    return driven(ledger, folder, name, f"{{kind: screen, file: {name}.csv}}", elements=elements)


@pytest.fixture(scope="package", name="two")
def make_two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ledger, Ledger]:
    """A ledger with the campaigns alcohols and acids, and one with nitriles and others."""
    folder = tmp_path_factory.mktemp("laws")
    first, second = Ledger(str(folder / "first.db")), Ledger(str(folder / "second.db"))
    measured(first, folder, "alcohols", PARTS[0])
    measured(first, folder, "acids", PARTS[1])
    measured(second, folder, "nitriles", PARTS[2])
    measured(second, folder, "others", PARTS[2], elements="[H, C, N, O, S]")
    return first, second
