"""`evolve` in a real campaign of one fast rung: QED of small molecules of four elements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import sciagent

SEEDS = ("c1ccccc1O", "CC(=O)NC", "c1ccncc1", "BrCCBr", "CCOC(C)=O")
CAMPAIGN = """
campaign: qed
subject: molecule
seed: 4
objectives:
  - property: qed
    maximise: [0.2, 0.9]
ladder:
  - rung: checks
    verifier: molecule.checks
    settings: {elements: [H, C, N, O], max_heavy_atoms: 18, max_rings: 2, forbid_smarts: ["C#C"]}
goal: {kind: best}
budget: {proposals: 105}
proposer: {kind: evolve, seeds: seeds.csv, batch: 10, max_heavy_atoms: 40}
workers: 1
"""


@pytest.fixture(scope="module", name="folder")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evolve")
    (folder / "seeds.csv").write_text("smiles\n" + "\n".join(SEEDS) + "\n")
    (folder / "qed.yaml").write_text(CAMPAIGN.lstrip())
    sciagent("run", "qed.yaml", "--quiet", "--no-report", cwd=folder, expect=None)
    return folder


def proposals(folder: Path) -> list[dict[str, Any]]:
    query = (
        sa.select(t.proposal.c.operation, t.proposal.c.status, t.campaign_candidate.c.reason.label("why"))
        .outerjoin(t.campaign_candidate, t.campaign_candidate.c.proposal_id == t.proposal.c.id)
        .order_by(t.proposal.c.id)
    )
    with Ledger(str(folder / "sciagent.db")).read() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


def test_no_proposal_is_wasted_on_what_the_checks_refuse_or_the_campaign_has(folder: Path) -> None:
    made = proposals(folder)
    assert len(made) == 105
    assert [p["operation"] for p in made[:5]] == ["seed"] * 5 and made[3]["why"] == "element"
    children = made[5:]
    assert {p["status"] for p in children} == {"new"}
    assert {p["why"] for p in children} & {"element", "too_large", "charge", "radical", "structural_alert"} == set()
    assert len({p["operation"] for p in children}) > 10


def test_children_are_better_than_what_they_came_from(folder: Path) -> None:
    scored = [b for b in sciagent("best", "qed", "-n", "200", "--json", cwd=folder) if b["verified"]]
    seeds = [b["values"]["qed"]["value"] for b in scored if b["in_seeds"]]
    found = sorted((b["values"]["qed"]["value"] for b in scored if not b["in_seeds"]), reverse=True)
    assert len(seeds) == 4 and found[0] > max(seeds) + 0.1


def test_what_is_learnt_of_operators_is_kept_with_the_turns(folder: Path) -> None:
    with Ledger(str(folder / "sciagent.db")).read() as connection:
        cursors = [
            json.loads(c) if isinstance(c, str) else c for c in connection.execute(sa.select(t.turn.c.cursor)).scalars()
        ]
    assert cursors[0] == {"seeds": 5}
    assert 85 < sum(cursors[-1]["made"].values()) <= 100
