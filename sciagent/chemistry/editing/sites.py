"""The sites of a molecule that can be edited by name, numbered from 1.

Atoms are numbered from 0, as in the canonical SMILES, so that the number of a site does not depend on the input SMILES.
Places that are equal by symmetry are one site.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from rdkit import Chem

from sciagent.chemistry.editing.parts import linker_paths, pattern, ring_systems, side
from sciagent.chemistry.editing.tables import NAMED_ARYLS, NAMED_LINKERS, NAMED_RINGS, SUBSTITUENTS

Kind = Literal["hydrogen", "aromatic nitrogen", "substituent", "ring", "bond", "linker", "bridge", "ring edge"]
Found = tuple[Kind, str, tuple[int, ...]]

GROUPS: dict[str, str] = {**SUBSTITUENTS, **NAMED_ARYLS}
# the same as in the templates "add substituent" and "add substituent to a saturated atom"
_OPEN = "[$([cH]),$([CX3;H1,H2]=C),$([CX2H]#C),$([nH]),$([CX4;H1,H2,H3]),$([NX3;+0;H1,H2;!$(N-[!#6])])]"
_AZA = "[n;H0;D2;+0]"
_BRIDGE = "[$([CX4;H2;D2]),$([NX3;H1;D2;+0;!$(N-[!#6])]),$([OX2;H0;D2]),$([SX2;H0;D2]),$([o,s;r5]),$([nH;r5])]"


@dataclass(frozen=True)
class Site:
    """One place, or several places that are equal by symmetry."""

    number: int
    kind: Kind
    name: str
    """Name of the site, such as `aromatic CH`, `methyl`, `benzene`, `ether`."""
    places: tuple[tuple[int, ...], ...]
    """Atoms of each place. hydrogen, aromatic nitrogen, bridge: the atom; substituent: the atom that bears it, its
    first atom; ring: all its atoms; bond, ring edge: both ends; linker: end, inner atoms, end."""


def sites_of(mol: Any) -> tuple[Site, ...]:
    """Returns all sites of a molecule whose atoms are in canonical order."""
    ranks = list(Chem.CanonicalRankAtoms(mol, breakTies=False))
    groups: dict[tuple[object, ...], list[tuple[int, ...]]] = {}
    for kind, name, place in _found(mol):
        classes = [ranks[atom] for atom in place]
        alike = tuple(min(classes, classes[::-1])) if kind in ("bond", "linker", "ring edge") else tuple(classes)
        groups.setdefault((kind, name, tuple(sorted(alike)) if kind == "ring" else alike), []).append(place)
    return tuple(
        Site(number, kind, name, tuple(places))  # type: ignore[arg-type]  # the first two of the key, as made above
        for number, ((kind, name, _), places) in enumerate(groups.items(), start=1)
    )


def _found(mol: Any) -> Iterator[Found]:
    for (index,) in mol.GetSubstructMatches(pattern(_OPEN)):
        yield "hydrogen", _hydrogens(mol.GetAtomWithIdx(index)), (index,)
    for (index,) in mol.GetSubstructMatches(pattern(_AZA)):
        yield "aromatic nitrogen", "aromatic N", (index,)
    yield from _substituents(mol)
    for system in ring_systems(mol):
        yield "ring", _ring_name(mol, system), tuple(sorted(system))
    for left, inner, right in linker_paths(mol):  # bonds come before chains
        ends = [mol.GetAtomWithIdx(index) for index in (left, right)]
        if not inner:
            yield "bond", "-".join(sorted(end.GetSymbol() for end in ends)) + " bond", (left, right)
        elif all(end.IsInRing() or end.GetDegree() > 2 for end in ends):
            yield "linker", _linker_name(mol, left, inner, right), (left, *inner, right)
    for (index,) in mol.GetSubstructMatches(pattern(_BRIDGE)):
        atom = mol.GetAtomWithIdx(index)
        where = "in ring" if atom.IsInRing() else "in chain"
        yield "bridge", f"{_hydrogens(atom)} {where}", (index,)
    for left, right in mol.GetSubstructMatches(pattern("[cH;D2]:[cH;D2]")):
        yield "ring edge", "aromatic CH-CH", (left, right)


def _hydrogens(atom: Any) -> str:
    """Returns the name of an atom with its hydrogens: `aromatic CH`, `=CH2`, `NH`, `O`."""
    n = atom.GetTotalNumHs()
    text = atom.GetSymbol() + ("H" if n else "") + (str(n) if n > 1 else "")
    if atom.GetIsAromatic():
        return f"aromatic {text}"
    orders = {bond.GetBondType() for bond in atom.GetBonds()}
    if Chem.BondType.TRIPLE in orders:
        return f"alkyne {text}"
    return f"={text}" if Chem.BondType.DOUBLE in orders else text


def _substituents(mol: Any) -> Iterator[Found]:
    """Yields groups of the table with at most half of the heavy atoms, also those within larger groups."""
    half = mol.GetNumHeavyAtoms() // 2
    for bond in mol.GetBonds():
        if bond.IsInRing() or bond.GetBondType() != Chem.BondType.SINGLE:
            continue
        for outer, inner in ((bond.GetBeginAtom(), bond.GetEndAtom()), (bond.GetEndAtom(), bond.GetBeginAtom())):
            group = side(mol, inner.GetIdx(), outer.GetIdx())
            name = _group_names().get(_group_key(mol, group, inner.GetIdx())) if len(group) <= half else None
            if name is not None:
                yield "substituent", name, (outer.GetIdx(), inner.GetIdx())


def _group_key(mol: Any, atoms: Iterable[int], root: int) -> str:
    return str(Chem.MolFragmentToSmiles(mol, atomsToUse=sorted(atoms), rootedAtAtom=root, isomericSmiles=False))


@cache
def _group_names() -> dict[str, str]:
    names: dict[str, str] = {}
    for name, text in {**GROUPS, "iodo": "I"}.items():
        mol = Chem.MolFromSmiles(f"*{text}")
        names.setdefault(_group_key(mol, range(1, mol.GetNumAtoms()), 1), name)
    return names


def _ring_name(mol: Any, system: set[int]) -> str:
    """Returns the ring's name in the table, with its double-bonded atoms, or its number of atoms."""
    bonds = [b for i in system for b in mol.GetAtomWithIdx(i).GetBonds() if b.GetBondType() == Chem.BondType.DOUBLE]
    substituents = {i for b in bonds for i in (b.GetBeginAtomIdx(), b.GetEndAtomIdx())} - system
    return _skeleton_names().get(_skeleton(mol, system | substituents), f"ring of {len(system)} atoms")


