"""Edits of crystals by name, and the moves of a search, which draw among them.

Substitutes of an element are weighted by how often known compounds of one structure exchange their ions. An ion is only
exchanged for one of the same charge. Where the charge is unknown or unlisted, as in an alloy, all charges of the
element count.

Source: Hautier et al., Inorg. Chem. 50, 656 (2011); the weights are those of pymatgen-core.

    substitute Cs Rb            perovskite CsSnI3   -> RbSnI3
    substitute half Sn Ge                           -> Cs2SnGeI6
    change prototype ilmenite                       -> CsSnI3 as ilmenite
    tilt a0a0c-                                     -> the tetragonal phase

Nothing is random in `children`: an edit, what it takes and a place give all children, in a fixed order. Each child has
the volume of its radii (`scaling`), so that two routes to one crystal give one key.
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

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals import moves
from sciagent.chemistry.crystals.contacts import is_metal
from sciagent.chemistry.crystals.places import ANY, CrystalLimits, CrystalPlace, PlaceKind, accepted, places, sites
from sciagent.chemistry.crystals.prototypes import assignment_of, built, prototypes

_ION = re.compile(r"([A-Z][a-z]?)(\d*)([+-])")
_DATA = "structure_prediction/data/lambda.json"


def substitutes(crystal: Crystal, symbol: str) -> Mapping[str, float]:
    """Returns weights of the elements that replace an element of a crystal, the heaviest first; the sum is 1."""
    counts = {one: crystal.species.count(one) for one in crystal.species}
    assignment = None if all(map(is_metal, counts)) else assignment_of(counts)
    state = assignment.states[symbol] if assignment else 0.0
    charge = int(state) if state and state == int(state) else None
    others = frozenset(counts) - {symbol}
    return _species_weights(symbol, charge, others) or _species_weights(symbol, None, others)


@lru_cache(maxsize=4096)
def _species_weights(symbol: str, charge: int | None, others: frozenset[str]) -> Mapping[str, float]:
    weights: defaultdict[str, float] = defaultdict(float)
    for (first, second, ion_charge), weight in _exchanges().items():
        if first == symbol and second != symbol and second not in others and charge in (None, ion_charge):
            weights[second] += weight
    total = sum(weights.values())
    return {name: weights[name] / total for name in sorted(weights, key=lambda name: (-weights[name], name))}


@cache
def _exchanges() -> Mapping[tuple[str, str, int], float]:
    """Returns exp(lambda) of pairs of ions of one charge, in both directions, as (symbol, other symbol, charge)."""
    spec = importlib.util.find_spec("pymatgen.core")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pymatgen.core")
    rows = json.loads((Path(spec.origin).parent / _DATA).read_text(encoding="utf-8"))
    found: dict[tuple[str, str, int], float] = {}
    for first, second, weight in rows:
        ions = _ion(first), _ion(second)
        if None in ions or ions[0][1] != ions[1][1]:  # type: ignore[index]
            continue
        (a, charge), (b, _) = ions  # type: ignore[misc]
        found[a, b, charge] = math.exp(float(weight))
        found[b, a, charge] = found[a, b, charge]
    return found


def _ion(text: str) -> tuple[str, int] | None:
    """Returns the element and the charge of `Na1+`; None for other texts, such as dummy ions."""
    known = _ION.fullmatch(text)
    return (known[1], int(known[2] or 1) * (1 if known[3] == "+" else -1)) if known else None


TRIES = 12
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
Options = Callable[[Crystal, CrystalPlace], Mapping[str, float]]


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

    def fits(self, place: CrystalPlace) -> bool:
        """Returns whether the edit applies to places of this kind."""
        return place.kind == self.kind


def _partners(crystal: Crystal, place: CrystalPlace) -> Mapping[str, float]:
    """Returns the likeliest substitutes; none for an orbit that holds all of its element, which is a place itself."""
    if place.kind == "orbit" and len(place.sites) == crystal.species.count(place.element):
        return {}
    weights = substitutes(crystal, place.element)
    return dict(itertools.islice(weights.items(), LIKELY))


def _others(crystal: Crystal, place: CrystalPlace) -> Mapping[str, float]:
    """Returns the numbers of the orbits with another element, as text."""
    return {
        str(other.number): 2.0 if other.multiplicity == place.multiplicity else 1.0
        for other in places(crystal)
        if other.kind == "orbit" and other.number > place.number and other.element != place.element
    }


def _swap(crystal: Crystal, place: CrystalPlace, what: str) -> Iterator[Any]:
    other = next((p for p in places(crystal) if p.kind == "orbit" and str(p.number) == what), None)
    if other is not None and other.element != place.element:
        yield moves.swapped(crystal.structure, place.sites, other.sites)


def _types(crystal: Crystal, place: CrystalPlace) -> Mapping[str, float]:
    counts = [crystal.species.count(symbol) for symbol in sorted(set(crystal.species))]
    return {
        name: 1.0
        for name, prototype in prototypes().items()
        if any(prototype.fits(ordered) for ordered in set(itertools.permutations(counts)))
    }


def _decorations(crystal: Crystal, place: CrystalPlace, what: str) -> Iterator[Any]:
    prototype = prototypes()[what]
    for elements in itertools.permutations(sorted(set(crystal.species))):
        if prototype.fits([crystal.species.count(symbol) for symbol in elements]):
            yield built(prototype, dict(zip(prototype.order, elements, strict=True)))


def _removable(crystal: Crystal, place: CrystalPlace) -> Mapping[str, float]:
    return {"": 1.0} if len(place.sites) < crystal.n_atoms else {}


def _fillings(crystal: Crystal, place: CrystalPlace) -> Mapping[str, float]:
    """Returns the elements of the crystal and small ones that are often found in voids."""
    return dict.fromkeys([*sorted(set(crystal.species)), "H", "Li", "Na", "Mg", "O", "F"], 1.0)


def _even(names: Iterable[str]) -> Options:
    weights = dict.fromkeys(names, 1.0)
    return lambda crystal, place: weights


_STRAINS = (*moves.STRAINS, *moves.SHEARS)
_ALL = (
    CrystalEdit(
        "substitute", "element", ELEMENTS, "another element on all sites of one",
        lambda c, p, what: [moves.substituted(c.structure, p.sites, what)], _partners,
    ),
    CrystalEdit(
        "substitute orbit", "orbit", ELEMENTS, "another element on one orbit",
        lambda c, p, what: [moves.substituted(c.structure, p.sites, what)], _partners,
    ),
    CrystalEdit(
        "substitute half", "element", ELEMENTS, "another element in every other cell, ordered",
        lambda c, p, what: moves.half_substituted(c.structure, p.element, what), _partners,
    ),
    CrystalEdit(
        "change prototype", "cell", tuple(prototypes()), "the same elements in another structure type", _decorations,
        _types,
    ),
    CrystalEdit(
        "swap orbits", "orbit", (), "two orbits exchange their elements; what: number of the other", _swap, _others
    ),
    CrystalEdit(
        "strain", "cell", _STRAINS, "another shape of the cell",
        lambda c, p, what: [moves.strained(c.structure, what)], _even(_STRAINS),
    ),
    CrystalEdit(
        "tilt", "cell", tuple(moves.TILTS), "turned octahedra in a cubic perovskite, by Glazer's symbol",
        lambda c, p, what: [t for t in (moves.tilted(c.structure, what),) if t is not None], _even(moves.TILTS),
    ),
    CrystalEdit(
        "polar shift", "element", tuple(moves.DIRECTIONS), "all atoms of one element moved along a direction",
        lambda c, p, what: [moves.shifted(c.structure, p.sites, what)], _even(moves.DIRECTIONS),
    ),
    CrystalEdit(
        "remove orbit", "orbit", (), "an orbit left empty",
        lambda c, p, what: [moves.without(c.structure, p.sites)], _removable,
    ),
    CrystalEdit(
        "fill void", "void", ELEMENTS, "an element in a void and its symmetric copies",
        lambda c, p, what: [moves.with_atoms(c.structure, what, p.positions)], _fillings,
    ),
)  # fmt: skip
NAMED: Mapping[str, CrystalEdit] = {edit.name: edit for edit in _ALL}
OPERATIONS: tuple[str, ...] = tuple(NAMED)
SHARES: Mapping[str, float] = {
    "substitute": 6.0, "change prototype": 2.0, "substitute half": 1.0, "substitute orbit": 1.0, "tilt": 1.0,
    "swap orbits": 0.5, "strain": 0.5, "polar shift": 0.5, "remove orbit": 0.25, "fill void": 0.25,
}  # fmt: skip
"""Weights of the first draws of moves: those that keep a compound likely are drawn most."""


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
    known = sites(crystal) if edit.kind == "void" else places(crystal)
    for place in known:
        if edit.fits(place) and where in (None, place.number):
            if what is not None:
                yield what, place, 1.0
            else:
                yield from ((chosen, place, weight) for chosen, weight in edit.options(crystal, place).items())


def children(
    crystal: Crystal, edit: str, what: str | None = None, where: int | None = None, limits: CrystalLimits = ANY
) -> list[Crystal]:
    """Returns all children of an edit within the limits, in a fixed order; empty if the edit does not fit.

    Raises KeyError for an unknown edit.
    """
    found: dict[str, Crystal] = {}
    for chosen, place, _ in _weighted(crystal, NAMED[edit], what, where):
        for child in _made(crystal, NAMED[edit], chosen, place, limits):
            found.setdefault(child.key, child)
    return list(found.values())


def _made(
    crystal: Crystal, edit: CrystalEdit, what: str, place: CrystalPlace, limits: CrystalLimits
) -> Iterator[Crystal]:
    if (edit.whats and what not in edit.whats) or (edit.whats is ELEMENTS and not limits.allows(what)):
        return
    for structure in edit.build(crystal, place, what):
        if 0 < len(structure) <= _room(limits) and (child := accepted(structure, crystal, limits)) is not None:
            yield child


def _room(limits: CrystalLimits) -> int:
    """Returns the largest number of sites of a cell that may still reduce to one within the limits."""
    return min(500, 8 * limits.max_sites)


def edited(
    crystal: Crystal, edit: str, what: str | None, where: int | None, rng: random.Random, limits: CrystalLimits = ANY
) -> Crystal | None:
    """Returns one child of an edit; what the call leaves open is drawn. None if nothing fits in TRIES draws.

    Raises KeyError for an unknown edit.
    """
    options = list(_weighted(crystal, NAMED[edit], what, where))
    for _ in range(min(TRIES, 2 * len(options))):
        chosen, place, _ = rng.choices(options, [weight for *_, weight in options])[0]
        if made := list(_made(crystal, NAMED[edit], chosen, place, limits)):
            return rng.choice(made)
    return None


def mutate(
    crystal: Crystal, rng: random.Random, *, operations: Sequence[str] = OPERATIONS, limits: CrystalLimits = ANY
) -> tuple[Crystal, str] | None:
    """Returns a child of the crystal and the name of its operation, or None if nothing fits.

    operations: names to draw from, by SHARES. Raises KeyError for an unknown name.
    """
    weights = [SHARES[name] for name in operations]
    for _ in range(TRIES):
        name = rng.choices(operations, weights)[0]
        child = edited(crystal, name, None, None, rng, limits)
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
