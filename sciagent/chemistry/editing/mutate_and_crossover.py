"""Graph edits of molecules: the moves of an evolutionary search, and the basis of edits by name.

The edit, its place and its input are drawn from the caller's generator, in the order of the canonical SMILES, so that a
seed always gives the same child. Children are sanitised single fragments within the caller's limits, with the parent's
charge and no new radicals. An edit that gives anything else is tried again elsewhere.

A crossover joins parts of two molecules. A chain cut opens a single bond outside rings. A ring cut opens two bonds of a
ring and keeps one side with its substituents; two such halves form a new ring. After Jensen, Chem. Sci. 10, 3567
(2019), with our own code.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from rdkit import Chem
from rdkit.Chem import rdChemReactions

from sciagent.chemistry.editing.join_and_exchange_molecule_parts import (
    NOT_A_CHILD,
    TEMPLATES,
    connected_atoms,
    kekule,
    pattern,
    without_atoms,
)
from sciagent.chemistry.editing.search_moves import MOVES, end_atoms
from sciagent.chemistry.rdkit_messages import rdkit_messages

TRIES = 12  # attempts to make a child
MAX_PRODUCTS = 200  # most places of a template that are used
RING_TRIES = 6  # attempts to cut a ring in half
DOUBLE_BOND_SHARE = 0.4  # fraction of the bonds between two ring halves that are double
ORGANIC: tuple[str, ...] = ("H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Br", "I")

OPERATIONS: tuple[str, ...] = (*TEMPLATES, *MOVES)
CROSSOVERS: tuple[str, ...] = ("chain crossover", "ring crossover")
# a single bond outside rings that a crossover may cut: no triple bond is at its atoms, and atom 1 is carbon or nitrogen
_CHAIN = Chem.MolFromSmarts("[#6,#7;!$(*#*):1]-!@[!#1;!$(*#*):2]")


@dataclass(frozen=True)
class EditLimits:
    """Bounds on the molecules that edits may return."""

    elements: tuple[str, ...] = ORGANIC
    min_heavy_atoms: int = 1
    max_heavy_atoms: int = 60
    max_rings: int | None = None
    """Number of rings in the smallest set of smallest rings; None: any number."""
    min_ring_size: int = 3
    max_ring_size: int = 7
    """Largest ring size, unless a parent has a larger ring."""
    charges: tuple[int, ...] | None = None
    """Allowed net charges; None: the parent's charge, or any charge after a crossover."""
    defined_stereo: bool = False
    """Whether every stereocentre and double bond must have a defined configuration."""
    forbidden: tuple[str, ...] = ()
    """SMARTS that no child may match."""
    required: tuple[str, ...] = ()
    """SMARTS that every child must match."""


ANY = EditLimits()


def mutate(
    smiles: str, rng: random.Random, *, operations: Sequence[str] = OPERATIONS, limits: EditLimits = ANY
) -> tuple[str, str] | None:
    """Returns a child of the molecule and the name of its operation, or None if nothing fits.

    operations: names to draw from. Raises KeyError for an unknown name.
    """
    mol = canonical(smiles)
    if mol is None:
        return None

    def edited(name: str) -> Any:
        """Returns a child of the operation; None if it does not fit."""
        if name not in TEMPLATES:
            return MOVES[name](mol, rng, limits.elements)
        template = rng.choice(TEMPLATES[name])
        products = reaction(template).RunReactants((mol,), maxProducts=MAX_PRODUCTS)
        return rng.choice(products)[0] if products else None

    return _first_accepted(edited, (mol,), rng, operations, limits, keeps_charge=True)


def crossover(
    first: str, second: str, rng: random.Random, *, operations: Sequence[str] = CROSSOVERS, limits: EditLimits = ANY
) -> tuple[str, str] | None:
    """Returns a child of two molecules and the name of its operation, or None if nothing fits."""
    a = canonical(first)
    b = canonical(second)
    if a is None or b is None:
        return None
    return _first_accepted(lambda name: _crossed(name, a, b, rng), (a, b), rng, operations, limits, keeps_charge=False)


def _first_accepted(
    edited: Callable[[str], Any],
    parents: Sequence[Any],
    rng: random.Random,
    operations: Sequence[str],
    limits: EditLimits,
    *,
    keeps_charge: bool,
) -> tuple[str, str] | None:
    """Returns the first accepted child of at most TRIES draws, and the name of its operation.

    edited: makes the child of an operation. keeps_charge: whether a child must have the charge of its parent.
    """
    with rdkit_messages():
        for _ in range(TRIES):
            name = rng.choice(operations)
            text = accepted(edited(name), parents, limits, keeps_charge=keeps_charge)
            if text is not None:
                return text, name
    return None


