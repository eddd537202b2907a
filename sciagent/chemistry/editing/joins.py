"""The steps of named edits, each at a given place: add or remove a group, exchange a ring, a linker or an element.
`edits` checks the results, as for the search.

Stereocentres that keep their neighbours keep their configuration. A new group takes the place of the hydrogen or group
that it replaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rdkit import Chem

from sciagent.chemistry.editing.parts import beside, fragment, kekule, ring_arms, side, without

SINGLE = Chem.BondType.SINGLE
MAX_ARRANGEMENTS = 24  # children of one ring exchange, at most


def put(mol: Any, place: int, group: str) -> Any:
    """Replaces a hydrogen by the group."""
    child, offset = beside(mol, group)
    child.AddBond(place, offset, SINGLE)
    return child


def exchange(mol: Any, bearer: int, first: int, group: str = "") -> Any:
    """Replaces the group that begins with `first` by another group, or by a hydrogen."""
    child, offset = beside(mol, group) if group else (kekule(mol), 0)
    _cut(child, bearer, first)
    if group:
        child.AddBond(bearer, offset, SINGLE)
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
        child.AddBond(left, right, SINGLE)
    else:
        for end, star in zip((left, right), stars, strict=True):
            child.AddBond(end, offset + new.GetAtomWithIdx(star).GetNeighbors()[0].GetIdx(), SINGLE)
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
            child.AddBond(outer, offset + place, SINGLE)
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
