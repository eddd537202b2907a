"""Children of an edit, as canonical SMILES."""

from __future__ import annotations

from rdkit import Chem


def canonical(smiles: str) -> str:
    return Chem.MolToSmiles(Chem.MolFromSmiles(smiles))