def _linker_name(mol: Any, left: int, inner: tuple[int, ...], right: int) -> str:
    substituents = {n.GetIdx() for i in inner for n in mol.GetAtomWithIdx(i).GetNeighbors()}
    key = _skeleton(mol, {*inner, *substituents, left, right}, stars=(left, right))
    return _skeleton_names().get(key, "linker " + "".join(mol.GetAtomWithIdx(i).GetSymbol() for i in inner))


@cache
def _skeleton_names() -> dict[str, str]:
    mols = {name: Chem.MolFromSmiles(text) for name, text in (NAMED_RINGS | NAMED_LINKERS).items()}
    return {_skeleton(mol, range(mol.GetNumAtoms())): name for name, mol in mols.items()}


def _skeleton(mol: Any, atoms: Iterable[int], stars: tuple[int, ...] = ()) -> str:
    """Returns a part as elements, charges and bonds only, since its hydrogens depend on its substituents."""
    part, index = Chem.RWMol(), {}
    for old in sorted(atoms):
        atom = mol.GetAtomWithIdx(old)
        new = Chem.Atom(0 if old in stars else atom.GetAtomicNum())
        if old not in stars:
            new.SetFormalCharge(atom.GetFormalCharge())
            new.SetIsAromatic(atom.GetIsAromatic())
        new.SetNoImplicit(True)
        index[old] = part.AddAtom(new)
    for bond in mol.GetBonds():
        first, second = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        if first in index and second in index and not {first, second} <= set(stars):
            part.AddBond(index[first], index[second], bond.GetBondType())
    return str(Chem.MolToSmiles(part))
