"""The structures that edits make, before they are rescaled and checked. No function changes the pymatgen Structure that
it takes.

Displacements are in units of the cube root of the volume per atom, so that an edit before and after a change of volume
gives one structure. Source: Glazer, Acta Cryst. B 28, 3384 (1972), tilts of octahedra.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

POLAR_SHIFT = 0.08
"""Displacement of a polar shift, in cube roots of the volume per atom; titanium in PbTiO3 moves by 0.13."""
STRAINS = {
    "longer x": (1.05, 1, 1), "longer y": (1, 1.05, 1), "longer z": (1, 1, 1.05),
    "shorter x": (0.95, 1, 1), "shorter y": (1, 0.95, 1), "shorter z": (1, 1, 0.95),
}  # fmt: skip
"""Stretches of the Cartesian axes."""
SHEARS = {"shear xy": (0, 1), "shear xz": (0, 2), "shear yz": (1, 2)}
"""The two Cartesian axes of each shear."""
SHEAR = 0.05
"""Size of a shear: the two off-diagonal elements of the deformation."""
DIRECTIONS = {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1), "xy": (1, 1, 0), "xyz": (1, 1, 1)}
TILT_ANGLE = math.radians(10)
TILTS: dict[str, tuple[tuple[float, float, float], tuple[int, int, int]]] = {
    "a0a0c+": ((0, 0, 1), (0, 0, 1)),
    "a0a0c-": ((0, 0, 1), (0, 0, -1)),
    "a0b-b-": ((0, 1, 1), (0, -1, -1)),
    "a-a-a-": ((1, 1, 1), (-1, -1, -1)),
    "a+a+a+": ((1, 1, 1), (1, 1, 1)),
    "a+b-b-": ((1, 1, 1), (1, -1, -1)),
}
"""By Glazer's symbol: rotations about x, y and z in units of the angle, and whether neighbours along an axis turn alike
(1) or opposite (-1)."""
# ways to choose every other cell: the sum of a cell's numbers along the axes that are marked 1 is even or odd
_HALVES = [marks for marks in itertools.product((0, 1), repeat=3) if any(marks)]


def substituted(structure: Any, sites: Sequence[int], symbol: str) -> Any:
    """Returns the structure with an element on some of its sites."""
    changed = structure.copy()
    for site in sites:
        changed.replace(site, symbol)
    return changed


def half_substituted(structure: Any, element: str, symbol: str) -> Iterator[Any]:
    """Yields the structures in which every other cell along some lattice vectors has another element."""
    for marks in _HALVES:
        double = structure.copy()
        double.make_supercell(_doubled(marks), to_unit_cell=False)
        inverse = structure.lattice.inv_matrix
        for index, site in enumerate(double):
            if site.specie.symbol == element and _is_in_odd_cell(site.coords @ inverse, structure, element, marks):
                double.replace(index, symbol)
        yield double


def _doubled(marks: Sequence[int]) -> list[list[int]]:
    """Returns the lattice vectors, as rows, of the doubled cell. Its translations have an even sum along the axes that
    are marked 1."""
    first_axis = list(marks).index(1)
    vectors = []
    for axis in range(3):
        vector = [0, 0, 0]
        vector[axis] = 1
        if axis == first_axis:
            vector[axis] = 2
        elif marks[axis]:
            vector[first_axis] = 1
        vectors.append(vector)
    return vectors


def _is_in_odd_cell(position: Any, structure: Any, element: str, marks: Sequence[int]) -> bool:
    """Returns whether a site of an element lies in an odd cell of the original lattice. position: in its lattice
    vectors. marks: as in `_HALVES`."""
    import numpy as np

    shifts = [position - site.frac_coords for site in structure if site.specie.symbol == element]
    # the site is a copy of the one from which it is a whole number of lattice vectors away
    shift = min(shifts, key=lambda vector: float(np.abs(vector - np.round(vector)).max()))
    return bool(int(np.dot(np.round(shift), marks)) % 2)


def swapped(structure: Any, first: Sequence[int], second: Sequence[int]) -> Any:
    """Returns the structure in which two sets of sites exchange their elements."""
    first_symbol = structure[first[0]].specie.symbol
    second_symbol = structure[second[0]].specie.symbol
    changed = substituted(structure, first, second_symbol)
    return substituted(changed, second, first_symbol)


def strained(structure: Any, kind: str) -> Any:
    """Returns the structure with another shape of its cell, along the Cartesian axes of the standard cell."""
    import numpy as np
    from pymatgen.core import Lattice, Structure

    if kind in STRAINS:
        matrix = np.diag(STRAINS[kind]).astype(float)
    else:
        first, second = SHEARS[kind]
        matrix = np.eye(3)
        matrix[first, second] = SHEAR
        matrix[second, first] = SHEAR
    return Structure(Lattice(structure.lattice.matrix @ matrix), structure.species, structure.frac_coords)


def shifted(structure: Any, sites: Sequence[int], direction: str) -> Any:
    """Returns the structure with some of its sites moved along a Cartesian direction."""
    import numpy as np

    moved = structure.copy()
    vector = np.array(DIRECTIONS[direction], dtype=float)
    vector *= POLAR_SHIFT * (structure.volume / len(structure)) ** (1 / 3) / np.linalg.norm(vector)
    moved.translate_sites(list(sites), vector, frac_coords=False)
    return moved


def without(structure: Any, sites: Sequence[int]) -> Any:
    """Returns the structure without some of its sites."""
    changed = structure.copy()
    changed.remove_sites(list(sites))
    return changed


def with_atoms(structure: Any, symbol: str, positions: Sequence[Sequence[float]]) -> Any:
    """Returns the structure with atoms of an element at fractional coordinates."""
    changed = structure.copy()
    for position in positions:
        changed.append(symbol, position)
    return changed


def tilted(structure: Any, kind: str) -> Any:
    """Returns a cubic perovskite with its octahedra turned, in a cell of 2 x 2 x 2; None for any other structure."""
    import numpy as np

    centre_and_bridge = _octahedra(structure)
    if centre_and_bridge is None:
        return None
    centre, bridge = centre_and_bridge
    a = structure.lattice.a
    axes, phases = TILTS[kind]
    cell = structure.copy()
    cell.translate_sites(list(range(len(cell))), -cell[centre].frac_coords)  # the centre becomes the origin
    cell.make_supercell(2)
    moves = {}  # displacements of the corners that bridge two octahedra, by site
    for index, site in enumerate(cell):
        if site.specie.symbol != bridge:
            continue
        place = site.coords / a
        along = int(np.argmax(np.abs(place - np.round(place))))  # the bridge is half a cell away from its octahedra
        from_centre = 0.5 * np.eye(3)[along]
        octahedron = np.round(place - from_centre).astype(int)
        signed_axes = [axes[k] * _sign(octahedron, k, phases[k]) for k in range(3)]
        turn = np.array(signed_axes) * math.tan(TILT_ANGLE)
        moves[index] = np.cross(turn, a * from_centre)
    for index, move in moves.items():
        cell.translate_sites([index], move, frac_coords=False)
    return cell


def _sign(octahedron: Any, axis: int, phase: int) -> int:
    """Returns the direction in which an octahedron turns about an axis: neighbours across the axis turn oppositely."""
    n_steps = sum(int(octahedron[k]) for k in range(3) if k != axis)
    if phase < 0:  # neighbours along the axis turn oppositely, too
        n_steps += int(octahedron[axis])
    return -1 if n_steps % 2 else 1


def _octahedra(structure: Any) -> tuple[int, str] | None:
    """Returns the site at the centre of the octahedron and the symbol of its corners, in a cubic perovskite."""
    symbols = [site.specie.symbol for site in structure]
    threefold = [symbol for symbol in set(symbols) if symbols.count(symbol) == 3]  # the X of ABX3
    if len(symbols) != 5 or len(threefold) != 1:
        return None
    for index, site in enumerate(structure):
        near = structure.get_neighbors(site, 0.55 * structure.lattice.a)  # corners are half a cell away
        if sorted(neighbour.specie.symbol for neighbour in near) == threefold * 6:
            return index, threefold[0]
    return None
