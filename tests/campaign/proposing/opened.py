"""An opened campaign, a process for its fast rung, the safety screen, and how proposals are written without a turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.proposing.campaign_workbench import CampaignWorkbench
from sciagent.campaign.proposing.write_turns import TurnWriter
from sciagent.store.database.ledger import Ledger
from sciagent.verification.sandbox.host import Worker

TEXT = """
campaign: bench
description: Alcohols of any length.
subject: molecule
seed: 1
objectives: [{property: logp, max: 5}]
ladder:
  - {rung: quick, verifier: bad.quick}
goal: {kind: graded}
budget: {proposals: 9, core_seconds: 50}
proposer: {kind: screen, file: molecules.csv}
scheduler: {kind: exhaustive}
"""


@pytest.fixture
def built(ledger: Ledger, tmp_path: Path) -> Built:
    (tmp_path / "molecules.csv").write_text("smiles\nC\n")
    return create_or_open(ledger, parse_spec(TEXT, base=tmp_path), TEXT, "test").built


@pytest.fixture
def worker(built: Built) -> Iterator[Worker]:
    with Worker(built.scratch(), preload=[rung.verifier.name for rung in built.fast]) as started:
        yield started


def commit(built: Built, bench: CampaignWorkbench) -> None:
    with built.ledger.begin() as connection:
        TurnWriter(built, "test").write_proposals(connection, [bench])
