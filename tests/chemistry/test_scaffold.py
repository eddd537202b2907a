"""Frameworks of molecules."""

from __future__ import annotations

import pytest

from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.chemistry.scaffold import features, nearest


@pytest.mark.parametrize(
    ("smiles", "scaffold"),
    [
        ("CC(=O)Nc1ccc(O)cc1", "c1ccccc1"),
        ("CCO", ""),
        ("O=C1CCCN1c1ccccc1", "O=C1CCCN1c1ccccc1"),
        ("Cc1ccc(CCc2ccncc2)cc1", "c1ccc(CCc2ccncc2)cc1"),
    ],
)
def test_murcko_scaffolds(smiles: str, scaffold: str) -> None:
    molecule: Molecule = parse_molecule(smiles)
    assert features(molecule.smiles).scaffold == scaffold


@pytest.mark.parametrize("text", ["c1cccc1", "not a molecule", ""])
def test_what_rdkit_cannot_read_has_no_scaffold_and_ends_nothing(text: str) -> None:
    found = features(text)
    assert found.scaffold == "" and nearest(found, [features("CCO")]) == 0
