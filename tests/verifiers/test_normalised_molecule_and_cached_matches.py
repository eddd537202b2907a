"""A hazard is found however its structure is drawn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem.MolStandardize import rdMolStandardize

from sciagent.chemistry.molecule import parse_molecule
from sciagent_verifiers.fast.hazards.molecule_hazards import screen
from tests.verifiers.safety_table import HAZARDS, SCREEN


def blocked(smiles: str, **how: Any) -> bool:
    return SCREEN.accepts(parse_molecule(smiles, **how)) is not None


@pytest.mark.parametrize("row", HAZARDS, ids=lambda row: row["name"])
def test_isotopes_do_not_hide_a_hazard(row: dict[str, str]) -> None:
    mol = Chem.AddHs(Chem.MolFromSmiles(row["smiles"]))
    heavier = {1: 2, 6: 13, 7: 15, 8: 18, 16: 34}
    for atom in mol.GetAtoms():
        atom.SetIsotope(heavier.get(atom.GetAtomicNum(), 0))
    assert blocked(Chem.MolToSmiles(mol))


@pytest.mark.parametrize("row", HAZARDS, ids=lambda row: row["name"])
def test_protons_taken_or_given_do_not_hide_a_hazard(row: dict[str, str]) -> None:
    mol = parse_molecule(row["smiles"]).mol
    amine, acid = (
        Chem.MolFromSmarts("[NX3;!$(N-*=,#,:*);!$(N~[!#6;!#1])]"),
        Chem.MolFromSmarts("[O;H1;$(O-[#6,#15]=O)]"),
    )
    for pattern, charge in ((amine, 1), (acid, -1)):
        for (index,) in mol.GetSubstructMatches(pattern):
            changed = Chem.RWMol(mol)
            atom = changed.GetAtomWithIdx(index)
            atom.SetNumExplicitHs(atom.GetTotalNumHs() + charge)
            atom.SetNoImplicit(True)
            atom.SetFormalCharge(charge)
            assert blocked(Chem.MolToSmiles(changed)), Chem.MolToSmiles(changed)


@pytest.mark.parametrize(
    "smiles",
    [
        "CCOP(C)(=O)SCC[NH+](C(C)C)C(C)C.[Cl-]",
        "C[NH+](CCCl)CCCl.[Cl-]",
        "[Na+].[O-]C(=O)CF",
        "[K+].[C-]#N",
        "F[B-](F)(F)F.N#[N+]c1ccccc1",
        "[Na+].[N-]=[N+]=[N-]",
        "OC(=O)C(O)(c1ccccc1)c1ccccc1.O",
    ],
)
def test_salts_and_solvates_are_refused_by_their_hazardous_part(smiles: str) -> None:
    assert blocked(smiles, standardise="parent")
    assert screen(Chem.MolFromSmiles(smiles))


@pytest.mark.parametrize(
    "smiles", ["C[P+]([O-])(F)OC(C)C", "CC(C)OP(C)(F)=[OH+]", "ClCC[S]CCCl", "O=N(=O)OCCON(=O)=O", "CN=N#N",
               "[N-]=[N+]=NC", "C[N-][N+]#N", "[N-]=[NH+].[N-]=[N+]=NC", "[AsH2][H]", "C[P+](F)([O-])OC",
               "Cc1c(N(=O)=O)cc(cc1N(=O)=O)N(=O)=O"],
)  # fmt: skip
def test_charge_separated_and_hypervalent_drawings_are_refused(smiles: str) -> None:
    mol = Chem.MolFromSmiles(smiles)
    if "." not in smiles and mol.GetNumAtoms() and all(not a.GetNumRadicalElectrons() for a in mol.GetAtoms()):
        assert blocked(smiles)
    assert screen(mol)


@pytest.mark.parametrize("row", HAZARDS, ids=lambda row: row["name"])
def test_tautomers_between_nitrogen_oxygen_and_sulfur_are_refused(row: dict[str, str]) -> None:
    """Where no hydrogen moves to or from carbon; a keto form of an enol is another molecule to the screen."""
    mol = parse_molecule(row["smiles"]).mol
    enumerator = rdMolStandardize.TautomerEnumerator()
    enumerator.SetMaxTautomers(30)
    for tautomer in enumerator.Enumerate(mol):
        same = all(
            a.GetTotalNumHs() == b.GetTotalNumHs()
            for a, b in zip(mol.GetAtoms(), tautomer.GetAtoms(), strict=True)
            if a.GetAtomicNum() == 6
        )
        if same:
            assert screen(tautomer), Chem.MolToSmiles(tautomer)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(HAZARDS), st.integers(0, 2**31 - 1))
def test_the_order_of_atoms_does_not_matter(row: dict[str, str], seed: int) -> None:
    mol = Chem.MolFromSmiles(row["smiles"])
    (smiles,) = Chem.MolToRandomSmilesVect(mol, 1, seed)
    for text in (smiles, Chem.MolToSmiles(mol, kekuleSmiles=False, isomericSmiles=False)):
        assert {a.name for a in SCREEN.alerts(parse_molecule(text))} == {a.name for a in screen(mol)}
