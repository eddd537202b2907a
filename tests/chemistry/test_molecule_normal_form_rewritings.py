"""Two thousand ways of writing two hundred drugs give two hundred keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rdkit import Chem

from sciagent.chemistry.molecule import parse_molecule
from sciagent.chemistry.molecule_normal_form import RULES, parent

ROWS = json.loads((Path(__file__).parent / "pinned_keys.json").read_text())
DRUGS = [row for row in ROWS if row["set"] == "drug"][:200]
SALTS = ("Cl", "[Na+].[Cl-]", "OS(=O)(=O)O", "O.O", "[K+].[Br-]")


def rewritings(smiles: str, seed: int) -> Iterator[tuple[str, str]]:
    mol = Chem.MolFromSmiles(smiles)
    hydrogens = Chem.AddHs(mol)
    kekulised = Chem.Mol(mol)
    Chem.Kekulize(kekulised, clearAromaticFlags=True)
    for text in Chem.MolToRandomSmilesVect(mol, 3, randomSeed=seed):
        yield "order", text
    for text in Chem.MolToRandomSmilesVect(kekulised, 2, randomSeed=seed):
        yield "kekulised", text
    for text in Chem.MolToRandomSmilesVect(hydrogens, 2, randomSeed=seed):
        yield "hydrogens", text
    yield "all hydrogens", Chem.MolToSmiles(mol, allHsExplicit=True)
    salt = SALTS[seed % len(SALTS)]
    yield "salt", f"{salt}.{smiles}" if seed % 2 else f"{smiles}.{salt}"
    yield "charges", hypervalent(smiles)


def hypervalent(smiles: str) -> str:
    """Nitro groups with two double bonds; sulfur's double bonds to oxygen as separated charges."""
    text = smiles.replace("[N+](=O)[O-]", "N(=O)=O").replace("S(C)(=O)=O", "[S+2](C)([O-])[O-]")
    return text.replace("CS(=O)C", "C[S+]([O-])C")


@pytest.mark.parametrize("part", range(4))
def test_ten_rewritings_of_each_drug_keep_its_key(part):
    changed = []
    for seed, row in list(enumerate(DRUGS, start=1))[part::4]:
        written = list(rewritings(row["smiles"], seed))
        assert len(written) == 10
        for kind, text in written:
            if parse_molecule(text, standardise="parent" if kind == "salt" else "refuse").key != row["key"]:
                changed.append((row["name"], kind, text))
    assert changed == []


def test_the_charge_spellings_are_exercised():
    assert sum(hypervalent(row["smiles"]) != row["smiles"] for row in DRUGS) >= 5


def test_no_rule_of_the_standardiser_moves_a_proton():
    for name, smirks in RULES:
        assert "H" not in smirks.replace("#6", ""), name


def test_the_parent_of_a_parent_is_itself():
    for row in DRUGS[:50]:
        once = parent(Chem.MolFromSmiles(row["smiles"]))
        assert Chem.MolToSmiles(parent(once)) == Chem.MolToSmiles(once)
