"""What two molecules are compared by: counts of the surroundings of atoms, and a few traits of the whole."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdFingerprintGenerator

RADIUS = 2
# spreads by which traits are divided: about those of a library of small organic molecules
SIZE, RINGS, SHARE = 0.3, 1.0, 0.25
UNSATURATED = (Chem.HybridizationType.SP, Chem.HybridizationType.SP2)


@dataclass(frozen=True)
class MoleculeFingerprint:
    """counts: how often each surrounding of radius 2 occurs, by its unfolded 32-bit number (Rogers and Hahn, J. Chem.
    Inf. Model. 50, 742 (2010)). traits: logarithm of the number of heavy atoms, rings, hydrogens a heavy atom, and the
    shares of heavy atoms that are aromatic, unsaturated, nitrogen, oxygen, neither of these nor carbon; each divided by
    a spread, so that 1 is a difference that tells."""

    counts: dict[int, int]
    traits: tuple[float, ...]


@cache
def _generator() -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS)


def structure_of(smiles: str) -> MoleculeFingerprint | None:
    """None for what is no SMILES."""
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles)
    if mol is None or not mol.GetNumAtoms():
        return None
    counts: dict[int, int] = _generator().GetSparseCountFingerprint(mol).GetNonzeroElements()
    return MoleculeFingerprint(counts, _traits(mol))


def _traits(mol: Any) -> tuple[float, ...]:
    atoms = list(mol.GetAtoms())
    heavy = [a for a in atoms if a.GetAtomicNum() > 1] or atoms
    n = len(heavy)
    elements = Counter(a.GetAtomicNum() for a in heavy)
    shares = (
        sum(a.GetIsAromatic() for a in heavy) / n,
        sum(a.GetHybridization() in UNSATURATED for a in heavy) / n,
        elements[7] / n,
        elements[8] / n,
        (n - elements[6] - elements[7] - elements[8]) / n,
    )
    hydrogens = sum(a.GetTotalNumHs(includeNeighbors=True) for a in heavy) / n
    rings = mol.GetRingInfo().NumRings()
    return (math.log(n) / SIZE, rings / RINGS, hydrogens / (2 * SHARE), *(one / SHARE for one in shares))
