"""Counts of the surroundings of atoms: what two molecules are compared by."""

from __future__ import annotations

from functools import cache
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdFingerprintGenerator

RADIUS = 2


@cache
def _generator() -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS)


def morgan_counts(smiles: str) -> dict[int, int] | None:
    """How often each surrounding of radius 2 occurs, by its unfolded 32-bit number; None for what is no SMILES.

    Source: Rogers and Hahn, J. Chem. Inf. Model. 50, 742 (2010).
    """
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles)
    if mol is None or not mol.GetNumAtoms():
        return None
    found: dict[int, int] = _generator().GetSparseCountFingerprint(mol).GetNonzeroElements()
    return found
