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
from sciagent.store.results.candidates import names_of
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
    sciagent("run", "library.yaml", "--quiet", "--no-report", cwd=folder)
    made = proposals(folder, "library")
    amines, others = ("N", "NC", "N2CCOCC2"), ("F", "[H]", "OC")
    expected = [Chem.CanonSmiles(f"c1ccc({amine})cc1{other}") for amine in amines for other in others]
    assert [row.text for row in made] == expected and {row.status for row in made} == {"new"}
    with Ledger(str(folder / "sciagent.db")).read() as connection:
        named = names_of(connection, [row.candidate_id for row in made], [1])
    assert [named[row.candidate_id] for row in made[4:6]] == [
        {"name": ("methylamino, [H]",), "R1": ("methylamino",), "R2": ("[H]",)},
        {"name": ("methylamino, methoxy",), "R1": ("methylamino",), "R2": ("methoxy",)},
    ]


def test_evolve_wastes_no_proposal_on_a_molecule_that_misses_a_gate(folder: Path) -> None:
    (folder / "seeds.csv").write_text("smiles\nNc1ccccc1\nOc1ccccc1\nCOc1ccccc1\nCCCCCc1ccccc1\n")
    text = CAMPAIGN.format(name="search", proposals=84, proposer="{kind: evolve, seeds: seeds.csv, batch: 10}")
    (folder / "search.yaml").write_text(text.lstrip())
    sciagent("run", "search.yaml", "--quiet", "--no-report", cwd=folder)
    made = proposals(folder, "search")
    assert len(made) == 84
    assert [row.verdict for row in made[:4]] == ["pass"] * 3 + ["fail"], "seeds are the user's own"
    children = [Chem.MolFromSmiles(row.text) for row in made[4:]]
    assert {row.verdict for row in made[4:]} == {"pass"} and {row.status for row in made[4:]} == {"new"}
    assert max(map(Crippen.MolLogP, children)) <= 2.2
    assert all(child.HasSubstructMatch(Chem.MolFromSmarts("c1ccccc1")) for child in children)


DERIVED = """
campaign: softness
subject: molecule
derived:
  - {property: polarity, unit: angstrom**2, formula: tpsa - 10 angstrom**2 * rings}
  - {property: half_gap, unit: kJ/mol, formula: (lumo - homo) / 2}
  - {property: electronegativity, unit: eV, formula: -homo - half_gap + 0.5 eV}
objectives:
  - {property: half_gap, unit: kJ/mol, max: 400}
  - {property: electronegativity, unit: eV, window: [5, 12], weight: 0.5}
ladder:
  - rung: checks
    verifier: molecule.checks
    gate: {polarity: {max: 25, unit: angstrom**2}}
  - rung: xtb
    verifier: xtb.singlepoint
    settings: {geometry: {conformers: 1}}
    gate: {half_gap: {max: 500, unit: kJ/mol}}
goal: {kind: hits, count: 9}
budget: {core_seconds: 100}
proposer: {kind: screen, file: molecules.csv}
workers: 1
"""


def test_derived_properties_are_judged_recorded_and_shown_like_any_other(folder: Path) -> None:
    (folder / "molecules.csv").write_text("smiles\nc1ccncc1\nCO\nNC=O\nC\n")  # formamide is too polar
    (folder / "derived.yaml").write_text(DERIVED.lstrip())
    sciagent("run", "derived.yaml", "--quiet", "--no-report", cwd=folder)
    rows = {row["smiles"]: row for row in sciagent("best", "softness", "-n", "9", "--json", cwd=folder)}
    assert "polarity = 43.09" in rows["NC=O"]["detail"] and not rows["NC=O"]["hit"]
    for smiles in ("c1ccncc1", "CO", "C"):
        values = {name: (value["value"], value["unit"]) for name, value in rows[smiles]["values"].items()}
        half, gap = values["half_gap"], values["homo_lumo_gap"]
        assert half == (pytest.approx(gap[0] / 2 * 96.485332), "kJ/mol")
        chi = -values["homo"][0] - gap[0] / 2 + 0.5
        assert values["electronegativity"] == (pytest.approx(chi), "eV")
        uncertainty = rows[smiles]["values"]["half_gap"]["uncertainty"]
        if smiles == "CO":
            assert uncertainty > 0.01 * 96.485332, "OH turns"
        else:
            assert uncertainty == pytest.approx(0.001 * 96.485332), "0.001 eV for each orbital, of one calculation"
        assert rows[smiles]["hit"] == (half[0] <= 400 and 5 <= chi <= 12)
    assert {rows["c1ccncc1"]["hit"], rows["C"]["hit"]} == {True, False}
    with Ledger(str(folder / "sciagent.db")).read() as connection:
        e = t.evidence.c
        query = sa.select(e.inputs_hash, e.revision).where(e.verifier == "derived.formula")
        recorded = list(connection.execute(query))
    assert len(recorded) == 4 + 3 * 2 and all(len(hash_) == 64 and revision == 0 for hash_, revision in recorded)
