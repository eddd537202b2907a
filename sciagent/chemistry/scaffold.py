"""What a molecule is compared by: its Murcko scaffold, and a fingerprint.

Sources: Bemis and Murcko, J. Med. Chem. 39, 2887 (1996), as RDKit draws the framework, with exocyclic double bonds;
Rogers and Hahn, J. Chem. Inf. Model. 50, 742 (2010), ECFP4 as a Morgan fingerprint of radius 2 with 2048 bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

REMEMBERED = 4096
FINGERPRINT = "ECFP4/2048"


@dataclass(frozen=True)
class Features:
    """scaffold: SMILES, empty without rings. scaffold_hash: its SHA-256, to look it up by. bits: the fingerprint."""

    scaffold: str
    scaffold_hash: str
    bits: Any


@lru_cache(maxsize=REMEMBERED)
def features(smiles: str) -> Features:
    """Of a molecule by its canonical SMILES, as `Molecule.smiles` has it. Raises ValueError for what is none."""
    from rdkit import Chem
    from rdkit.Chem.Scaffolds import MurckoScaffold

    from sciagent.chemistry.messages import rdkit_messages

    frame: Any = MurckoScaffold.GetScaffoldForMol
    with rdkit_messages():
        mol = Chem.MolFromSmiles(smiles)
        if mol is None:
            raise ValueError(f"{smiles[:80]!a} is not a molecule")
        scaffold = str(Chem.MolToSmiles(frame(mol)))
        return Features(scaffold, hashlib.sha256(scaffold.encode()).hexdigest(), _generator().GetFingerprint(mol))


@cache
def _generator() -> Any:
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)


def nearest(one: Features, others: Sequence[Features]) -> float | None:
    """Tanimoto similarity, 0 to 1, to the nearest of others; None where there is none."""
    from rdkit.DataStructs import BulkTanimotoSimilarity

    return max(BulkTanimotoSimilarity(one.bits, [other.bits for other in others])) if others else None
