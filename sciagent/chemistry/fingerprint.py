"""Fingerprints that compare molecules: counts of atom environments, and traits of the whole molecule."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdFingerprintGenerator

RADIUS = 2
# divisors of the traits: about their spread in a library of small organic molecules
SIZE, RINGS, SHARE = 0.3, 1.0, 0.25
UNSATURATED = (Chem.HybridizationType.SP, Chem.HybridizationType.SP2)


@dataclass(frozen=True)
class MoleculeFingerprint:
    """Counts of atom environments, and traits of the whole molecule."""

    counts: dict[int, int]
    """Counts of the atom environments of radius 2, by unfolded 32-bit number (Rogers and Hahn 2010)."""
    traits: tuple[float, ...]
    """Logarithm of the number of heavy atoms, number of rings, hydrogens per heavy atom, and fractions of heavy atoms
    that are aromatic, unsaturated, nitrogen, oxygen, or none of C, N, O; each divided by a typical spread."""


@cache
def _generator() -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS)


def structure_of(smiles: str) -> MoleculeFingerprint | None:
    """Returns the fingerprint; None if the text is no SMILES."""
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles)
    if mol is None or not mol.GetNumAtoms():
        return None
    return MoleculeFingerprint(_generator().GetSparseCountFingerprint(mol).GetNonzeroElements(), _traits(mol))


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
    return (math.log(n) / SIZE, rings / RINGS, hydrogens / (2 * SHARE), *(share / SHARE for share in shares))
