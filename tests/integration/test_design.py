"""Design constraints in real campaigns of one fast rung: a library is proposed exactly, and no proposal is wasted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from rdkit import Chem
from rdkit.Chem import Crippen

from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results.names import names_of
from tests.support.campaigns import sciagent

CAMPAIGN = """
campaign: {name}
subject: molecule
seed: 3
objectives: [{{property: qed, maximise: [0.2, 0.9]}}]
ladder:
  - rung: checks
    verifier: molecule.checks
    settings: {{require_smarts: ["c1ccccc1"], forbid_smarts: ["[N+](=O)[O-]"]}}
    gate: {{logp: {{max: 2.2}}, sa_score: {{max: 2.5}}}}
goal: {{kind: best}}
budget: {{proposals: {proposals}}}
proposer: {proposer}
workers: 1
"""


def proposals(folder: Path, name: str) -> list[Any]:
    p, c = t.proposal.c, t.campaign.c
    query = sa.select(p.text, p.status, p.candidate_id, t.campaign_candidate.c.verdict)
    query = query.join(t.campaign, c.id == p.campaign_id).where(c.name == name).order_by(p.id)
    query = query.outerjoin(t.campaign_candidate, t.campaign_candidate.c.proposal_id == p.id)
    with Ledger(str(folder / "sciagent.db")).read() as connection:
        return list(connection.execute(query))


@pytest.fixture(scope="module", name="folder")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("design")


def test_a_scaffold_with_two_lists_is_enumerated_exactly_with_the_names_of_its_groups(folder: Path) -> None:
    (folder / "amines.csv").write_text("smiles,name\nN,amino\nNC,methylamino\nN1CCOCC1,morpholino\n")
    proposer = "{kind: enumerate, scaffold: 'c1ccc([*:1])cc1[*:2]', batch: 4,"
    proposer += " groups: {1: amines.csv, 2: [F fluoro, '[H]', 'OC methoxy']}}"
    (folder / "library.yaml").write_text(CAMPAIGN.format(name="library", proposals=100, proposer=proposer).lstrip())
    sciagent("run", "library.yaml", "--quiet", cwd=folder)
    made = proposals(folder, "library")
    amines, others = ("N", "NC", "N2CCOCC2"), ("F", "[H]", "OC")
    expected = [Chem.CanonSmiles(f"c1ccc({amine})cc1{other}") for amine in amines for other in others]
    assert [row.text for row in made] == expected and {row.status for row in made} == {"new"}
    with Ledger(str(folder / "sciagent.db")).read() as connection:
        named = names_of(connection, [row.candidate_id for row in made], 1)
    assert [named[row.candidate_id] for row in made[4:6]] == [
        {"R1": ("methylamino",), "R2": ("[H]",)},
        {"R1": ("methylamino",), "R2": ("methoxy",)},
    ]


def test_evolve_wastes_no_proposal_on_a_molecule_that_misses_a_gate(folder: Path) -> None:
    (folder / "seeds.csv").write_text("smiles\nNc1ccccc1\nOc1ccccc1\nCOc1ccccc1\nCCCCCc1ccccc1\n")
    text = CAMPAIGN.format(name="search", proposals=84, proposer="{kind: evolve, seeds: seeds.csv, batch: 10}")
    (folder / "search.yaml").write_text(text.lstrip())
    sciagent("run", "search.yaml", "--quiet", cwd=folder)
    made = proposals(folder, "search")
    assert len(made) == 84
    assert [row.verdict for row in made[:4]] == ["pass"] * 3 + ["fail"], "seeds are the user's own"
    children = [Chem.MolFromSmiles(row.text) for row in made[4:]]
    assert {row.verdict for row in made[4:]} == {"pass"} and {row.status for row in made[4:]} == {"new"}
    assert max(map(Crippen.MolLogP, children)) <= 2.2
    assert all(child.HasSubstructMatch(Chem.MolFromSmarts("c1ccccc1")) for child in children)
