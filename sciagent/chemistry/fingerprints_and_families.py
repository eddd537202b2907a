"""Fingerprints that compare molecules, and families of molecules by scaffold or ring system.

`family` and `ring_families` put the stereoisomers, isotopologues and tautomers of a compound into one family. They are
different candidates, and their rings may be drawn differently: a chiral ring fusion, a labelled ring atom,
2-hydroxypyridine and 2-pyridone. Scaffold and ring systems are therefore taken from the structure that the standard
InChI without stereochemistry describes. It is the same for all of them, since this InChI leaves mobile hydrogens open.
Tautomers that differ by a moved C-H, such as ketone and enol, stay different.

Sources: Bemis and Murcko, J. Med. Chem. 39, 2887 (1996), scaffolds, in RDKit's form with exocyclic double bonds; Rogers
and Hahn, J. Chem. Inf. Model. 50, 742 (2010), counts of atom environments, and ECFP4 with 2048 bits; Heller et al., J.
Cheminf. 7, 23 (2015), InChI.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdFingerprintGenerator, rdinchi
from rdkit.DataStructs import ExplicitBitVect

from sciagent.chemistry.editing.join_and_exchange_molecule_parts import ring_systems
from sciagent.chemistry.molecule_normal_form import atoms_of
from sciagent.chemistry.rdkit_messages import rdkit_messages

REMEMBERED_FINGERPRINTS = 4096
N_BITS = 2048
RADIUS = 2
# divisors of the traits: about their spread in a library of small organic molecules
SIZE_SPREAD = 0.3
RINGS_SPREAD = 1.0
HYDROGENS_SPREAD = 0.5
SHARE_SPREAD = 0.25
UNSATURATED = (Chem.HybridizationType.SP, Chem.HybridizationType.SP2)


@dataclass(frozen=True)
class StructureFingerprint:
    """Counts of atom environments, and traits of the whole molecule."""

    counts: dict[int, int]
    """Counts of the atom environments of radius 2, by unfolded 32-bit number."""
    traits: tuple[float, ...]
    """Logarithm of the number of heavy atoms, number of rings, hydrogens per heavy atom, and fractions of heavy atoms
    that are aromatic, unsaturated, nitrogen, oxygen, or none of C, N, O; each divided by a typical spread."""


@dataclass(frozen=True)
class Features:
    """The family and fingerprint of a candidate."""

    family: str
    """The family: the SMILES of a molecule's scaffold, empty without rings; a crystal's prototype."""
    family_hash: str
    """SHA-256 of `family`, for look-up."""
    bits: Any
    """The fingerprint of a molecule, an RDKit ExplicitBitVect (ECFP4 with 2048 bits), or the Crystal itself."""


@cache
def _generator() -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=N_BITS)


def structure_of(smiles: str) -> StructureFingerprint | None:
    """Returns the fingerprint; None if the text is no SMILES."""
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles)
    if mol is None or not mol.GetNumAtoms():
        return None
    counts = _generator().GetSparseCountFingerprint(mol).GetNonzeroElements()
    return StructureFingerprint(counts, _traits(mol))


def environment_atoms(mol: Any, feature: int) -> tuple[int, ...]:
    """Returns the indices of the atoms of an atom environment, its centre first; empty if the molecule lacks it.

    mol: an RDKit molecule without explicit hydrogens. feature: number of the environment, as in
    `StructureFingerprint.counts`. Of several such environments it is the first.
    """
    found = rdFingerprintGenerator.AdditionalOutput()
    found.AllocateBitInfoMap()
    _generator().GetSparseCountFingerprint(mol, additionalOutput=found)
    places = found.GetBitInfoMap().get(feature, ())
    if not places:
        return ()
    centre, radius = min(places)
    distances = Chem.GetDistanceMatrix(mol)[centre]
    others = [atom for atom in range(mol.GetNumAtoms()) if 0 < distances[atom] <= radius]
    return (centre, *others)


def _traits(mol: Any) -> tuple[float, ...]:
    """Returns the traits of `StructureFingerprint`."""
    atoms = list(mol.GetAtoms())
    heavy = [a for a in atoms if a.GetAtomicNum() > 1] or atoms  # dihydrogen has no heavy atoms
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
    scaled_shares = [share / SHARE_SPREAD for share in shares]
    return (math.log(n) / SIZE_SPREAD, rings / RINGS_SPREAD, hydrogens / HYDROGENS_SPREAD, *scaled_shares)


@lru_cache(maxsize=REMEMBERED_FINGERPRINTS)
def features(smiles: str) -> Features:
    """Returns scaffold and fingerprint of a canonical SMILES. Both are empty if RDKit cannot process the text, since
    one candidate must never end a campaign."""
    from rdkit.Chem.Scaffolds import MurckoScaffold

    scaffold_of: Any = MurckoScaffold.GetScaffoldForMol
    scaffold = ""
    bits = ExplicitBitVect(N_BITS)
    with rdkit_messages(), suppress(RuntimeError, ValueError):
        mol = Chem.MolFromSmiles(smiles)
        if mol is not None:
            bits = _generator().GetFingerprint(mol)
            scaffold = str(Chem.MolToSmiles(scaffold_of(mol)))
    return Features(scaffold, hashlib.sha256(scaffold.encode()).hexdigest(), bits)


REMEMBERED_FAMILIES = 1 << 14


@lru_cache(maxsize=REMEMBERED_FAMILIES)
def family(smiles: str) -> str:
    """Returns the Murcko scaffold of a compound as SMILES, the same for its stereoisomers, isotopologues and tautomers.

    It is empty for a molecule without rings. Where RDKit cannot process the text, the text is a family of its own.
    """
    mol = _read(smiles)
    return smiles if mol is None else _scaffold(mol)


@lru_cache(maxsize=REMEMBERED_FAMILIES)
def ring_families(smiles: str) -> tuple[str, ...]:
    """Returns the ring systems of a compound, sorted: fused, bridged and spiro rings with their elements and bonds.

    Charges, hydrogens and substituents play no part, so that N-methylpyrrole has the ring of pyrrole. A molecule
    without rings has the family `""`. Where RDKit cannot process the text, the text is a family of its own.
    """
    mol = _read(smiles)
    if mol is None:
        return (smiles,)
    symbols = [atom.GetSymbol().lower() if atom.GetIsAromatic() else atom.GetSymbol() for atom in atoms_of(mol)]
    systems = set()
    for system in ring_systems(mol):
        systems.add(str(Chem.MolFragmentToSmiles(mol, sorted(system), atomSymbols=symbols)))
    return tuple(sorted(systems)) or ("",)


def _read(smiles: str) -> Any:
    """Returns the molecule without isotopes and stereochemistry, as one of its tautomers; None if it cannot be read."""
    with rdkit_messages(), suppress(RuntimeError, ValueError):
        mol: Any = Chem.MolFromSmiles(smiles)
        if mol is not None:
            return _plain(mol) if mol.GetRingInfo().NumRings() else mol
    return None


def _plain(mol: Any) -> Any:
    """Returns the molecule as its standard InChI without stereochemistry describes it. Changes `mol`."""
    for atom in atoms_of(mol):
        atom.SetIsotope(0)
    inchi, *_ = rdinchi.MolToInchi(mol, "/SNon")  # SNon: without stereochemistry
    described: Any = rdinchi.InchiToMol(inchi)[0]
    if described is None:  # InChI does not describe it, or RDKit cannot read what it says
        Chem.RemoveStereochemistry(mol)
        return mol
    return described


def _scaffold(mol: Any) -> str:
    """Returns the Murcko scaffold as SMILES; empty without rings."""
    from rdkit.Chem.Scaffolds import MurckoScaffold

    if not mol.GetRingInfo().NumRings():
        return ""
    scaffold_of: Any = MurckoScaffold.GetScaffoldForMol
    return str(Chem.MolToSmiles(scaffold_of(mol)))
