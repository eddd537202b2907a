"""Stereoisomers and tautomers of molecules whose numbers are known from textbooks."""

from __future__ import annotations

import pytest
from rdkit import Chem
from rdkit.Chem import rdDistGeom

from sciagent.chemistry.isomers_and_tautomers import (
    cxsmiles,
    isomer_of_geometry,
    split_stereo_groups,
    stereoisomers,
    tautomers_of,
    with_open_stereo,
    with_stereo_groups,
)
from sciagent.chemistry.molecule import parse_molecule


def embedded(smiles: str) -> Chem.Mol:
    """Returns the molecule with hydrogens and a conformer."""
    mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
    rdDistGeom.EmbedMolecule(mol, randomSeed=5)
    return mol


@pytest.mark.parametrize(
    ("smiles", "n"),
    [
        ("CCO", 1),
        ("CC=CC#N", 2),  # E, Z
        ("CCC(C)O", 2),  # two enantiomers
        ("CC(Cl)C(C)Br", 4),  # two pairs of enantiomers
        ("OC(=O)C(O)C(O)C(=O)O", 3),  # tartaric acid: two enantiomers and meso
        ("OC1CCC(O)CC1", 2),  # cis, trans
        ("CC1(C)C2CCC1(C)C(=O)C2", 2),  # camphor: of four configurations only two enantiomers close the bridge
        ("C[C@H](Cl)C(C)Br", 2),  # one of two centres is defined
        ("CC(O)=N", 2),  # E, Z by the hydrogen of C=N-H
        ("NC(N)=N", 1),  # guanidine: both are one molecule
    ],
)
def test_number_of_stereoisomers(smiles: str, n: int) -> None:
    forms = stereoisomers(Chem.MolFromSmiles(smiles))
    assert (forms.possible, len(forms.smiles), forms.is_upper_bound) == (n, n, False)
    assert len({parse_molecule(isomer).key for isomer in forms.smiles}) == n


def test_one_of_each_pair_of_mirror_images_comes_first() -> None:
    first, second, *images = stereoisomers(Chem.MolFromSmiles("CC(Cl)C(C)Br")).smiles
    mirrored = {
        Chem.CanonSmiles(smiles.translate(str.maketrans({"@": "@@"})).replace("@@@@", "@")) for smiles in images
    }
    assert mirrored == {first, second}


def test_many_centres_give_an_upper_bound() -> None:
    forms = stereoisomers(Chem.MolFromSmiles("CC(F)C(F)C(F)C(F)C(F)C(F)C(F)C(F)C(F)Cl"))
    assert forms.is_upper_bound
    assert forms.possible == 2**9


@pytest.mark.parametrize("smiles", ["CC=CC#N", "CC(Cl)C(C)Br", "OC1CCC(O)CC1", "CC1CC(C)(F)C1", "CC(O)=N"])
def test_a_geometry_is_one_of_the_stereoisomers(smiles: str) -> None:
    mol = Chem.MolFromSmiles(smiles)
    placed = embedded(smiles)
    isomer = isomer_of_geometry(mol, placed.GetConformer().GetPositions())
    assert isomer is not None
    assert isomer.smiles in stereoisomers(mol).smiles
    assert isomer.possible == len(stereoisomers(mol).smiles)


def test_a_geometry_keeps_the_isomer_that_it_was_made_of() -> None:
    mol = Chem.MolFromSmiles("CC=CC#N")
    for isomer, label in (("C/C=C/C#N", "E"), ("C/C=C\\C#N", "Z")):
        found = isomer_of_geometry(mol, embedded(isomer).GetConformer().GetPositions())
        assert found is not None
        assert (found.smiles, found.label) == (Chem.CanonSmiles(isomer), label)
        assert str(found).startswith(f"computed for {label} ({found.smiles}), one of 2 stereoisomers")


def test_mirror_images_have_equal_values() -> None:
    isomer = isomer_of_geometry(Chem.MolFromSmiles("CCC(C)O"), embedded("CCC(C)O").GetConformer().GetPositions())
    assert isomer is not None
    assert (isomer.possible, isomer.different, isomer.decides_value) == (2, 1, False)


def test_a_molecule_without_undefined_stereo_names_no_isomer() -> None:
    mol = Chem.MolFromSmiles("C/C=C/C#N")
    assert isomer_of_geometry(mol, embedded("C/C=C/C#N").GetConformer().GetPositions()) is None
    guanidine = Chem.MolFromSmiles("NC(N)=N")
    assert isomer_of_geometry(guanidine, embedded("NC(N)=N").GetConformer().GetPositions()) is None


@pytest.mark.parametrize("smiles", ["CC(F)Cl", "CC=CC#N", "OC1CCC(O)CC1", "C[C@H](F)C(Cl)Br", "CC1CC(C)(F)C1"])
@pytest.mark.parametrize("v3000", [False, True])
def test_a_mol_block_with_coordinates_states_no_more_stereo_than_the_molecule(smiles: str, v3000: bool) -> None:
    mol = Chem.MolFromSmiles(smiles)
    block = Chem.MolToMolBlock(with_open_stereo(embedded(smiles), mol), forceV3000=v3000)
    again = Chem.MolFromMolBlock(block)
    assert again.GetConformer().Is3D()
    assert Chem.MolToSmiles(again) == Chem.CanonSmiles(smiles)


def test_tautomers_start_with_the_molecule_and_the_likeliest_follows() -> None:
    forms = tautomers_of(Chem.MolFromSmiles("Oc1ccccn1"))
    assert forms.smiles[:2] == ("Oc1ccccn1", "O=c1cccc[nH]1")  # 2-hydroxypyridine and 2-pyridone


def test_a_tautomer_keeps_centres_that_take_part_in_no_shift() -> None:
    forms = tautomers_of(Chem.MolFromSmiles("C[C@H](N)c1c[nH]cn1"))
    assert "C[C@H](N)c1cnc[nH]1" in forms.smiles


@pytest.mark.parametrize(
    ("text", "smiles", "groups"),
    [
        ("C[C@H](F)Cl |&1:1|", "C[C@H](F)Cl", "|&1:1|"),
        ("C[C@H](F)[C@H](Cl)Br |a:1,o1:3|", "C[C@H](F)[C@H](Cl)Br", "|a:1,o1:3|"),
        ("C[C@H](F)[C@H](Cl)Br |a:1,3|", "C[C@H](F)[C@H](Cl)Br", ""),  # absolute
        ("CCO", "CCO", ""),
        ("CCO |$a;b;c$|", "CCO |$a;b;c$|", ""),  # another extension, which the parser refuses
    ],
)
def test_enhanced_stereo_groups_are_split_from_a_cxsmiles(text: str, smiles: str, groups: str) -> None:
    assert split_stereo_groups(text) == (smiles, groups)


@pytest.mark.parametrize("text", ["C[C@H](F)[C@H](Cl)Br |&1:1,3|", "CC[C@@H](C)O |o1:2|"])
def test_a_mol_block_keeps_the_enhanced_stereo_groups(text: str) -> None:
    smiles, _ = split_stereo_groups(text)
    placed = embedded(str(smiles))
    grouped = with_stereo_groups(placed, f"{smiles}.Cl {text.partition(' ')[2]}")  # of a salt
    assert grouped is not None
    again = Chem.MolFromMolBlock(Chem.MolToMolBlock(grouped))
    assert again.GetConformer().Is3D()
    assert cxsmiles(again) == cxsmiles(Chem.MolFromSmiles(text))
    assert with_stereo_groups(embedded("CCO"), text) is None
