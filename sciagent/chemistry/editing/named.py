"""Edits by name: from a chemist's words ("put a fluoro on site 2") to the molecules that result.

Nothing is random here: an edit, its group and a site give all children, in a fixed order. They obey the same valence
rules and limits as the children of the search, and a few more: groups that a chemist would not draw, such as a fluorine
on nitrogen, are made only if the parent has them.

    add substituent fluoro       benzene    -> fluorobenzene
    replace substituent cyano    toluene    -> benzonitrile
    swap ring pyridine           toluene    -> 2-, 3- and 4-picoline
    insert linker ether          biphenyl   -> diphenyl ether
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from sciagent.chemistry.editing import joins
from sciagent.chemistry.editing.edits import ANY, EditLimits, accepted, canonical, reaction
from sciagent.chemistry.editing.parts import pattern
from sciagent.chemistry.editing.sites import GROUPS, Kind, Site, sites_of
from sciagent.chemistry.editing.tables import ANNELATIONS, NAMED_LINKERS, NAMED_RINGS
from sciagent.chemistry.rdkit_log import rdkit_messages

ATOMS: dict[str, str] = {"CH2": "C", "NH": "N", "oxygen": "O", "sulfur": "S"}
# patterns that a child may have only if its parent has them, in addition to `tables.NOT_A_CHILD`
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
class NamedEdit:
    """An edit that a model calls by name."""

    name: str
    kind: Kind
    """Kind of the sites that it edits."""
    whats: tuple[str, ...]
    """Names that may be given as `what`; empty if the edit needs none."""
    says: str
    build: Build
    by_group: bool = False
    """Whether `what` is the group at the site, not the inserted one."""

    def fits(self, site: Site) -> bool:
        return site.kind == self.kind and (self.name != "swap CH for N" or site.name == "aromatic CH")


def _fuse(mol: Any, place: tuple[int, ...], what: str) -> Iterator[Any]:
    for template in ANNELATIONS[what]:
        for (product,) in reaction(template).RunReactants((mol,), maxProducts=200):
            used = {a.GetIntProp("react_atom_idx") for a in product.GetAtoms() if a.HasProp("old_mapno")}
            if used == set(place):
                yield product


def _link(mol: Any, place: tuple[int, ...], what: str) -> Iterator[Any]:
    for turned in (False, True):
        yield joins.join(mol, place[0], place[1:-1], place[-1], NAMED_LINKERS[what], turned=turned)


def _swap_atom(mol: Any, place: tuple[int, ...], what: str) -> Iterator[Any]:
    """Yields the child, except CH2 for an aromatic bridge: it would break the aromatic ring."""
    if ATOMS[what] != "C" or not mol.GetAtomWithIdx(place[0]).GetIsAromatic():
        yield joins.change(mol, place[0], ATOMS[what])


_NEW_LINKERS = tuple(name for name in NAMED_LINKERS if name != "direct bond")
_ALL = (
    NamedEdit(
        "add substituent", "hydrogen", tuple(GROUPS), "a group in place of a hydrogen",
        lambda mol, place, what: [joins.put(mol, place[0], GROUPS[what])],
    ),
    NamedEdit(
        "replace substituent", "substituent", tuple(GROUPS), "another group in place of one that is there",
        lambda mol, place, what: [joins.exchange(mol, place[0], place[1], GROUPS[what])],
    ),
    NamedEdit(
        "remove substituent", "substituent", (*GROUPS, "iodo"), "a hydrogen in place of a group; what: that group",
        lambda mol, place, what: [joins.exchange(mol, place[0], place[1])], by_group=True,
    ),
    NamedEdit(
        "swap ring", "ring", tuple(NAMED_RINGS), "another ring in place of a whole ring system",
        lambda mol, place, what: joins.exchange_ring(mol, place, NAMED_RINGS[what]),
    ),
    NamedEdit(
        "fuse ring", "ring edge", tuple(ANNELATIONS), "an aromatic ring fused to an edge with two CH", _fuse
    ),
    NamedEdit("insert linker", "bond", _NEW_LINKERS, "a linker in a single bond between two parts", _link),
    NamedEdit("replace linker", "linker", tuple(NAMED_LINKERS), "another linker between two parts", _link),
    NamedEdit(
        "swap CH for N", "hydrogen", (), "a ring nitrogen in place of an aromatic CH",
        lambda mol, place, what: [joins.change(mol, place[0], "N")],
    ),
    NamedEdit(
        "swap N for CH", "aromatic nitrogen", (), "an aromatic CH in place of a ring nitrogen",
        lambda mol, place, what: [joins.change(mol, place[0], "C")],
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
    return _prepared(smiles)[1]


def choices(smiles: str, edit: str, what: str | None = None, site: int | None = None) -> list[tuple[str, Site]]:
    """Returns all pairs of (what, site) that the edit may try; what is empty if there is no choice.

    Raises KeyError for an unknown edit, ValueError for an invalid SMILES.
    """
    named = NAMED_EDITS[edit]
    where = [s for s in sites(smiles) if named.fits(s) and site in (None, s.number)]
    if named.by_group:
        return [(s.name, s) for s in where if what in (None, s.name)]
    whats = [what or ""] if what or not named.whats else named.whats
    return [(chosen, s) for s in where for chosen in whats]


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
        products = {
            accepted(child, (mol,), bounded)
            for chosen, where in choices(smiles, edit, what, site)
            for place in where.places
            for child in NAMED_EDITS[edit].build(mol, place, chosen)
        }
    return sorted(text for text in products if text is not None)


@lru_cache(maxsize=512)
def _prepared(smiles: str) -> tuple[Any, tuple[Site, ...]]:
    mol = canonical(smiles)
    if mol is None:
        raise ValueError(f"no molecule: {smiles!a}")
    return mol, sites_of(mol)
