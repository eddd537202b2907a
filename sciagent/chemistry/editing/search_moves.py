"""The moves of a search: edits of atoms and bonds, on Kekulé structures, and of rings and linkers.

Every edit takes (mol, rng, elements) and returns a changed copy, or None if it does not fit. `elements` are the symbols
that may be inserted. The result may be invalid; `graph_edits` sanitises and checks it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from rdkit import Chem

from sciagent.chemistry.editing import join_and_exchange_molecule_parts
from sciagent.chemistry.editing.join_and_exchange_molecule_parts import LINKERS, RINGS

Edit = Callable[[Any, random.Random, Sequence[str]], Any]

# number of bonds of an element in the molecules of a search
VALENCE: dict[str, int] = {"B": 3, "C": 4, "N": 3, "O": 2, "F": 1, "Si": 4, "P": 3, "S": 2, "Cl": 1, "Br": 1, "I": 1}
# relative frequency of each element; others are never inserted
WEIGHT: dict[str, float] = {"C": 3.0, "N": 2.0, "O": 2.0, "S": 0.7, "F": 0.7, "Cl": 0.5, "Br": 0.25}
NEW_RING_SIZES = (3, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7)  # sizes of new rings; repeated sizes are drawn more often
ORDERS = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE)


def draw(rng: random.Random, elements: Sequence[str], valence: int) -> str | None:
    """Draws an element that can have `valence` bonds; None if there is none."""
    fit = [element for element in elements if element in WEIGHT and VALENCE[element] >= valence]
    if not fit:
        return None
    [drawn] = rng.choices(fit, weights=[WEIGHT[element] for element in fit])
    return drawn


def append_atom(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """Puts a new atom in place of one, two or three hydrogens."""
    places = [a.GetIdx() for a in mol.GetAtoms() if a.GetTotalNumHs() > 0 and a.GetFormalCharge() == 0]
    if not places:
        return None
    place = rng.choice(places)
    [drawn_order] = rng.choices((1, 2, 3), weights=(12, 6, 1))
    order = min(drawn_order, mol.GetAtomWithIdx(place).GetTotalNumHs())
    element = draw(rng, elements, order)
    if element is None:
        return None
    child = join_and_exchange_molecule_parts.kekule(mol)
    new = child.AddAtom(Chem.Atom(element))
    child.AddBond(place, new, ORDERS[order - 1])
    return child


def insert_atom(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """Inserts a new atom into a bond; a ring grows by it."""
    bonds = [b.GetIdx() for b in mol.GetBonds()]
    element = draw(rng, elements, valence=2)
    if not bonds or element is None:
        return None
    child = join_and_exchange_molecule_parts.kekule(mol)
    bond = child.GetBondWithIdx(rng.choice(bonds))
    first = bond.GetBeginAtomIdx()
    second = bond.GetEndAtomIdx()
    can_keep_double = bond.GetBondType() == Chem.BondType.DOUBLE and VALENCE[element] >= 3
    keeps_double = can_keep_double and rng.random() < 0.5
    child.RemoveBond(first, second)
    new = child.AddAtom(Chem.Atom(element))
    child.AddBond(first, new, Chem.BondType.DOUBLE if keeps_double else Chem.BondType.SINGLE)
    child.AddBond(new, second, Chem.BondType.SINGLE)
    return child


def take_out_atom(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """Removes an atom and bonds its neighbours to each other; a ring shrinks by it."""
    removable = [a.GetIdx() for a in mol.GetAtoms() if a.GetDegree() <= 3 and a.GetFormalCharge() == 0]
    if len(removable) < 2:  # a single one may be the whole molecule
        return None
    child = join_and_exchange_molecule_parts.kekule(mol)
    atom = child.GetAtomWithIdx(rng.choice(removable))
    around = [n.GetIdx() for n in atom.GetNeighbors()]
    rng.shuffle(around)
    for left, right in pairwise(around):
        if child.GetBondBetweenAtoms(left, right) is not None:
            return None
        child.AddBond(left, right, Chem.BondType.SINGLE)
    child.RemoveAtom(atom.GetIdx())
    return child


def change_element(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """Changes the element of an atom and keeps its bonds."""
    child = join_and_exchange_molecule_parts.kekule(mol)
    neutral = [a for a in child.GetAtoms() if a.GetFormalCharge() == 0 and not a.GetNumRadicalElectrons()]
    atoms = [a for a in neutral if a.GetSymbol() in VALENCE]
    if not atoms:
        return None
    atom = rng.choice(atoms)
    n_bonds = round(sum(b.GetBondTypeAsDouble() for b in atom.GetBonds()))
    other_elements = [e for e in elements if e != atom.GetSymbol()]
    element = draw(rng, other_elements, n_bonds)
    return None if element is None else join_and_exchange_molecule_parts.change_element(mol, atom.GetIdx(), element)


def change_bond_order(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """Raises the order of a bond, if there are hydrogens for it, or lowers it."""
    child = join_and_exchange_molecule_parts.kekule(mol)
    hydrogens = [a.GetTotalNumHs() for a in mol.GetAtoms()]
    changes = []
    for bond in child.GetBonds():
        spare = min(hydrogens[atom.GetIdx()] for atom in end_atoms(bond))
        for number, order in enumerate(ORDERS, start=1):
            rise = number - bond.GetBondTypeAsDouble()
            if rise != 0 and rise <= spare:
                changes.append((bond.GetIdx(), order))
    if not changes:
        return None
    index, order = rng.choice(changes)
    bond = child.GetBondWithIdx(index)
    bond.SetBondType(order)
    bond.SetStereo(Chem.BondStereo.STEREONONE)
    return child


def replace_ring(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """Replaces a ring system by a ring of the table. Its substituents move to random free places of the new ring."""
    systems = join_and_exchange_molecule_parts.ring_systems(mol)
    if not systems:
        return None
    system = rng.choice(systems)
    arms_and_removed = join_and_exchange_molecule_parts.ring_arms(mol, system)
    if arms_and_removed is None:
        return None
    arms, removed = arms_and_removed  # an arm: the ring atom and the atom outside that it bears
    ring = rng.choice(RINGS)
    free_places = list[int]()  # atoms of the new ring, each as often as it has hydrogens
    for atom in join_and_exchange_molecule_parts.fragment(ring).GetAtoms():
        free_places += [atom.GetIdx()] * atom.GetTotalNumHs()
    rng.shuffle(free_places)
    if len(free_places) < len(arms):
        return None
    child, offset = join_and_exchange_molecule_parts.with_loose_fragment(mol, ring)
    for (_, outer), place in zip(arms, free_places, strict=False):
        child.AddBond(outer, offset + place, Chem.BondType.SINGLE)
    return join_and_exchange_molecule_parts.without_atoms(child, [*system, *removed])


def open_ring(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """Removes a single bond of a ring, in the Kekulé structure."""
    child = join_and_exchange_molecule_parts.kekule(mol)
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
    size = rng.choice(NEW_RING_SIZES)
    distance = Chem.GetDistanceMatrix(mol)
    rings = [set(r) for r in mol.GetRingInfo().AtomRings()]
    aromatic = {a.GetIdx() for a in mol.GetAtoms() if a.GetIsAromatic()}
    pairs = []
    for n, i in enumerate(open_atoms):
        for j in open_atoms[n + 1 :]:
            if round(distance[i][j]) != size - 1:  # in bonds
                continue
            are_in_one_ring = any({i, j} <= ring for ring in rings)
            if not (are_in_one_ring and aromatic & {i, j}):
                pairs.append((i, j))
    if not pairs:
        return None
    child = join_and_exchange_molecule_parts.kekule(mol)
    child.AddBond(*rng.choice(pairs), Chem.BondType.SINGLE)
    return child


def replace_linker(mol: Any, rng: random.Random, elements: Sequence[str]) -> Any:
    """Replaces a bond between two parts, or a chain of up to three atoms, by a linker of the table."""
    paths = join_and_exchange_molecule_parts.linker_paths(mol)
    if not paths:
        return None
    left, inner, right = rng.choice(paths)
    linker = rng.choice(LINKERS)
    order_of_ends = [0, 1]  # either end may come first
    rng.shuffle(order_of_ends)
    is_turned = order_of_ends != [0, 1]
    return join_and_exchange_molecule_parts.replace_linker(mol, left, inner, right, linker, turned=is_turned)


def end_atoms(bond: Any) -> tuple[Any, Any]:
    """Returns the two atoms of a bond."""
    return bond.GetBeginAtom(), bond.GetEndAtom()


MOVES: dict[str, Edit] = {
    "append atom": append_atom,
    "insert atom": insert_atom,
    "take out atom": take_out_atom,
    "change element": change_element,
    "change bond order": change_bond_order,
    "replace ring": replace_ring,
    "open ring": open_ring,
    "close ring": close_ring,
    "replace linker": replace_linker,
}
