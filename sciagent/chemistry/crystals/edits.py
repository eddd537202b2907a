"""Edits of crystals by name, and the moves of a search, which draw among them.

Substitutes of an element are weighted by how often one ion takes the place of the other in known compounds of one
structure. An ion is only exchanged for one of the same charge. Where the charge is unknown or unlisted, as in an alloy,
all charges of the element count.

Source: Hautier et al., Inorg. Chem. 50, 656 (2011); the weights are those of pymatgen-core.

    substitute Cs Rb            perovskite CsSnI3   -> RbSnI3
    substitute half Sn Ge                           -> Cs2SnGeI6
    change prototype ilmenite                       -> CsSnI3 as ilmenite
    tilt a0a0c-                                     -> the tetragonal phase

Nothing is random in `children`: an edit, what it takes and a place give all children, in a fixed order. Each child has
the volume that follows from the radii of its atoms (`rescaled`), so that two routes to one crystal give one key.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from sciagent.chemistry.crystal import MAX_SITES, Crystal
from sciagent.chemistry.crystals import edit_operations
from sciagent.chemistry.crystals.bonds import is_metal
from sciagent.chemistry.crystals.editable_places import (
    ANY,
    CrystalLimits,
    CrystalPlace,
    PlaceKind,
    accepted,
    places_without_voids,
    sites,
)
from sciagent.chemistry.crystals.oxidation_states import assignment_of
from sciagent.chemistry.crystals.prototypes_and_same_structures import built, prototypes

_ION = re.compile(r"([A-Z][a-z]?)(\d*)([+-])")
_DATA = "structure_prediction/data/lambda.json"


def substitutes(crystal: Crystal, symbol: str) -> Mapping[str, float]:
    """Returns weights of the elements that replace an element of a crystal, the heaviest first; the sum is 1."""
    counts = {element: crystal.species.count(element) for element in crystal.species}
    is_alloy = all(map(is_metal, counts))
    assignment = None if is_alloy else assignment_of(counts)
    state = assignment.states[symbol] if assignment else 0.0
    is_whole_charge = state != 0 and state == int(state)
    others = frozenset(counts) - {symbol}
    weights: Mapping[str, float] = {}
    if is_whole_charge:
        weights = _species_weights(symbol, int(state), others)
    return weights or _species_weights(symbol, None, others)


@lru_cache(maxsize=4096)
def _species_weights(symbol: str, charge: int | None, others: frozenset[str]) -> Mapping[str, float]:
    """Returns weights of the substitutes of an ion, the heaviest first; empty if none is listed.

    charge: the ion's charge; None: any. others: the other elements of the crystal, which are no substitutes.
    """
    weights: defaultdict[str, float] = defaultdict(float)
    for (first, second, ion_charge), weight in _exchanges().items():
        if first == symbol and second != symbol and second not in others and charge in (None, ion_charge):
            weights[second] += weight
    total = sum(weights.values())
    return {name: weights[name] / total for name in sorted(weights, key=lambda name: (-weights[name], name))}


@cache
def _exchanges() -> Mapping[tuple[str, str, int], float]:
    """Returns the weights exp(lambda) with which ions of one charge replace each other, by (symbol, other symbol,
    charge), in both directions. lambda: from the data of pymatgen."""
    spec = importlib.util.find_spec("pymatgen.core")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pymatgen.core")
    rows = json.loads((Path(spec.origin).parent / _DATA).read_text(encoding="utf-8"))
    exchanges: dict[tuple[str, str, int], float] = {}
    for first, second, weight in rows:
        first_ion = _ion(first)
        second_ion = _ion(second)
        if first_ion is None or second_ion is None:
            continue
        first_symbol, charge = first_ion
        second_symbol, second_charge = second_ion
        if charge != second_charge:
            continue
        exchanges[first_symbol, second_symbol, charge] = math.exp(float(weight))
        exchanges[second_symbol, first_symbol, charge] = math.exp(float(weight))
    return exchanges


def _ion(text: str) -> tuple[str, int] | None:
    """Returns the element and the charge of `Na1+`; None for other texts, such as dummy ions."""
    ion = _ION.fullmatch(text)
    if ion is None:
        return None
    symbol, size, sign = ion.groups()
    charge = int(size or 1)
    return symbol, charge if sign == "+" else -charge


TRIES = 12
"""Number of draws before a search gives an edit up."""
LIKELY = 12
"""Number of the likeliest substitutes among which a search draws, by their weights."""
ELEMENTS: tuple[str, ...] = (
    "H", "Li", "Be", "B", "C", "N", "O", "F", "Na", "Mg", "Al", "Si", "P", "S", "Cl", "K", "Ca", "Sc", "Ti", "V", "Cr",
    "Mn", "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge", "As", "Se", "Br", "Rb", "Sr", "Y", "Zr", "Nb", "Mo", "Ru", "Rh",
    "Pd", "Ag", "Cd", "In", "Sn", "Sb", "Te", "I", "Cs", "Ba", "La", "Ce", "Pr", "Nd", "Sm", "Eu", "Gd", "Tb", "Dy",
    "Ho", "Er", "Tm", "Yb", "Lu", "Hf", "Ta", "W", "Re", "Os", "Ir", "Pt", "Au", "Hg", "Tl", "Pb", "Bi",
)  # fmt: skip
"""Elements that an edit may name: those with a stable isotope, and bismuth, without the noble gases."""
Build = Callable[[Crystal, CrystalPlace, str], Iterable[Any]]
"""Makes the structures of an edit from the crystal, the place and `what`."""
Options = Callable[[Crystal, CrystalPlace], Mapping[str, float]]
"""Returns the weights of what an edit may try at a place of the crystal."""


@dataclass(frozen=True)
class CrystalEdit:
    """An edit of a crystal that is called by name."""

    name: str
    kind: PlaceKind
    """Kind of the places that it edits."""
    whats: tuple[str, ...]
    """Names that may be given as `what`; empty if the edit needs none."""
    says: str
    """A few words on the effect of the edit."""
    build: Build
    options: Options
    """Weights of what is tried at a place if nothing is named."""
    doubles: bool = False
    """Whether a child with an element that is new to the crystal has twice the sites of its parent."""

    def fits(self, place: CrystalPlace) -> bool:
        """Returns whether the edit applies to places of this kind."""
        return place.kind == self.kind


def _likely_substitutes(crystal: Crystal, place: CrystalPlace) -> Mapping[str, float]:
    """Returns weights of the likeliest substitutes of the element at a place.

    There are none for an orbit that holds all sites of its element: the place of the whole element gives the same.
    """
    if place.kind == "orbit" and len(place.sites) == crystal.species.count(place.element):
        return {}
    weights = substitutes(crystal, place.element)
    return dict(itertools.islice(weights.items(), LIKELY))


def _later_orbits(crystal: Crystal, place: CrystalPlace) -> Mapping[str, float]:
    """Returns weights of the later orbits with another element, by their number as text. Orbits with as many sites as
    this one have double weight."""
    weights = {}
    for other in places_without_voids(crystal):
        if other.kind == "orbit" and other.number > place.number and other.element != place.element:
            weights[str(other.number)] = 2.0 if other.multiplicity == place.multiplicity else 1.0
    return weights


def _swap(crystal: Crystal, place: CrystalPlace, what: str) -> Iterator[Any]:
    """Yields the structure in which the orbit and the orbit number `what` exchange their elements."""
    for other in places_without_voids(crystal):
        if other.kind == "orbit" and str(other.number) == what and other.element != place.element:
            yield edit_operations.swapped(crystal.structure, place.sites, other.sites)
            return


def _tilted(crystal: Crystal, place: CrystalPlace, what: str) -> Iterator[Any]:
    """Yields the structure with turned octahedra; nothing if the crystal is no cubic perovskite."""
    structure = edit_operations.tilted(crystal.structure, what)
    if structure is not None:
        yield structure


def _fitting_prototypes(crystal: Crystal, place: CrystalPlace) -> Mapping[str, float]:
    """Returns weights of the prototypes that fit the formula of the crystal."""
    counts = [crystal.species.count(symbol) for symbol in sorted(set(crystal.species))]
    orders = set(itertools.permutations(counts))  # any element may take any place of the prototype
    weights = {}
    for name, prototype in prototypes().items():
        if any(prototype.fits(ordered) for ordered in orders):
            weights[name] = 1.0
    return weights


def _decorations(crystal: Crystal, place: CrystalPlace, what: str) -> Iterator[Any]:
    """Yields the structures of a prototype with the elements of the crystal, in each order that fits."""
    prototype = prototypes()[what]
    for elements in itertools.permutations(sorted(set(crystal.species))):
        if prototype.fits([crystal.species.count(symbol) for symbol in elements]):
            yield built(prototype, dict(zip(prototype.order, elements, strict=True)))


def _removable(crystal: Crystal, place: CrystalPlace) -> Mapping[str, float]:
    """Returns the weight of leaving the orbit empty; none if the crystal has no other atoms."""
    return {"": 1.0} if len(place.sites) < crystal.n_atoms else {}


def _fillings(crystal: Crystal, place: CrystalPlace) -> Mapping[str, float]:
    """Returns equal weights of the elements of the crystal and of small ones that are often found in voids."""
    return dict.fromkeys([*sorted(set(crystal.species)), "H", "Li", "Na", "Mg", "O", "F"], 1.0)


def _equal_weights(names: Iterable[str]) -> Options:
    """Returns options that give each name the same weight at every place."""
    weights = dict.fromkeys(names, 1.0)
    return lambda crystal, place: weights


_STRAINS = (*edit_operations.STRAINS, *edit_operations.SHEARS)
_ALL = (
    CrystalEdit(
        "substitute", "element", ELEMENTS, "another element on all sites of one",
        lambda crystal, place, what: [edit_operations.substituted(crystal.structure, place.sites, what)],
        _likely_substitutes,
    ),
    CrystalEdit(
        "substitute orbit", "orbit", ELEMENTS, "another element on one orbit",
        lambda crystal, place, what: [edit_operations.substituted(crystal.structure, place.sites, what)],
        _likely_substitutes,
    ),
    CrystalEdit(
        "substitute half", "element", ELEMENTS, "another element in every other cell, ordered",
        lambda crystal, place, what: edit_operations.half_substituted(crystal.structure, place.element, what),
        _likely_substitutes, doubles=True,
    ),
    CrystalEdit(
        "change prototype", "cell", tuple(prototypes()), "the same elements in another structure type", _decorations,
        _fitting_prototypes,
    ),
    CrystalEdit(
        "swap orbits", "orbit", (), "two orbits exchange their elements; what: number of the other", _swap,
        _later_orbits,
    ),
    CrystalEdit(
        "strain", "cell", _STRAINS, "another shape of the cell",
        lambda crystal, place, what: [edit_operations.strained(crystal.structure, what)],
        _equal_weights(_STRAINS),
    ),
    CrystalEdit(
        "tilt", "cell", tuple(edit_operations.TILTS), "turned octahedra in a cubic perovskite, by Glazer's symbol",
        _tilted,
        _equal_weights(edit_operations.TILTS),
    ),
    CrystalEdit(
        "polar shift", "element", tuple(edit_operations.DIRECTIONS), "all atoms of one element moved along a direction",
        lambda crystal, place, what: [edit_operations.shifted(crystal.structure, place.sites, what)],
        _equal_weights(edit_operations.DIRECTIONS),
    ),
    CrystalEdit(
        "remove orbit", "orbit", (), "an orbit left empty",
        lambda crystal, place, what: [edit_operations.without(crystal.structure, place.sites)],
        _removable,
    ),
    CrystalEdit(
        "fill void", "void", ELEMENTS, "an element in a void and its symmetric copies",
        lambda crystal, place, what: [edit_operations.with_atoms(crystal.structure, what, place.positions)],
        _fillings,
    ),
)  # fmt: skip
NAMED: Mapping[str, CrystalEdit] = {edit.name: edit for edit in _ALL}
OPERATIONS: tuple[str, ...] = tuple(NAMED)
SHARES: Mapping[str, float] = {
    "substitute": 6.0, "change prototype": 2.0, "substitute half": 1.0, "substitute orbit": 1.0, "tilt": 1.0,
    "swap orbits": 0.5, "strain": 0.5, "polar shift": 0.5, "remove orbit": 0.25, "fill void": 0.25,
}  # fmt: skip
"""Weights with which `mutate` draws edits: those after which a compound is likely to exist are drawn most."""


def choices(
    crystal: Crystal, edit: str, what: str | None = None, where: int | None = None
) -> list[tuple[str, CrystalPlace]]:
    """Returns all pairs of (what, place) that the edit may try; what is empty if the edit needs none.

    what: None tries the likely ones. where: number of a place; None: every place that fits. Raises KeyError for an
    unknown edit.
    """
    return [(chosen, place) for chosen, place, _ in _weighted(crystal, NAMED[edit], what, where)]


def _weighted(
    crystal: Crystal, edit: CrystalEdit, what: str | None, where: int | None
) -> Iterator[tuple[str, CrystalPlace, float]]:
    """Yields what may be tried at each place that fits, the place, and the weight. what, where: as in `choices`."""
    all_places = sites(crystal) if edit.kind == "void" else places_without_voids(crystal)
    for place in all_places:
        if not edit.fits(place) or where not in (None, place.number):
            continue
        options = edit.options(crystal, place) if what is None else {what: 1.0}
        for chosen, weight in options.items():
            yield chosen, place, weight


def children(
    crystal: Crystal, edit: str, what: str | None = None, where: int | None = None, limits: CrystalLimits = ANY
) -> list[Crystal]:
    """Returns all children of an edit within the limits, in a fixed order; empty if the edit does not fit.

    Raises KeyError for an unknown edit.
    """
    by_key: dict[str, Crystal] = {}
    for chosen, place, _ in _weighted(crystal, NAMED[edit], what, where):
        for child in _accepted_children(crystal, NAMED[edit], chosen, place, limits):
            by_key.setdefault(child.key, child)
    return list(by_key.values())


def _accepted_children(
    crystal: Crystal, edit: CrystalEdit, what: str, place: CrystalPlace, limits: CrystalLimits
) -> Iterator[Crystal]:
    """Yields the children within the limits of an edit at one place. what: as in `choices`."""
    if edit.whats and what not in edit.whats:
        return
    # with an element that is new to the crystal, no translation of the child is shorter than those of the doubled cell
    is_double = edit.doubles and what not in crystal.species
    if is_double and 2 * crystal.n_atoms > limits.max_sites:
        return
    names_an_element = edit.whats is ELEMENTS
    if names_an_element and not limits.allows(what):
        return
    for structure in edit.build(crystal, place, what):
        if not 0 < len(structure) <= _max_cell_sites(limits):
            continue
        child = accepted(structure, crystal, limits)
        if child is not None:
            yield child


def _max_cell_sites(limits: CrystalLimits) -> int:
    """Returns the largest number of sites of a cell that may still reduce to one within the limits. Edits enlarge a
    cell to 2 x 2 x 2 at most."""
    return min(MAX_SITES, 8 * limits.max_sites)


def edited(
    crystal: Crystal,
    edit: str,
    what: str | None,
    where: int | None,
    rng: random.Random,
    limits: CrystalLimits = ANY,
    barren: set[tuple[str, str, int]] | None = None,
) -> Crystal | None:
    """Returns one child of an edit; None if nothing fits in TRIES draws. If `what` or `where` is None, it is drawn.

    barren: the (edit, what, place) of the crystal that have no child; it grows, and its members are not built again.
    Raises KeyError for an unknown edit.
    """
    options = list(_weighted(crystal, NAMED[edit], what, where))
    weights = [weight for _, _, weight in options]
    barren = set() if barren is None else barren
    for _ in range(min(TRIES, 2 * len(options))):  # few options are not drawn again and again
        [(chosen, place, _)] = rng.choices(options, weights)
        if (edit, chosen, place.number) in barren:
            continue
        accepted_children = list(_accepted_children(crystal, NAMED[edit], chosen, place, limits))
        if accepted_children:
            return rng.choice(accepted_children)
        barren.add((edit, chosen, place.number))
    return None


def mutate(
    crystal: Crystal, rng: random.Random, *, operations: Sequence[str] = OPERATIONS, limits: CrystalLimits = ANY
) -> tuple[Crystal, str] | None:
    """Returns a child of the crystal and the name of its operation, or None if nothing fits.

    operations: names to draw from, by SHARES. Raises KeyError for an unknown name.
    """
    weights = [SHARES[name] for name in operations]
    barren: set[tuple[str, str, int]] = set()
    for _ in range(TRIES):
        [name] = rng.choices(operations, weights)
        child = edited(crystal, name, what=None, where=None, rng=rng, limits=limits, barren=barren)
        if child is not None:
            return child, name
    return None


__all__ = [
    "ANY",
    "NAMED",
    "OPERATIONS",
    "SHARES",
    "CrystalEdit",
    "CrystalLimits",
    "CrystalPlace",
    "children",
    "choices",
    "edited",
    "mutate",
    "sites",
]
