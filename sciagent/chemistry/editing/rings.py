"""Edits of scaffolds: replace a ring, open or close a ring, replace a linker.

Every edit takes (mol, rng, elements) and returns a changed copy, or None if it does not fit, as in `atoms`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from rdkit import Chem

from sciagent.chemistry.editing.atoms import Edit, kekule
from sciagent.chemistry.editing.joins import MAX_ARMS, join
from sciagent.chemistry.editing.parts import fragment, linker_paths, ring_systems
from sciagent.chemistry.editing.tables import LINKERS, RINGS

CLOSED = (3, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7)  # sizes of new rings; repeated sizes are drawn more often


def replace_ring(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """Replaces a ring system by a ring of the table. Its substituents move to random free places of the new ring."""
    systems = ring_systems(mol)
    if not systems:
        return None
    system = rng.choice(systems)
    arms, removed = _neighbours(mol, system)
    if len(arms) > MAX_ARMS or any(mol.GetAtomWithIdx(outer).GetDegree() > 1 for outer in removed):
        return None
    ring = fragment(rng.choice(RINGS))
    free = [a.GetIdx() for a in ring.GetAtoms() for _ in range(a.GetTotalNumHs())]
    rng.shuffle(free)
    if len(free) < len(arms):
        return None
    child = Chem.RWMol(Chem.CombineMols(kekule(mol), kekule(ring)))
    offset = mol.GetNumAtoms()
    for outer, place in zip(arms, free, strict=False):
        child.AddBond(outer, offset + place, Chem.BondType.SINGLE)
    for index in sorted([*system, *removed], reverse=True):
        child.RemoveAtom(index)
    return child


def _neighbours(mol: Any, system: set[int]) -> tuple[list[int], list[int]]:
    """Returns the atoms on a ring system by single bonds, and the others, such as =O, which are removed."""
    bonds = [
        (bond.GetOtherAtomIdx(atom), bond.GetBondType() == Chem.BondType.SINGLE)
        for atom in sorted(system)
        for bond in mol.GetAtomWithIdx(atom).GetBonds()
        if bond.GetOtherAtomIdx(atom) not in system
    ]
    return [outer for outer, single in bonds if single], [outer for outer, single in bonds if not single]


def open_ring(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """Removes a single bond of a ring, in the Kekulé structure."""
    child = kekule(mol)
    bonds = [b for b in child.GetBonds() if b.IsInRing() and b.GetBondType() == Chem.BondType.SINGLE]
    if not bonds:
        return None
    bond = rng.choice(bonds)
    child.RemoveBond(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
    return child


def close_ring(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """Adds a single bond that closes a ring of three to seven atoms: in a chain, fused, or spiro.

    No bond crosses an aromatic ring, since no valence rule detects that strain.
    """
    open_atoms = [a.GetIdx() for a in mol.GetAtoms() if a.GetTotalNumHs() > 0 and a.GetFormalCharge() == 0]
    size = rng.choice(CLOSED)
    distance = Chem.GetDistanceMatrix(mol)
    rings = [set(r) for r in mol.GetRingInfo().AtomRings()]
    aromatic = {a.GetIdx() for a in mol.GetAtoms() if a.GetIsAromatic()}
    pairs = [
        (i, j)
        for n, i in enumerate(open_atoms)
        for j in open_atoms[n + 1 :]
        if round(distance[i][j]) == size - 1 and not (aromatic & {i, j} and any({i, j} <= ring for ring in rings))
    ]
    if not pairs:
        return None
    child = kekule(mol)
    child.AddBond(*rng.choice(pairs), Chem.BondType.SINGLE)
    return child


def replace_linker(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """Replaces a bond between two parts, or a chain of up to three atoms, by a linker of the table."""
    paths = linker_paths(mol)
    if not paths:
        return None
    left, inner, right = rng.choice(paths)
    linker, ends = rng.choice(LINKERS), [0, 1]
    rng.shuffle(ends)
    return join(mol, left, inner, right, linker, turned=ends != [0, 1])


RING_EDITS: dict[str, Edit] = {
    "replace ring": replace_ring,
    "open ring": open_ring,
    "close ring": close_ring,
    "replace linker": replace_linker,
}
