"""The proposer of docs/agent.md, taken from the page and installed as a third party's package."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.states_and_needs import CampaignState
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.database.ledger import Ledger
from tests.docs.pages import ROOT, blocks
from tests.support.plugins import install

PAGE = ROOT / "docs" / "agent.md"
CAMPAIGN = """
campaign: fluorides
subject: molecule
objectives: [{property: logp, max: 9}]
ladder: [{rung: checks, verifier: molecule.checks, settings: {descriptors: [logp]}}]
goal: {kind: graded}
budget: {proposals: 100}
PROPOSER
scheduler: {kind: exhaustive}
safety: {screen: false, reason: molecules of a test}
"""


def test_the_proposer_of_the_page_proposes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = [block.text for kind in ("toml", "python") for block in blocks(kind, PAGE) if "# acme-search" in block.text]
    assert len(mine) == 2
    for text in mine:
        file = tmp_path / re.match(r"# (\S+)\n", text)[1]  # type: ignore[index]  # the page names its files
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    install(tmp_path / "acme-search", tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (tmp_path / "seeds.csv").write_text("smiles\nc1ccccc1\n", encoding="utf-8")
    [named] = [block.text for block in blocks("yaml", PAGE) if "acme.fluorinate" in block.text]
    text = CAMPAIGN.replace("PROPOSER", named)
    ledger = Ledger(str(tmp_path / "sciagent.db"))
    built = create_or_open(ledger, parse_spec(text, base=tmp_path), text, "test").built
    with Driver(built) as driver:
        assert driver.run() is CampaignState.FINISHED, "it ends when there are no more children"
    with ledger.read() as connection:
        texts = [row["text"] for row in candidate_standings.best_with_worth(connection, built.row.id, 100)]
    ledger.close()
    sys.modules.pop("acme_search", None)
    assert {"c1ccccc1", "Fc1ccccc1", "Fc1ccccc1F"} <= set(texts)
    assert all(re.fullmatch(r"[Fc1()]+", each) for each in texts) and 4 < len(set(texts)) == len(texts)
