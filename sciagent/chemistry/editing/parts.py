"""The parts of a molecule: ring systems, linkers, the atoms on one side of a bond; and what edits have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Any

from rdkit import Chem

LinkerPath = tuple[int, tuple[int, ...], int]
"""Indices of one end, of the inner atoms, and of the other end."""
MAX_ARMS = 4  # substituents of a ring that is replaced, at most


@cache
def fragment(smiles: str) -> Any:
    return Chem.MolFromSmiles(smiles)


@cache
def pattern(smarts: str) -> Any:
    return Chem.MolFromSmarts(smarts)


def kekule(mol: Any) -> Any:
    """Returns an editable copy with explicit bond orders; hydrogens follow from the valences."""
    drawn = Chem.RWMol(mol)
    Chem.Kekulize(drawn, clearAromaticFlags=True)
    for atom in drawn.GetAtoms():
        loosen(atom)
    return drawn


def loosen(atom: Any) -> None:
    """Lets the hydrogens follow from the bonds, except on radicals."""
    if not atom.GetNumRadicalElectrons():
        atom.SetNoImplicit(False)
        atom.SetNumExplicitHs(0)


def beside(mol: Any, text: str) -> tuple[Any, int]:
    """Returns the molecule beside a fragment, for editing, and the index of the fragment's first atom."""
    if "*" in text or fragment(text) is not None:
        other = kekule(fragment(text))
    else:
        other = kekule(fragment(f"*{text}"))  # `n9cccc9`, for example, is no molecule by itself
        other.RemoveAtom(0)
        loosen(other.GetAtomWithIdx(0))
    return Chem.RWMol(Chem.CombineMols(kekule(mol), other)), mol.GetNumAtoms()


def without(child: Any, atoms: Iterable[int]) -> Any:
    """Removes atoms and returns the molecule."""
    for index in sorted(atoms, reverse=True):
        child.RemoveAtom(index)
    return child


def ring_systems(mol: Any) -> list[set[int]]:
    """Returns the ring systems. Rings that share an atom, as in fused, bridged and spiro rings, are one system."""
    systems: list[set[int]] = []
    for ring in map(set, mol.GetRingInfo().AtomRings()):
        for other in [s for s in systems if s & ring]:
            ring |= other
            systems.remove(other)
        systems.append(ring)
    return sorted(systems, key=min)


def ring_arms(mol: Any, system: Collection[int]) -> tuple[list[tuple[int, int]], list[int]] | None:
    """Returns the bonds (ring atom, outer atom) of a ring system to its substituents, and the single atoms on double
    bonds, such as =O, which go with the ring. Returns None for larger ones, or for more than MAX_ARMS substituents."""
    arms, removed = [], []
    for atom in sorted(system):
        for bond in mol.GetAtomWithIdx(atom).GetBonds():
            outer = bond.GetOtherAtom(mol.GetAtomWithIdx(atom))
            if outer.GetIdx() in system:
                continue
            if bond.GetBondType() == Chem.BondType.SINGLE:
                arms.append((atom, outer.GetIdx()))
            elif outer.GetDegree() == 1:
                removed.append(outer.GetIdx())
            else:
                return None
    return (arms, removed) if len(arms) <= MAX_ARMS else None


def side(mol: Any, start: int, barred: int = -1) -> set[int]:
    """Returns the atoms that are connected to `start` without `barred`."""
    reached, stack = {start}, [start]
    while stack:
        for atom in mol.GetAtomWithIdx(stack.pop()).GetNeighbors():
            if atom.GetIdx() != barred and atom.GetIdx() not in reached:
                reached.add(atom.GetIdx())
                stack.append(atom.GetIdx())
    return reached


def linker_paths(mol: Any) -> list[LinkerPath]:
    """Returns (end, inner atoms, end): single bonds outside rings, and chains of one to three atoms between parts.

    An inner atom is in no ring. Its other substituents are single atoms, which belong to the linker.
    """
    bonds: list[LinkerPath] = [
        (bond.GetBeginAtomIdx(), (), bond.GetEndAtomIdx())
        for bond in mol.GetBonds()
        if bond.GetBondType() == Chem.BondType.SINGLE
        and not bond.IsInRing()
        and min(bond.GetBeginAtom().GetDegree(), bond.GetEndAtom().GetDegree()) > 1
    ]
    return [*bonds, *(chain for atom in mol.GetAtoms() for chain in _chains(mol, atom.GetIdx()))]


def _chains(mol: Any, start: int) -> Iterator[LinkerPath]:
    """Yields the chains from an atom to atoms of higher index."""
    stack: list[tuple[int, ...]] = [(start,)]
    while stack:
        path = stack.pop()
        for bond in mol.GetAtomWithIdx(path[-1]).GetBonds():
            step = bond.GetOtherAtom(mol.GetAtomWithIdx(path[-1]))
            index = step.GetIdx()
            if index in path or bond.IsInRing() or step.GetDegree() < 2:
                continue
            if len(path) > 1 and start < index:
                beside = (n for i in path[1:] for n in mol.GetAtomWithIdx(i).GetNeighbors())
                if all(n.GetIdx() in (*path, index) or n.GetDegree() == 1 for n in beside):
                    yield start, path[1:], index
            if len(path) <= 3 and not step.IsInRing():
                stack.append((*path, index))
