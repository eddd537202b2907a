"""Detection of rings that no isolable compound has, such as generators propose.

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
from typing import Any

SMALLEST_WITH_ALKYNE = 8
SMALLEST_WITH_ALLENE = 8
SMALLEST_BRIDGEHEAD = 8  # atoms in the larger ring around a bridgehead double bond
MOST_THREE_RINGS = 4
MOST_THREE_RINGS_AT_AN_ATOM = 2
_MULTIPLE = "*=,#;@*"  # a double or triple bond in a ring
_ANTIAROMATIC = {
    "an antiaromatic three-membered ring": "[#8,#16,#7X3,#34;r3;!+]1[#6]=[#6]1",
    "a cyclobutadiene": "[#6;r4]1=[#6]-[#6]=[#6]-1",
}

Ring = frozenset[int]


def impossible(mol: Any) -> str | None:
    """Returns why a ring of the molecule is impossible, or None. mol: a sanitised RDKit molecule.

    Only rings of the SSSR are tested; bridged pairs of them only in molecules with a multiple bond in a ring.
    """
    atom_rings = mol.GetRingInfo().AtomRings()
    if not atom_rings:
        return None
    rings = [frozenset(ring) for ring in atom_rings]
    if problem := _three_rings([ring for ring in rings if len(ring) == 3]):
        return problem
    multiple, *antiaromatic = _patterns()
    pairs = mol.GetSubstructMatches(multiple)
    if not pairs:
        return None
    if min(map(len, rings)) <= 4:
        for pattern, name in zip(antiaromatic, _ANTIAROMATIC, strict=True):
            if mol.HasSubstructMatch(pattern):
                return name
    return _bonds(mol, pairs) or _bridgeheads(mol, rings, pairs)


@cache
def _patterns() -> tuple[Any, ...]:
    from rdkit import Chem

    return tuple(map(Chem.MolFromSmarts, (_MULTIPLE, *_ANTIAROMATIC.values())))


def _three_rings(small: Sequence[Ring]) -> str | None:
    if len(small) > MOST_THREE_RINGS:
        return f"{len(small)} three-membered rings; at most {MOST_THREE_RINGS} are taken for real"
    for atom, n in Counter(atom for ring in small for atom in ring).items():
        if n > MOST_THREE_RINGS_AT_AN_ATOM:
            return f"atom {atom + 1} is in {n} three-membered rings; at most {MOST_THREE_RINGS_AT_AN_ATOM}"
    return None


def _bonds(mol: Any, pairs: Sequence[tuple[int, int]]) -> str | None:
    """Returns the fault if a ring is too small for its triple bond or cumulated double bonds, or None."""
    info = mol.GetRingInfo()
    doubles: Counter[int] = Counter()
    for begin, end in pairs:
        bond = mol.GetBondBetweenAtoms(begin, end)
        size = info.MinBondRingSize(bond.GetIdx())
        if bond.GetBondTypeAsDouble() == 3 and size < SMALLEST_WITH_ALKYNE:
            limit = f"{SMALLEST_WITH_ALKYNE} is the smallest that holds one"
            return f"a triple bond ({begin + 1}-{end + 1}) in a ring of {size}; {limit}"
        if bond.GetBondTypeAsDouble() == 2 and size < SMALLEST_WITH_ALLENE:
            doubles.update((begin, end))
    for atom, n in doubles.items():
        if n > 1 and mol.GetAtomWithIdx(atom).GetDegree() == 2:
            return f"cumulated double bonds at atom {atom + 1} in a ring of fewer than {SMALLEST_WITH_ALLENE}"
    return None


def _bridgeheads(mol: Any, rings: Sequence[Ring], pairs: Sequence[tuple[int, int]]) -> str | None:
    """Returns the fault if both rings at a bridgehead double bond are too small for a trans double bond, or None."""
    for i, ring in enumerate(rings):
        for other_ring in rings[:i]:
            shared = ring & other_ring
            if len(shared) < 3:
                continue
            heads = [a for a in shared if sum(n.GetIdx() in shared for n in mol.GetAtomWithIdx(a).GetNeighbors()) == 1]
            if len(heads) != 2:  # the rings share several paths
                continue
            bridges = (ring - shared, other_ring - shared, shared.difference(heads))
            if (head := _strained_head(bridges, heads, pairs)) is not None:
                sizes = ".".join(map(str, sorted(map(len, bridges), reverse=True)))
                return f"a double bond at bridgehead atom {head + 1} of a bicyclo[{sizes}] system (Bredt's rule)"
    return None


def _strained_head(
    bridges: Sequence[Collection[int]], heads: Sequence[int], pairs: Sequence[tuple[int, int]]
) -> int | None:
    """Returns a bridgehead whose double bond goes into a bridge that forms too small a ring with the longest other."""
    for bridge in bridges:
        longest = max(len(other) for other in bridges if other is not bridge)
        if len(bridge) + longest + 2 >= SMALLEST_BRIDGEHEAD:
            continue
        for head in heads:
            if any({a, b} - {head} <= set(bridge) for a, b in pairs if head in (a, b)):
                return head
    return None
