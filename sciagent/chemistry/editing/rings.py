"""Edits of scaffolds: another ring, a ring opened or closed, another linker between two parts.

Every edit takes (mol, rng, elements) and gives a changed copy, or None where nothing fits, as in `edit_atoms`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from rdkit import Chem

from sciagent.chemistry.editing.atoms import Edit, kekule
from sciagent.chemistry.editing.tables import LINKERS, RINGS

MAX_ARMS = 4  # of a ring that is replaced
LinkerPath = tuple[int, tuple[int, ...], int]  # indices of one end, of the inner atoms, of the other end
CLOSED = (3, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7)  # sizes of new rings, by how often they are tried


@cache
def _fragment(smiles: str) -> Any:
    return Chem.MolFromSmiles(smiles)


def ring_systems(mol: Any) -> list[set[int]]:
    """Rings that share an atom, together: fused, bridged and spiro ones are one system."""
    systems: list[set[int]] = []
    for ring in map(set, mol.GetRingInfo().AtomRings()):
        for other in [s for s in systems if s & ring]:
            ring |= other
            systems.remove(other)
        systems.append(ring)
    return sorted(systems, key=min)


def replace_ring(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """A ring system gives way to a ring of the table; what it bore hangs on the new one, wherever there is room."""
    systems = ring_systems(mol)
    if not systems:
        return None
    system = rng.choice(systems)
    arms, lost = _neighbours(mol, system)
    if len(arms) > MAX_ARMS or any(mol.GetAtomWithIdx(outer).GetDegree() > 1 for outer in lost):
        return None
    ring = _fragment(rng.choice(RINGS))
    free = [a.GetIdx() for a in ring.GetAtoms() for _ in range(a.GetTotalNumHs())]
    rng.shuffle(free)
    if len(free) < len(arms):
        return None
    child = Chem.RWMol(Chem.CombineMols(kekule(mol), kekule(ring)))
    offset = mol.GetNumAtoms()
    for outer, place in zip(arms, free, strict=False):
        child.AddBond(outer, offset + place, Chem.BondType.SINGLE)
    for index in sorted([*system, *lost], reverse=True):
        child.RemoveAtom(index)
    return child


def _neighbours(mol: Any, system: set[int]) -> tuple[list[int], list[int]]:
    """The atoms that hang on a ring system by a single bond; and those that do by another one, as in `=O`, which
    belong to the ring and go with it."""
    bonds = [
        (bond.GetOtherAtomIdx(atom), bond.GetBondType() == Chem.BondType.SINGLE)
        for atom in sorted(system)
        for bond in mol.GetAtomWithIdx(atom).GetBonds()
        if bond.GetOtherAtomIdx(atom) not in system
    ]
    return [outer for outer, single in bonds if single], [outer for outer, single in bonds if not single]


def open_ring(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """A single bond of a ring less, aromatic ones in their Kekulé form."""
    child = kekule(mol)
    bonds = [b for b in child.GetBonds() if b.IsInRing() and b.GetBondType() == Chem.BondType.SINGLE]
    if not bonds:
        return None
    bond = rng.choice(bonds)
    child.RemoveBond(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
    return child


def close_ring(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """A single bond more, which closes a ring of three to seven atoms: on a chain, fused, or spiro.

    No bond bridges an aromatic ring: that is strain which no valence rule sees.
    """
    open_atoms = [a.GetIdx() for a in mol.GetAtoms() if a.GetTotalNumHs() > 0 and a.GetFormalCharge() == 0]
    size = rng.choice(CLOSED)
    distance = Chem.GetDistanceMatrix(mol)
    rings = [set(r) for r in mol.GetRingInfo().AtomRings()]
    pairs = [
        (i, j)
        for n, i in enumerate(open_atoms)
        for j in open_atoms[n + 1 :]
        if round(distance[i][j]) == size - 1 and not _bridges_aromatic(mol, rings, i, j)
    ]
    if not pairs:
        return None
    child = kekule(mol)
    child.AddBond(*rng.choice(pairs), Chem.BondType.SINGLE)
    return child


def _bridges_aromatic(mol: Any, rings: Sequence[set[int]], i: int, j: int) -> bool:
    aromatic = mol.GetAtomWithIdx(i).GetIsAromatic() or mol.GetAtomWithIdx(j).GetIsAromatic()
    return aromatic and any(i in ring and j in ring for ring in rings)


def replace_linker(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """What joins two parts gives way to a linker of the table: a bond between them, or a chain of up to three atoms."""
    paths = linker_paths(mol)
    if not paths:
        return None
    left, inner, right = rng.choice(paths)
    new = _fragment(rng.choice(LINKERS))
    child = Chem.RWMol(Chem.CombineMols(kekule(mol), kekule(new)))
    offset = mol.GetNumAtoms()
    stars = [a.GetIdx() for a in new.GetAtoms() if a.GetAtomicNum() == 0]
    rng.shuffle(stars)
    if not inner:
        child.RemoveBond(left, right)
    if new.GetNumAtoms() == 2:
        child.AddBond(left, right, Chem.BondType.SINGLE)
    else:
        for outer, star in zip((left, right), stars, strict=True):
            child.AddBond(outer, offset + new.GetAtomWithIdx(star).GetNeighbors()[0].GetIdx(), Chem.BondType.SINGLE)
    side = [n.GetIdx() for i in inner for n in mol.GetAtomWithIdx(i).GetNeighbors() if n.GetDegree() == 1]
    for index in sorted({*inner, *side, *(offset + s for s in stars)} - {left, right}, reverse=True):
        child.RemoveAtom(index)
    return child


def linker_paths(mol: Any) -> list[LinkerPath]:
    """(end, inner atoms, end): single bonds outside rings, and chains of one to three atoms between two larger parts.

    An inner atom is in no ring and bears, beside the chain, only ends of one atom, which go with it.
    """
    return [*_linking_bonds(mol), *(chain for atom in mol.GetAtoms() for chain in _chains(mol, atom.GetIdx()))]


def _linking_bonds(mol: Any) -> Iterator[LinkerPath]:
    for bond in mol.GetBonds():
        if bond.GetBondType() == Chem.BondType.SINGLE and not bond.IsInRing():
            left, right = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            if min(mol.GetAtomWithIdx(i).GetDegree() for i in (left, right)) > 1:
                yield left, (), right


def _chains(mol: Any, start: int) -> Iterator[LinkerPath]:
    """Chains that begin at an atom and end at one of a higher index."""
    stack: list[tuple[int, ...]] = [(start,)]
    while stack:
        path = stack.pop()
        for bond in mol.GetAtomWithIdx(path[-1]).GetBonds():
            step = bond.GetOtherAtom(mol.GetAtomWithIdx(path[-1]))
            index = step.GetIdx()
            if index in path or bond.IsInRing() or step.GetDegree() < 2:
                continue
            if len(path) > 1 and start < index and _inner(mol, path[1:], {*path, index}):
                yield start, path[1:], index
            if len(path) <= 3 and not step.IsInRing():
                stack.append((*path, index))


def _inner(mol: Any, inner: Sequence[int], chain: set[int]) -> bool:
    return all(n.GetIdx() in chain or n.GetDegree() == 1 for i in inner for n in mol.GetAtomWithIdx(i).GetNeighbors())


RING_EDITS: dict[str, Edit] = {
    "replace ring": replace_ring,
    "open ring": open_ring,
    "close ring": close_ring,
    "replace linker": replace_linker,
}