def canonical(smiles: str) -> Any:
    """Returns the molecule with its atoms in canonical order, whatever the SMILES; None if the SMILES is invalid."""
    with rdkit_messages():
        mol = Chem.MolFromSmiles(smiles)
        if mol is None or mol.GetNumAtoms() == 0:
            return None
        return Chem.MolFromSmiles(Chem.MolToSmiles(mol))


@cache
def reaction(template: str) -> Any:
    """Returns the reaction of a SMARTS, ready to run."""
    compiled = rdChemReactions.ReactionFromSmarts(template)
    compiled.Initialize()
    return compiled


def accepted(child: Any, parents: Sequence[Any], limits: EditLimits, *, keeps_charge: bool = True) -> str | None:
    """Returns the canonical SMILES of a child within the limits that is no parent; None for any other child.

    keeps_charge: whether the child must have the charge of the first parent.
    """
    if child is None or not limits.min_heavy_atoms <= child.GetNumAtoms() <= limits.max_heavy_atoms:
        return None
    if any(atom.GetSymbol() not in limits.elements for atom in child.GetAtoms()):
        return None
    try:
        child = Chem.Mol(child)
        Chem.SanitizeMol(child)
        product = _with_trans_bonds(Chem.MolFromSmiles(Chem.MolToSmiles(child)))
        text = Chem.MolToSmiles(product)
    except (ValueError, RuntimeError, TypeError):  # TypeError: the SMILES that was written cannot be read
        return None
    if "." in text or any(text == Chem.MolToSmiles(parent) for parent in parents):
        return None
    if keeps_charge and Chem.GetFormalCharge(product) != Chem.GetFormalCharge(parents[0]):
        return None
    if not _rings_fit(product, parents, limits) or not _is_within(product, limits):
        return None
    if _adds_unwanted(product, parents):
        return None
    # the text was written after the trans bonds were set; what was read above was the text before
    can_be_read = Chem.MolFromSmiles(text) is not None
    return text if can_be_read else None


def _is_within(child: Any, limits: EditLimits) -> bool:
    """Returns whether an edited molecule keeps the limits on charge, radicals, stereocentres and substructures."""
    if any(atom.GetNumRadicalElectrons() for atom in child.GetAtoms()):
        return False
    if limits.charges is not None and Chem.GetFormalCharge(child) not in limits.charges:
        return False
    if limits.defined_stereo:
        centres = Chem.FindPotentialStereo(Chem.Mol(child))
        if any(centre.specified == Chem.StereoSpecified.Unspecified for centre in centres):
            return False
    if not all(child.HasSubstructMatch(pattern(smarts)) for smarts in limits.required):
        return False
    return not any(child.HasSubstructMatch(pattern(smarts)) for smarts in limits.forbidden)


def _adds_unwanted(child: Any, parents: Sequence[Any]) -> bool:
    """Returns whether the child has a pattern of NOT_A_CHILD that no parent has."""
    for smarts in NOT_A_CHILD:
        motif = pattern(smarts)
        if child.HasSubstructMatch(motif) and not any(parent.HasSubstructMatch(motif) for parent in parents):
            return True
    return False


def _rings_fit(child: Any, parents: Sequence[Any], limits: EditLimits) -> bool:
    """Returns whether the rings of a child keep the limits on their number and sizes, and Bredt's rule."""
    sizes = [len(ring) for ring in child.GetRingInfo().AtomRings()]
    if limits.max_rings is not None and len(sizes) > limits.max_rings:
        return False
    if min(sizes, default=limits.min_ring_size) < limits.min_ring_size:
        return False
    largest_allowed = limits.max_ring_size
    for parent in parents:
        for ring in parent.GetRingInfo().AtomRings():
            largest_allowed = max(largest_allowed, len(ring))
    if max(sizes, default=0) > largest_allowed:
        return False
    return not _breaks_bredt(child) or any(map(_breaks_bredt, parents))


def _breaks_bredt(mol: Any) -> bool:
    """Returns whether a double or aromatic bond starts at a bridgehead, a strain that no valence rule detects (Bredt).

    Rings that share three atoms or more are bridged. Bridgeheads are shared atoms with three neighbours in these rings.
    """
    rings = [set(ring) for ring in mol.GetRingInfo().AtomRings()]
    for n, first in enumerate(rings):
        for second in rings[n + 1 :]:
            shared = first & second
            both = first | second
            if len(shared) < 3:
                continue
            for index in shared:
                bonds = [bond for bond in mol.GetAtomWithIdx(index).GetBonds() if bond.GetOtherAtomIdx(index) in both]
                is_bridgehead = len(bonds) > 2
                if is_bridgehead and any(bond.GetBondType() != Chem.BondType.SINGLE for bond in bonds):
                    return True
    return False


