"""What is put on, taken off or exchanged leaves the stereochemistry of the rest as it was."""

from __future__ import annotations

import pytest
from rdkit import Chem

from sciagent.chemistry.editing.named_edits import children
from tests.chemistry.editing.children import canonical


@pytest.mark.parametrize(
    ("parent", "edit", "what", "expected"),
    [  # L-alanine and L-2-aminobutyric acid; (R)- and (S)-1-phenylethanol's ethers; all written by hand
        ("C[C@H](N)C(=O)O", "replace substituent", "ethyl", "CC[C@H](N)C(=O)O"),
        ("OC(=O)[C@H](C)N", "replace substituent", "ethyl", "OC(=O)[C@H](CC)N"),
        ("N[C@@H](C)C(O)=O", "replace substituent", "ethyl", "N[C@@H](CC)C(O)=O"),
        ("F[C@H](Cl)c1ccccc1", "add substituent", "methyl", "F[C@](C)(Cl)c1ccccc1"),
        ("F[C@](C)(Cl)c1ccccc1", "remove substituent", "methyl", "F[C@H](Cl)c1ccccc1"),
        ("C[C@](F)(Cl)c1ccccc1", "remove substituent", "methyl", "[H][C@](F)(Cl)c1ccccc1"),
        ("C[C@H](F)c1ccccc1", "insert linker", "carbonyl", "C[C@H](F)C(=O)c1ccccc1"),
        ("C[C@@H](F)C(=O)c1ccccc1", "replace linker", "direct bond", "C[C@@H](F)c1ccccc1"),
    ],
)
def test_a_stereocentre_keeps_its_configuration(parent, edit, what, expected):
    assert canonical(expected) in children(parent, edit, what)
    mirrored = expected.replace("@@", "%").replace("@", "@@").replace("%", "@")
    assert canonical(mirrored) not in children(parent, edit, what)


def test_double_bonds_keep_theirs():
    assert r"F/C=C\c1ccc(F)cc1" in {
        Chem.MolToSmiles(Chem.MolFromSmiles(s)) for s in children(r"F/C=C\c1ccccc1", "add substituent", "fluoro")
    }
