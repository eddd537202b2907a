"""The parts of a molecule, such as ring systems and linkers, and the steps by which edits join and exchange them.

The steps add or remove a group, or exchange a ring, a linker or an element, at a given place; `edits` checks the
results. Stereocentres that keep their neighbours keep their configuration. A new group takes the place of the hydrogen
or group that it replaces.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from rdkit import Chem

LinkerPath = tuple[int, tuple[int, ...], int]
"""Indices of one end, of the inner atoms, and of the other end."""
MAX_ARMS = 4  # substituents of a ring that is replaced, at most
MAX_ARRANGEMENTS = 24  # children of one ring exchange, at most


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


def put(mol: Any, place: int, group: str) -> Any:
    """Replaces a hydrogen by the group."""
    child, offset = beside(mol, group)
    child.AddBond(place, offset, Chem.BondType.SINGLE)
    return child


def exchange(mol: Any, bearer: int, first: int, group: str = "") -> Any:
    """Replaces the group that begins with `first` by another group, or by a hydrogen."""
    child, offset = beside(mol, group) if group else (kekule(mol), 0)
    _cut(child, bearer, first)
    if group:
        child.AddBond(bearer, offset, Chem.BondType.SINGLE)
    return without(child, side(mol, first, bearer))


def join(mol: Any, left: int, inner: Sequence[int], right: int, linker: str, *, turned: bool) -> Any:
    """Joins two parts by a linker with ends `*`. inner: atoms of the old linker, removed with their substituents."""
    new = fragment(linker)
    stars = [a.GetIdx() for a in new.GetAtoms() if a.GetAtomicNum() == 0][:: -1 if turned else 1]
    child, offset = beside(mol, linker)
    chain = [left, *inner, right]
    _cut(child, left, chain[1])
    _cut(child, right, chain[-2])
    if new.GetNumAtoms() == 2:
        child.AddBond(left, right, Chem.BondType.SINGLE)
    else:
        for end, star in zip((left, right), stars, strict=True):
            child.AddBond(end, offset + new.GetAtomWithIdx(star).GetNeighbors()[0].GetIdx(), Chem.BondType.SINGLE)
    hung = {n.GetIdx() for i in inner for n in mol.GetAtomWithIdx(i).GetNeighbors()} - {left, right}
    return without(child, {*inner, *hung, *(offset + star for star in stars)})


def exchange_ring(mol: Any, system: Sequence[int], ring: str) -> Iterator[Any]:
    """Replaces a ring system by another ring, and keeps the distances between its arms if possible: para stays para.

    Yields nothing for a ring system without `ring_arms`.
    """
    if (found := ring_arms(mol, system)) is None:
        return
    arms, removed = found
    distance = Chem.GetDistanceMatrix(mol)
    apart = [[round(distance[a][b]) for a, _ in arms] for b, _ in arms]
    for places in _arrangements(fragment(ring), apart):
        child, offset = beside(mol, ring)
        for (atom, outer), place in zip(arms, places, strict=True):
            _cut(child, outer, atom)
            child.AddBond(outer, offset + place, Chem.BondType.SINGLE)
        yield without(child, {*system, *removed})


def change(mol: Any, place: int, element: str) -> Any:
    """Changes the element of an atom; its hydrogens follow."""
    child = kekule(mol)
    atom = child.GetAtomWithIdx(place)
    atom.SetAtomicNum(Chem.GetPeriodicTable().GetAtomicNumber(element))
    atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    return child


def _cut(child: Any, kept: int, gone: int) -> None:
    """Removes a bond so that the next new neighbour of `kept` takes the place of `gone`.

    A chirality tag counts the neighbours in the order of their bonds, and the new bond comes last.
    """
    atom = child.GetAtomWithIdx(kept)
    around = [bond.GetOtherAtomIdx(kept) for bond in atom.GetBonds()]
    if gone in around:
        if (len(around) - 1 - around.index(gone)) % 2:
            atom.InvertChirality()
        child.RemoveBond(kept, gone)


def _arrangements(ring: Any, apart: list[list[int]]) -> list[tuple[int, ...]]:
    """Returns the positions of the arms that change their distances, in bonds, least; at most MAX_ARRANGEMENTS."""
    room = {a.GetIdx(): a.GetTotalNumHs() for a in ring.GetAtoms() if a.GetTotalNumHs()}
    between = Chem.GetDistanceMatrix(ring)
    best: list[tuple[int, ...]] = []
    least = float("inf")
    stack: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    while stack:
        strain, places = stack.pop()
        if strain > least:
            continue
        if len(places) == len(apart):
            best, least = ([places], strain) if strain < least else ([*best, places], least)
            continue
        for place, holds in room.items():
            if places.count(place) < holds:
                wanted = apart[len(places)]
                more = sum(abs(round(between[place][p]) - wanted[n]) for n, p in enumerate(places))
                stack.append((strain + more, (*places, place)))
    return sorted(best)[:MAX_ARRANGEMENTS]