def _with_trans_bonds(mol: Any) -> Any:
    """Sets undefined double bonds outside rings to trans: the highest-ranked neighbours are on opposite sides."""
    has_candidate = False  # a double bond outside rings with a substituent at both ends
    for bond in mol.GetBonds():
        is_double = bond.GetBondType() == Chem.BondType.DOUBLE
        if is_double and not bond.IsInRing() and min(atom.GetDegree() for atom in end_atoms(bond)) > 1:
            has_candidate = True
    if not has_candidate:
        return mol
    ranks = Chem.CanonicalRankAtoms(mol)
    changed = False
    for centre in Chem.FindPotentialStereo(mol):
        if centre.type != Chem.StereoType.Bond_Double or centre.specified != Chem.StereoSpecified.Unspecified:
            continue
        bond = mol.GetBondWithIdx(centre.centeredOn)
        if bond.IsInRing():
            continue
        begin, end = end_atoms(bond)
        bond.SetStereoAtoms(_highest_neighbour(begin, end, ranks), _highest_neighbour(end, begin, ranks))
        bond.SetStereo(Chem.BondStereo.STEREOTRANS)
        changed = True
    return Chem.MolFromSmiles(Chem.MolToSmiles(mol)) if changed else mol


def _highest_neighbour(atom: Any, other: Any, ranks: Sequence[int]) -> int:
    """Returns the index of the highest-ranked neighbour of an atom except `other`. ranks: by index."""
    indices: list[int] = [neighbour.GetIdx() for neighbour in atom.GetNeighbors()]
    neighbours = [index for index in indices if index != other.GetIdx()]
    return max(neighbours, key=lambda index: ranks[index])


def _crossed(operation: str, first: Any, second: Any, rng: random.Random) -> Any:
    """Joins a part of the first molecule to a part of the second: pieces by a bond, or ring halves to a new ring.

    Returns None if a molecule has no such part, or if the parts do not fit.
    """
    in_ring = operation == "ring crossover"
    take_part = _half if in_ring else _piece
    left = take_part(first, rng)
    right = take_part(second, rng)
    if left is None or right is None:
        return None
    left_part, left_ends = left  # ends: indices of the atoms that get a bond
    right_part, right_ends = right
    joined = Chem.RWMol(Chem.CombineMols(left_part, right_part))
    offset = left_part.GetNumAtoms()
    shuffled_ends = list(right_ends)
    rng.shuffle(shuffled_ends)
    for left_end, right_end in zip(left_ends, shuffled_ends, strict=True):
        # a half with a single ring atom has it as both ends; of two such halves, both bonds would join the same atoms
        if joined.GetBondBetweenAtoms(left_end, offset + right_end) is not None:
            return None
        is_double = in_ring and rng.random() < DOUBLE_BOND_SHARE
        order = Chem.BondType.DOUBLE if is_double else Chem.BondType.SINGLE
        joined.AddBond(left_end, offset + right_end, order)
    return joined


def _piece(mol: Any, rng: random.Random) -> tuple[Any, tuple[int, ...]] | None:
    """Returns one side of a cut chain bond, and the index of its open atom. A molecule without a chain bond is returned
    whole, open at an aromatic CH."""
    cuts = mol.GetSubstructMatches(_CHAIN)
    if not cuts:
        open_atoms = [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetIsAromatic() and atom.GetTotalNumHs() == 1]
        return (kekule(mol), (rng.choice(open_atoms),)) if open_atoms else None
    chosen_cut = rng.choice(cuts)
    direction = rng.choice((1, -1))  # which of the two sides is kept
    keep, drop = chosen_cut[::direction]
    cut = kekule(mol)
    cut.RemoveBond(keep, drop)
    return _part(cut, (keep,))


def _half(mol: Any, rng: random.Random) -> tuple[Any, tuple[int, ...]] | None:
    """Returns one side of a ring that was cut twice, and the indices of its open ends."""
    rings = mol.GetRingInfo().AtomRings()
    for _ in range(RING_TRIES if rings else 0):
        ring = rng.choice(rings)
        i, j = sorted(rng.sample(range(len(ring)), 2))
        first_bond = (ring[i], ring[i + 1])  # i is not the last place, since j is larger
        second_bond = (ring[j], ring[(j + 1) % len(ring)])
        cut = kekule(mol)
        cut.RemoveBond(*first_bond)
        cut.RemoveBond(*second_bond)
        # one side is ring[i+1 .. j], the other is the rest
        open_ends = [(first_bond[1], second_bond[0]), (first_bond[0], second_bond[1])]
        rng.shuffle(open_ends)
        kept_ends, other_ends = open_ends
        is_separate = connected_atoms(cut, kept_ends[0]).isdisjoint(other_ends)  # no other ring connects the sides
        if is_separate:
            return _part(cut, kept_ends)
    return None


def _part(cut: Any, marked: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Returns the fragment with the marked atoms, and their new indices."""
    inside = sorted(connected_atoms(cut, marked[0]))
    outside = set(range(cut.GetNumAtoms())).difference(inside)
    fragment = without_atoms(cut, outside)
    return fragment, tuple(inside.index(atom) for atom in marked)
