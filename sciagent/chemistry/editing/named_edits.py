"""Edits by name: from a chemist's words ("put a fluoro on site 2") to the molecules that result.

Nothing is random here: an edit, its group and a site give all children, in a fixed order. They obey the same valence
rules and limits as the children of the search. Groups that a chemist would not draw, such as a fluorine on nitrogen,
are made only if the parent has them.

    add substituent fluoro       benzene    -> fluorobenzene
    replace substituent cyano    toluene    -> benzonitrile
    swap ring pyridine           toluene    -> 2-, 3- and 4-picoline
    insert linker ether          biphenyl   -> diphenyl ether

Sites are numbered from 1. Atoms are numbered from 0, as in the canonical SMILES, so that the number of a site does not
depend on the input SMILES. Places that are equal by symmetry are one site.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Literal

from rdkit import Chem

from sciagent.chemistry.editing.join_and_exchange_molecule_parts import (
    ANNELATIONS,
    NAMED_ARYLS,
    NAMED_LINKERS,
    NAMED_RINGS,
    SUBSTITUENTS,
    add_group,
    change_element,
    connected_atoms,
    linker_paths,
    pattern,
    replace_group,
    replace_linker,
    replace_ring,
    ring_systems,
)
from sciagent.chemistry.editing.mutate_and_crossover import ANY, MAX_PRODUCTS, EditLimits, accepted, canonical, reaction
from sciagent.chemistry.rdkit_messages import rdkit_messages

Kind = Literal["hydrogen", "aromatic nitrogen", "substituent", "ring", "bond", "linker", "bridge", "ring edge"]
FoundPlace = tuple[Kind, str, tuple[int, ...]]
"""Kind and name of the site, and the atoms of one place as in `Site.places`."""

GROUPS: dict[str, str] = {**SUBSTITUENTS, **NAMED_ARYLS}
# the same as in the templates "add substituent" and "add substituent to a saturated atom"
_OPEN = "[$([cH]),$([CX3;H1,H2]=C),$([CX2H]#C),$([nH]),$([CX4;H1,H2,H3]),$([NX3;+0;H1,H2;!$(N-[!#6])])]"
_AZA = "[n;H0;D2;+0]"
_BRIDGE = "[$([CX4;H2;D2]),$([NX3;H1;D2;+0;!$(N-[!#6])]),$([OX2;H0;D2]),$([SX2;H0;D2]),$([o,s;r5]),$([nH;r5])]"
ATOMS: dict[str, str] = {"CH2": "C", "NH": "N", "oxygen": "O", "sulfur": "S"}
# patterns that a child may have only if its parent has them, in addition to NOT_A_CHILD of the parts
NOT_BY_NAME: tuple[str, ...] = (
    "[#7]-[F,Cl,Br,I]",
    "n-[OX2,SX2]",
    "[#7X3]-[N+](=O)[O-]",
    "[#7,OX2]-C(=O)-[OX2H]",
    "[OX2H]-[CX4]-n",
    "[Cl,Br,I]-[CX4]-[OX2,SX2,#7X3]",
    "F-[CX4;H1,H2]-[NX3;!$(N-C=O)]",
    "[NX3;H2]-[CX4]-[OX2,SX2,#7X3]",
)
Build = Callable[[Any, tuple[int, ...], str], Iterable[Any]]


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


@dataclass(frozen=True)
class NamedEdit:
    """An edit that a model calls by name."""

    name: str
    kind: Kind
    """Kind of the sites that it edits."""
    whats: tuple[str, ...]
    """Names that may be given as `what`; empty if the edit needs none."""
    says: str
    """A few words on the effect of the edit."""
    build: Build
    """Makes the children from (mol, place, what)."""
    by_group: bool = False
    """Whether `what` names the group that is at the site, instead of one to insert."""

    def fits(self, site: Site) -> bool:
        """Returns whether the edit applies to this site."""
        # of all atoms with a hydrogen, only an aromatic CH can become a ring nitrogen
        return site.kind == self.kind and (self.name != "swap CH for N" or site.name == "aromatic CH")


def _fuse(mol: Any, place: tuple[int, ...], what: str) -> Iterator[Any]:
    """Yields the products in which the ring is fused to the edge at this place."""
    for template in ANNELATIONS[what]:
        for (product,) in reaction(template).RunReactants((mol,), maxProducts=MAX_PRODUCTS):
            # the template maps the two atoms of the edge; RDKit notes on them which atoms of the reactant they were
            mapped_atoms = [atom for atom in product.GetAtoms() if atom.HasProp("old_mapno")]
            edge = {atom.GetIntProp("react_atom_idx") for atom in mapped_atoms}
            if edge == set(place):
                yield product


def _link(mol: Any, place: tuple[int, ...], what: str) -> Iterator[Any]:
    """Yields the children with the linker in both directions."""
    for turned in (False, True):
        yield replace_linker(mol, place[0], place[1:-1], place[-1], NAMED_LINKERS[what], turned=turned)


def _swap_atom(mol: Any, place: tuple[int, ...], what: str) -> Iterator[Any]:
    """Yields the child; nothing for CH2 in an aromatic ring, which it would break."""
    is_aromatic = mol.GetAtomWithIdx(place[0]).GetIsAromatic()
    if not (is_aromatic and ATOMS[what] == "C"):
        yield change_element(mol, place[0], ATOMS[what])


_NEW_LINKERS = tuple(name for name in NAMED_LINKERS if name != "direct bond")
_ALL = (
    NamedEdit(
        "add substituent", "hydrogen", tuple(GROUPS), "a group in place of a hydrogen",
        lambda mol, place, what: [add_group(mol, place[0], GROUPS[what])],
    ),
    NamedEdit(
        "replace substituent", "substituent", tuple(GROUPS), "another group in place of one that is there",
        lambda mol, place, what: [replace_group(mol, place[0], place[1], GROUPS[what])],
    ),
    NamedEdit(
        "remove substituent", "substituent", (*GROUPS, "iodo"), "a hydrogen in place of a group; what: that group",
        lambda mol, place, what: [replace_group(mol, place[0], place[1])], by_group=True,
    ),
    NamedEdit(
        "swap ring", "ring", tuple(NAMED_RINGS), "another ring in place of a whole ring system",
        lambda mol, place, what: replace_ring(mol, place, NAMED_RINGS[what]),
    ),
    NamedEdit(
        "fuse ring", "ring edge", tuple(ANNELATIONS), "an aromatic ring fused to an edge with two CH", _fuse
    ),
    NamedEdit("insert linker", "bond", _NEW_LINKERS, "a linker in a single bond between two parts", _link),
    NamedEdit("replace linker", "linker", tuple(NAMED_LINKERS), "another linker between two parts", _link),
    NamedEdit(
        "swap CH for N", "hydrogen", (), "a ring nitrogen in place of an aromatic CH",
        lambda mol, place, what: [change_element(mol, place[0], "N")],
    ),
    NamedEdit(
        "swap N for CH", "aromatic nitrogen", (), "an aromatic CH in place of a ring nitrogen",
        lambda mol, place, what: [change_element(mol, place[0], "C")],
    ),
    NamedEdit(
        "swap atom", "bridge", tuple(ATOMS), "CH2, NH, O or S in place of one of them between two atoms",
        _swap_atom,
    ),
)  # fmt: skip
NAMED_EDITS: dict[str, NamedEdit] = {edit.name: edit for edit in _ALL}
WHATS: tuple[str, ...] = tuple(dict.fromkeys(what for edit in _ALL for what in edit.whats))


def sites(smiles: str) -> tuple[Site, ...]:
    """Returns all sites of the molecule, by number. Raises ValueError for an invalid SMILES."""
    _, sites_of_molecule = _prepared(smiles)
    return sites_of_molecule


def choices(smiles: str, edit: str, what: str | None = None, site: int | None = None) -> list[tuple[str, Site]]:
    """Returns all pairs of (what, site) that the edit may try; what is empty if there is no choice.

    Raises KeyError for an unknown edit, ValueError for an invalid SMILES.
    """
    named = NAMED_EDITS[edit]
    fitting = [fit for fit in sites(smiles) if named.fits(fit) and site in (None, fit.number)]
    if named.by_group:
        return [(chosen.name, chosen) for chosen in fitting if what in (None, chosen.name)]
    whats = named.whats
    if what:
        whats = (what,)
    elif not whats:
        whats = ("",)
    pairs = list[tuple[str, Site]]()
    for fitting_site in fitting:
        pairs.extend((name, fitting_site) for name in whats)
    return pairs


def children(
    smiles: str, edit: str, what: str | None = None, site: int | None = None, limits: EditLimits = ANY
) -> list[str]:
    """Returns the canonical SMILES of all children of the edit, sorted; empty if the edit does not fit.

    what: what to insert or remove; None: anything. site: its number; None: every site that fits.
    Raises KeyError for an unknown edit or `what`, ValueError for an invalid SMILES.
    """
    mol, _ = _prepared(smiles)
    absent = tuple(smarts for smarts in NOT_BY_NAME if not mol.HasSubstructMatch(pattern(smarts)))
    bounded = replace(limits, forbidden=(*limits.forbidden, *absent))
    with rdkit_messages():
        products = set()
        for chosen, where in choices(smiles, edit, what, site):
            for place in where.places:
                for child in NAMED_EDITS[edit].build(mol, place, chosen):
                    products.add(accepted(child, (mol,), bounded))
    return sorted(text for text in products if text is not None)


@lru_cache(maxsize=512)
def _prepared(smiles: str) -> tuple[Any, tuple[Site, ...]]:
    """Returns the molecule with its atoms in canonical order, and its sites. Raises ValueError."""
    mol = canonical(smiles)
    if mol is None:
        raise ValueError(f"no molecule: {smiles!a}")
    return mol, _sites_of(mol)


def _sites_of(mol: Any) -> tuple[Site, ...]:
    """Returns all sites of a molecule whose atoms are in canonical order."""
    ranks = list(Chem.CanonicalRankAtoms(mol, breakTies=False))
    # places with the same kind, name and symmetry classes of atoms are equal by symmetry
    groups: dict[tuple[Kind, str, tuple[int, ...]], list[tuple[int, ...]]] = {}
    for kind, name, place in _found_places(mol):
        classes = [ranks[atom] for atom in place]
        if kind == "ring":
            classes = sorted(classes)
        elif kind in ("bond", "linker", "ring edge"):
            classes = min(classes, classes[::-1])  # both directions are one place
        groups.setdefault((kind, name, tuple(classes)), []).append(place)
    sites_of_molecule = []
    for number, ((kind, name, _), places) in enumerate(groups.items(), start=1):
        sites_of_molecule.append(Site(number, kind, name, tuple(places)))
    return tuple(sites_of_molecule)


def _found_places(mol: Any) -> Iterator[FoundPlace]:
    """Yields all places of a molecule, kind by kind."""
    for (index,) in mol.GetSubstructMatches(pattern(_OPEN)):
        yield "hydrogen", _atom_name(mol.GetAtomWithIdx(index)), (index,)
    for (index,) in mol.GetSubstructMatches(pattern(_AZA)):
        yield "aromatic nitrogen", "aromatic N", (index,)
    yield from _substituents(mol)
    for system in ring_systems(mol):
        yield "ring", _ring_name(mol, system), tuple(sorted(system))
    for left, inner, right in linker_paths(mol):  # bonds come before chains
        ends = [mol.GetAtomWithIdx(index) for index in (left, right)]
        if not inner:
            yield "bond", "-".join(sorted(end.GetSymbol() for end in ends)) + " bond", (left, right)
        elif all(end.IsInRing() or end.GetDegree() > 2 for end in ends):  # otherwise it is a piece of a longer chain
            yield "linker", _linker_name(mol, left, inner, right), (left, *inner, right)
    for (index,) in mol.GetSubstructMatches(pattern(_BRIDGE)):
        atom = mol.GetAtomWithIdx(index)
        where = "in ring" if atom.IsInRing() else "in chain"
        yield "bridge", f"{_atom_name(atom)} {where}", (index,)
    for left, right in mol.GetSubstructMatches(pattern("[cH;D2]:[cH;D2]")):
        yield "ring edge", "aromatic CH-CH", (left, right)


def _atom_name(atom: Any) -> str:
    """Returns the name of an atom with its hydrogens: `aromatic CH`, `=CH2`, `NH`, `O`."""
    n = atom.GetTotalNumHs()
    text = atom.GetSymbol()
    if n:
        text += "H" if n == 1 else f"H{n}"
    if atom.GetIsAromatic():
        return f"aromatic {text}"
    orders = {bond.GetBondType() for bond in atom.GetBonds()}
    if Chem.BondType.TRIPLE in orders:
        return f"alkyne {text}"
    return f"={text}" if Chem.BondType.DOUBLE in orders else text


def _substituents(mol: Any) -> Iterator[FoundPlace]:
    """Yields the groups of the table that have at most half of the heavy atoms, also those within larger groups."""
    half = mol.GetNumHeavyAtoms() // 2
    for bond in mol.GetBonds():
        if bond.IsInRing() or bond.GetBondType() != Chem.BondType.SINGLE:
            continue
        begin = bond.GetBeginAtomIdx()
        end = bond.GetEndAtomIdx()
        for bearer, first in ((begin, end), (end, begin)):
            group = connected_atoms(mol, first, barred=bearer)
            if len(group) > half:
                continue
            name = _group_names().get(_group_key(mol, group, first))
            if name is not None:
                yield "substituent", name, (bearer, first)


def _group_key(mol: Any, atoms: Iterable[int], root: int) -> str:
    """Returns the SMILES of a group, written from its first atom `root`."""
    return str(Chem.MolFragmentToSmiles(mol, atomsToUse=sorted(atoms), rootedAtAtom=root, isomericSmiles=False))


@cache
def _group_names() -> dict[str, str]:
    """Returns the names of the groups by `_group_key`."""
    names: dict[str, str] = {}
    for name, text in {**GROUPS, "iodo": "I"}.items():
        mol = Chem.MolFromSmiles(f"*{text}")
        names.setdefault(_group_key(mol, range(1, mol.GetNumAtoms()), 1), name)
    return names


def _ring_name(mol: Any, system: set[int]) -> str:
    """Returns the name in the table of a ring with its double-bonded atoms, or its number of atoms in words."""
    double_bonded = set()
    for index in system:
        for bond in mol.GetAtomWithIdx(index).GetBonds():
            if bond.GetBondType() == Chem.BondType.DOUBLE:
                double_bonded.add(bond.GetOtherAtomIdx(index))
    key = _skeleton(mol, system | double_bonded)
    return _skeleton_names().get(key, f"ring of {len(system)} atoms")


def _linker_name(mol: Any, left: int, inner: tuple[int, ...], right: int) -> str:
    """Returns the name of a linker in the table, or the symbols of its inner atoms."""
    substituents = set()
    for index in inner:
        for neighbour in mol.GetAtomWithIdx(index).GetNeighbors():
            substituents.add(neighbour.GetIdx())
    key = _skeleton(mol, {*inner, *substituents, left, right}, stars=(left, right))
    symbols = [mol.GetAtomWithIdx(index).GetSymbol() for index in inner]
    return _skeleton_names().get(key, f"linker {''.join(symbols)}")


@cache
def _skeleton_names() -> dict[str, str]:
    """Returns the names of rings and linkers by `_skeleton`."""
    mols = {name: Chem.MolFromSmiles(text) for name, text in (NAMED_RINGS | NAMED_LINKERS).items()}
    return {_skeleton(mol, range(mol.GetNumAtoms())): name for name, mol in mols.items()}


def _skeleton(mol: Any, atoms: Iterable[int], stars: tuple[int, ...] = ()) -> str:
    """Returns the SMILES of a part with its elements, charges and bonds only, since its hydrogens depend on its
    substituents. stars: atoms that are written as `*`."""
    part = Chem.RWMol()
    index = {}  # index in the part, by index in the molecule
    for old in sorted(atoms):
        atom = mol.GetAtomWithIdx(old)
        new = Chem.Atom(0 if old in stars else atom.GetAtomicNum())
        if old not in stars:
            new.SetFormalCharge(atom.GetFormalCharge())
            new.SetIsAromatic(atom.GetIsAromatic())
        new.SetNoImplicit(True)
        index[old] = part.AddAtom(new)
    for bond in mol.GetBonds():
        first = bond.GetBeginAtomIdx()
        second = bond.GetEndAtomIdx()
        if first in index and second in index and not {first, second} <= set(stars):
            part.AddBond(index[first], index[second], bond.GetBondType())
    return str(Chem.MolToSmiles(part))
