"""Murcko scaffolds and fingerprints, for comparing molecules.

Sources: Bemis and Murcko, J. Med. Chem. 39, 2887 (1996), in RDKit's form with exocyclic double bonds; Rogers and Hahn,
J. Chem. Inf. Model. 50, 742 (2010), ECFP4 as a Morgan fingerprint of radius 2 with 2048 bits.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

REMEMBERED = 4096
FINGERPRINT = "ECFP4/2048"
N_BITS = 2048


@dataclass(frozen=True)
class Features:
    """The scaffold and fingerprint of a molecule."""

    scaffold: str
    """SMILES of the scaffold; empty for a molecule without rings."""
    scaffold_hash: str
    """SHA-256 of `scaffold`, for look-up."""
    bits: Any
    """The fingerprint, an RDKit ExplicitBitVect."""


@lru_cache(maxsize=REMEMBERED)
def features(smiles: str) -> Features:
    """Returns scaffold and fingerprint of a canonical SMILES. Both are empty if RDKit cannot process the text, since
    one candidate must never end a campaign."""
    from rdkit import Chem
    from rdkit.Chem.Scaffolds import MurckoScaffold
    from rdkit.DataStructs import ExplicitBitVect

    from sciagent.chemistry.rdkit_log import rdkit_messages

    frame: Any = MurckoScaffold.GetScaffoldForMol
    scaffold, bits = "", ExplicitBitVect(N_BITS)
    with rdkit_messages(), contextlib.suppress(RuntimeError, ValueError):
        if (mol := Chem.MolFromSmiles(smiles)) is not None:
            bits = _generator().GetFingerprint(mol)
            scaffold = str(Chem.MolToSmiles(frame(mol)))
    return Features(scaffold, hashlib.sha256(scaffold.encode()).hexdigest(), bits)


@cache
def _generator() -> Any:
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=N_BITS)


def nearest(molecule: Features, others: Sequence[Features]) -> float | None:
    """Returns the Tanimoto similarity, 0 to 1, to the most similar of others; None if there are none."""
    from rdkit.DataStructs import BulkTanimotoSimilarity

    return max(BulkTanimotoSimilarity(molecule.bits, [other.bits for other in others])) if others else None
