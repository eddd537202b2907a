"""The places of a crystal that edits name, such as elements, orbits, cell and voids, and the bounds on the results.

Places are numbered from 1. Each child of an edit is checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from sciagent.chemistry.crystal import SYMPREC, Crystal, crystal_from_structure
from sciagent.chemistry.crystals.bonds import shortest_contact
from sciagent.chemistry.crystals.cell_building_scaling_and_symmetry import rescaled, symmetry_of
from sciagent.errors import InvalidCandidateError

PlaceKind = Literal["element", "orbit", "cell", "void"]
GRID = 12
"""Points along each lattice vector among which voids are looked for."""
SAME_POINT = 1e-3
"""Difference of fractional coordinates below which two points are one."""
MAX_VOIDS = 4
"""Largest number of voids that are named, the roomiest first."""
MIN_ROOM_SHARE = 0.6
"""Smallest distance of a void from the nearest atom, as a fraction of the distance of the roomiest void."""
MAX_VOID_SITES = 4
"""Largest number of symmetric copies of a void in the primitive cell."""


@dataclass(frozen=True)
class CrystalPlace:
    """One place of a crystal, or several that symmetry makes alike."""

    number: int
    """From 1: the elements, then the orbits, the cell and the voids."""
    kind: PlaceKind
    name: str
    """Name for people: `all I`, `Sn 1a`, `cell`, `void 3d`."""
    element: str = ""
    """Symbol of the element; empty for the cell and for voids."""
    wyckoff: str = ""
    """Wyckoff letter of an orbit; empty otherwise."""
    multiplicity: int = 0
    """Number of sites: of an orbit in the conventional cell, of an element or a void in the primitive one."""
    sites: tuple[int, ...] = ()
    """Indexes of the sites in the primitive cell."""
    positions: tuple[tuple[float, float, float], ...] = ()
    """Fractional coordinates of a void and its symmetric copies in the primitive cell."""


@lru_cache(maxsize=1024)
def sites(crystal: Crystal) -> tuple[CrystalPlace, ...]:
    """Returns the places of a crystal, by number."""
    others = places_without_voids(crystal)
    return others + _numbered(_voids(crystal), start=len(others) + 1)


@lru_cache(maxsize=1024)
def places_without_voids(crystal: Crystal) -> tuple[CrystalPlace, ...]:
    """Returns the places of a crystal without its voids, which take longer to find."""
    cell = CrystalPlace(number=0, kind="cell", name="cell")
    return _numbered([*_elements(crystal), *_orbits(crystal), cell], start=1)


def _numbered(found: Iterable[CrystalPlace], start: int) -> tuple[CrystalPlace, ...]:
    """Returns the places, which are made with the number 0, with their numbers."""
    return tuple(replace(place, number=number) for number, place in enumerate(found, start=start))


def _elements(crystal: Crystal) -> Iterator[CrystalPlace]:
    for symbol in sorted(set(crystal.species)):
        indexes = tuple(index for index, element in enumerate(crystal.species) if element == symbol)
        yield CrystalPlace(
            number=0, kind="element", name=f"all {symbol}", element=symbol, multiplicity=len(indexes), sites=indexes
        )


def _orbits(crystal: Crystal) -> Iterator[CrystalPlace]:
    symmetry = symmetry_of(crystal.structure, SYMPREC)
    if symmetry is None:
        return
    for orbit in symmetry.orbits:
        yield CrystalPlace(
            number=0,
            kind="orbit",
            name=f"{orbit.element} {orbit.multiplicity}{orbit.letter}",
            element=orbit.element,
            wyckoff=orbit.letter,
            multiplicity=orbit.multiplicity,
            sites=orbit.sites,
        )


def _voids(crystal: Crystal) -> Iterator[CrystalPlace]:
    """Yields the roomiest points of a grid with their symmetric copies; points of low symmetry are left out."""
    import numpy as np
    import spglib
    from pymatgen.util.coord import pbc_shortest_vectors

    structure = crystal.structure
    axis = np.arange(GRID) / GRID
    points = np.array(np.meshgrid(axis, axis, axis, indexing="ij")).reshape(3, -1).T
    _, squares = pbc_shortest_vectors(structure.lattice, points, structure.frac_coords, return_d2=True)
    room = np.sqrt(squares.min(axis=1))  # distance of each point from the nearest atom
    cell = (structure.lattice.matrix, structure.frac_coords, [site.specie.Z for site in structure])
    operations: Any = spglib.get_symmetry(cell, symprec=SYMPREC)
    is_free = np.ones(len(points), dtype=bool)  # whether a point is no image of an earlier one
    n_found = 0
    # rounded, so that points with equal room come in the order of the grid on every machine
    roomiest_first = np.lexsort((np.arange(len(room)), -np.round(room, 4)))
    for index in roomiest_first:
        if n_found == MAX_VOIDS or room[index] < MIN_ROOM_SHARE * room.max():
            return
        if not is_free[index]:
            continue
        images = _images(operations, points[index])
        for image in images:
            is_free &= ~_near(points, image)
        if len(images) <= MAX_VOID_SITES:
            n_found += 1
            yield CrystalPlace(
                number=0,
                kind="void",
                name=f"void x{len(images)}, {room[index]:.1f} Å",
                multiplicity=len(images),
                positions=tuple((float(x), float(y), float(z)) for x, y, z in images),
            )


def _images(operations: Any, point: Any) -> list[Any]:
    """Returns the distinct images of a point under the space group, in the primitive cell."""
    import numpy as np

    pairs = zip(operations["rotations"], operations["translations"], strict=True)
    remaining = np.array([(rotation @ point + translation) % 1.0 for rotation, translation in pairs])
    images: list[Any] = []
    while len(remaining):
        image = remaining[0]
        images.append(image)
        remaining = remaining[~_near(remaining, image)]
    return images


def _near(points: Any, other: Any) -> Any:
    """Returns which of the points lie at the point `other` or at its periodic copies. points: (n, 3), fractional."""
    import numpy as np

    differences = (points - other + 0.5) % 1.0 - 0.5  # modulo lattice translations
    return np.abs(differences).max(axis=1) < SAME_POINT


@dataclass(frozen=True)
class CrystalLimits:
    """Bounds on the crystals that edits may return."""

    elements: tuple[str, ...] | None = None
    """Allowed elements; None: all."""
    min_sites: int = 1
    max_sites: int = 60
    """Largest number of sites in the primitive cell."""
    min_elements: int = 1
    max_elements: int = 6
    min_contact: float = 0.6
    """Smallest distance of any two atoms over the sum of their radii, after the cell has been rescaled."""

    def allows(self, symbol: str) -> bool:
        """Returns whether an element is allowed."""
        return self.elements is None or symbol in self.elements


ANY = CrystalLimits()


def accepted(structure: Any, parent: Crystal, limits: CrystalLimits) -> Crystal | None:
    """Returns the crystal of an edited structure, rescaled; None if it is outside the limits or the same as its
    parent."""
    symbols = {site.specie.symbol for site in structure}
    if not limits.min_elements <= len(symbols) <= limits.max_elements:
        return None
    if not all(map(limits.allows, symbols)):
        return None
    try:
        scaled = rescaled(structure)
        if shortest_contact(scaled) < limits.min_contact:
            return None
        child = replace(crystal_from_structure(scaled), has_estimated_volume=True)
    except InvalidCandidateError:
        return None
    if not limits.min_sites <= child.n_atoms <= limits.max_sites or child == parent:
        return None
    return child
