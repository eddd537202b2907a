"""Finds rings that no isolable compound has, which generators propose.

The limits admit the smallest isolable compounds: cyclooctyne, 1,2-cyclononadiene, bicyclo[3.3.1]non-1-ene,
bicyclobutane and cyclopropenone pass. Aromatic bonds are neither double nor triple here. Trans double bonds in small
rings need no check, since RDKit reads no such geometry below eight atoms.

Sources: Krebs and Wilke, Top. Curr. Chem. 109, 189 (1983), angle-strained alkynes; Wiseman, J. Am. Chem. Soc. 89, 5966
(1967), a bridgehead alkene is as strained as the trans-cycloalkene in it; Johnson, Chem. Rev. 89, 1111 (1989), cyclic
allenes; Maier, Angew. Chem. Int. Ed. 27, 309 (1988), cyclobutadiene and tetrahedrane.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from itertools import chain
from typing import Any

MIN_RING_WITH_ALKYNE = 8  # atoms
MIN_RING_WITH_ALLENE = 8  # atoms
MIN_BRIDGEHEAD_RING = 8  # atoms in the larger ring around a bridgehead double bond
MAX_THREE_RINGS = 4
MAX_THREE_RINGS_AT_AN_ATOM = 2
_MULTIPLE_RING_BOND = "*=,#;@*"  # SMARTS of a double or triple bond in a ring
_ANTIAROMATIC = {
    "an antiaromatic three-membered ring": "[#8,#16,#7X3,#34;r3;!+]1[#6]=[#6]1",
    "a cyclobutadiene": "[#6;r4]1=[#6]-[#6]=[#6]-1",
}
"""{name: SMARTS} of small antiaromatic rings."""

Ring = frozenset[int]
"""The indices of the atoms of a ring."""


def impossible(mol: Any) -> str | None:
    """Returns why a ring of the molecule is impossible, or None. mol: a sanitised RDKit molecule.

    Only rings of the smallest set of smallest rings (SSSR) are tested, and bridged pairs of them only in molecules with
    a multiple bond in a ring.
    """
    atom_rings = mol.GetRingInfo().AtomRings()
    if not atom_rings:
        return None
    rings = [frozenset(ring) for ring in atom_rings]
    three_rings_fault = _three_rings_fault([ring for ring in rings if len(ring) == 3])
    if three_rings_fault:
        return three_rings_fault
    multiple_bonds = mol.GetSubstructMatches(smarts_pattern(_MULTIPLE_RING_BOND))
    if not multiple_bonds:
        return None
    if min(len(ring) for ring in rings) <= 4:
        for name, smarts in _ANTIAROMATIC.items():
            if mol.HasSubstructMatch(smarts_pattern(smarts)):
                return name
    return _multiple_bond_fault(mol, multiple_bonds) or _bridgehead_fault(mol, rings, multiple_bonds)


def _three_rings_fault(three_rings: Sequence[Ring]) -> str | None:
    """Returns the fault if there are too many three-membered rings, in all or at one atom, or None."""
    if len(three_rings) > MAX_THREE_RINGS:
        return f"{len(three_rings)} three-membered rings; at most {MAX_THREE_RINGS} are taken for real"
    rings_at_atom = Counter(chain.from_iterable(three_rings))
    for atom, n in rings_at_atom.items():
        if n > MAX_THREE_RINGS_AT_AN_ATOM:
            return f"atom {atom + 1} is in {n} three-membered rings; at most {MAX_THREE_RINGS_AT_AN_ATOM}"
    return None


def _multiple_bond_fault(mol: Any, multiple_bonds: Sequence[tuple[int, int]]) -> str | None:
    """Returns the fault if a ring is too small for its triple bond or cumulated double bonds, or None.

    multiple_bonds: pairs of atoms with a double or triple bond in a ring.
    """
    ring_info = mol.GetRingInfo()
    double_bonds_at_atom: Counter[int] = Counter()  # in small rings only
    for begin, end in multiple_bonds:
        bond = mol.GetBondBetweenAtoms(begin, end)
        size = ring_info.MinBondRingSize(bond.GetIdx())
        if bond.GetBondTypeAsDouble() == 3 and size < MIN_RING_WITH_ALKYNE:
            limit = f"{MIN_RING_WITH_ALKYNE} is the smallest that holds one"
            return f"a triple bond ({begin + 1}-{end + 1}) in a ring of {size}; {limit}"
        if bond.GetBondTypeAsDouble() == 2 and size < MIN_RING_WITH_ALLENE:
            double_bonds_at_atom.update((begin, end))
    for atom, n in double_bonds_at_atom.items():
        if n > 1 and mol.GetAtomWithIdx(atom).GetDegree() == 2:
            return f"cumulated double bonds at atom {atom + 1} in a ring of fewer than {MIN_RING_WITH_ALLENE}"
    return None


def _bridgehead_fault(mol: Any, rings: Sequence[Ring], multiple_bonds: Sequence[tuple[int, int]]) -> str | None:
    """Returns the fault if both rings at a bridgehead double bond are too small for a trans double bond, or None."""
    for i, ring in enumerate(rings):
        for other_ring in rings[:i]:
            shared = ring & other_ring
            if len(shared) < 3:  # no bridge between two heads
                continue
            heads = [atom for atom in shared if _n_neighbours_among(mol, atom, shared) == 1]
            if len(heads) != 2:  # the rings share several paths
                continue
            # the atoms of each of the three bridges between the heads
            bridges = (ring - shared, other_ring - shared, shared.difference(heads))
            strained_head = _strained_head(bridges, heads, multiple_bonds)
            if strained_head is not None:
                lengths = sorted((len(bridge) for bridge in bridges), reverse=True)
                system = f"bicyclo[{'.'.join(map(str, lengths))}] system"
                return f"a double bond at bridgehead atom {strained_head + 1} of a {system} (Bredt's rule)"
    return None


def _n_neighbours_among(mol: Any, atom: int, atoms: Collection[int]) -> int:
    """Returns how many neighbours of an atom are among these atoms."""
    return sum(neighbour.GetIdx() in atoms for neighbour in mol.GetAtomWithIdx(atom).GetNeighbors())


def _strained_head(
    bridges: Sequence[Collection[int]], heads: Sequence[int], multiple_bonds: Sequence[tuple[int, int]]
) -> int | None:
    """Returns a strained bridgehead, or None.

    A bridgehead is strained if its double bond goes into a bridge that forms too small a ring with the longest of the
    other bridges. bridges: the atoms of each bridge without the two heads.
    """
    for bridge in bridges:
        longest_other = max(len(other) for other in bridges if other is not bridge)
        ring_size = len(bridge) + longest_other + 2  # with the two heads
        if ring_size >= MIN_BRIDGEHEAD_RING:
            continue
        for head in heads:
            for bond in multiple_bonds:
                other_end = set(bond) - {head}
                if head in bond and other_end <= set(bridge):
                    return head
    return None


@cache
def smarts_pattern(smarts: str) -> Any:
    """Returns the RDKit molecule of a SMARTS pattern; None for an invalid or empty one."""
    from rdkit import Chem

    from sciagent.chemistry.rdkit_messages import rdkit_messages

    with rdkit_messages():
        return Chem.MolFromSmarts(smarts) if smarts.strip() else None
