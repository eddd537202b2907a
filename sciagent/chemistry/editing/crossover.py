"""Crossover: joins parts of two molecules, cut at chain bonds or through rings.

A chain cut opens a single bond outside rings. A ring cut opens two bonds of a ring and keeps one side with its
substituents; two such halves form a new ring. After Jensen, Chem. Sci. 10, 3567 (2019), with our own code.
"""

from __future__ import annotations

import random
from typing import Any

from rdkit import Chem

from sciagent.chemistry.editing.atoms import ORDERS, kekule
from sciagent.chemistry.editing.parts import side

_CUT = Chem.MolFromSmarts("[#6,#7;!$(*#*):1]-!@[!#1;!$(*#*):2]")
TRIES = 6  # attempts to cut a ring in half


def cross_chain(first: Any, second: Any, rng: random.Random) -> Any:
    """Cuts a chain bond in each molecule, and joins a part of the first to a part of the second. A molecule without a
    chain bond is used whole and joined at an aromatic CH."""
    left, right = _piece(first, rng), _piece(second, rng)
    if left is None or right is None:
        return None
    joined = Chem.RWMol(Chem.CombineMols(left[0], right[0]))
    joined.AddBond(left[1], left[0].GetNumAtoms() + right[1], Chem.BondType.SINGLE)
    return joined


def cross_ring(first: Any, second: Any, rng: random.Random) -> Any:
    """Joins half of a ring of each, with its substituents, to a new ring."""
    left, right = _half(first, rng), _half(second, rng)
    if left is None or right is None:
        return None
    joined = Chem.RWMol(Chem.CombineMols(left[0], right[0]))
    offset = left[0].GetNumAtoms()
    right_ends = list(right[1])
    rng.shuffle(right_ends)
    for a, b in zip(left[1], right_ends, strict=True):
        # both ends may be the same atom, if a half has a single ring atom
        if joined.GetBondBetweenAtoms(a, offset + b) is not None:
            return None
        joined.AddBond(a, offset + b, ORDERS[rng.random() < 0.4])
    return joined


def _piece(mol: Any, rng: random.Random) -> tuple[Any, int] | None:
    """Returns one side of a cut, and the index of its open atom."""
    cuts = mol.GetSubstructMatches(_CUT)
    if not cuts:
        open_atoms = [a.GetIdx() for a in mol.GetAtoms() if a.GetIsAromatic() and a.GetTotalNumHs() == 1]
        return (kekule(mol), rng.choice(open_atoms)) if open_atoms else None
    keep, drop = rng.choice(cuts)[:: rng.choice((1, -1))]
    cut = kekule(mol)
    cut.RemoveBond(keep, drop)
    fragment, (end,) = _part(cut, (keep,))
    return fragment, end


def _half(mol: Any, rng: random.Random) -> tuple[Any, tuple[int, int]] | None:
    """Returns one side of a ring that was cut twice, and the indices of its open ends."""
    rings = mol.GetRingInfo().AtomRings()
    if not rings:
        return None
    for _ in range(TRIES):
        ring = rng.choice(rings)
        i, j = sorted(rng.sample(range(len(ring)), 2))
        bonds = [(ring[k], ring[(k + 1) % len(ring)]) for k in (i, j)]
        cut = kekule(mol)
        for a, b in bonds:
            cut.RemoveBond(a, b)
        # one side is ring[i+1 .. j], the other is the rest
        ends = [(bonds[0][1], bonds[1][0]), (bonds[0][0], bonds[1][1])]
        rng.shuffle(ends)
        if any(a in side(cut, ends[0][0]) for a in ends[1]):
            continue  # another ring still connects the two sides
        fragment, kept = _part(cut, ends[0])
        return fragment, (kept[0], kept[1])
    return None


def _part(cut: Any, marked: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Returns the fragment with the marked atoms, and their new indices."""
    inside = side(cut, marked[0])
    where = {old: new for new, old in enumerate(sorted(inside))}
    for index in range(cut.GetNumAtoms() - 1, -1, -1):
        if index not in inside:
            cut.RemoveAtom(index)
    return cut, tuple(where[i] for i in marked)
