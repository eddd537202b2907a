"""The structures that edits make, before they are rescaled and checked. All take pymatgen Structures and leave them.

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
# sums over these axes are even in every other cell
_HALVES = [numbers for numbers in itertools.product((0, 1), repeat=3) if any(numbers)]


def substituted(structure: Any, sites: Sequence[int], symbol: str) -> Any:
    """Returns the structure with an element on some of its sites."""
    changed = structure.copy()
    for site in sites:
        changed.replace(site, symbol)
    return changed


def half_substituted(structure: Any, element: str, symbol: str) -> Iterator[Any]:
    """Yields the structures in which every other cell along some lattice vectors has another element."""
    for numbers in _HALVES:
        double = structure.copy()
        double.make_supercell(_doubled(numbers), to_unit_cell=False)
        inverse = structure.lattice.inv_matrix
        for index, site in enumerate(double):
            if site.specie.symbol == element and _parity(site.coords @ inverse, structure, element, numbers):
                double.replace(index, symbol)
        yield double


def _doubled(numbers: Sequence[int]) -> list[list[int]]:
    """Returns lattice vectors, as rows, of the doubled cell whose translations have an even sum over these axes."""
    first_axis = list(numbers).index(1)
    vectors = []
    for axis in range(3):
        vector = [0, 0, 0]
        vector[axis] = 1
        if axis == first_axis:
            vector[axis] = 2
        elif numbers[axis]:
            vector[first_axis] = 1
        vectors.append(vector)
    return vectors


def _parity(position: Any, structure: Any, element: str, numbers: Sequence[int]) -> bool:
    """Returns whether a site lies in an odd cell of the original lattice."""
    import numpy as np

    own = [site.frac_coords for site in structure if site.specie.symbol == element]
    shifts = [position - one for one in own]
    shift = min(shifts, key=lambda vector: float(np.abs(vector - np.round(vector)).max()))
    return bool(int(np.dot(np.round(shift), numbers)) % 2)


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
        matrix = np.eye(3)
        matrix[SHEARS[kind]] = SHEAR
        matrix[SHEARS[kind][::-1]] = SHEAR
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
    """Returns a cubic perovskite in a cell of eight with its octahedra turned; None for any other structure."""
    import numpy as np

    parts = _octahedra(structure)
    if parts is None:
        return None
    centre, bridges = parts
    a = structure.lattice.a
    axes, phases = TILTS[kind]
    cell = structure.copy()
    cell.translate_sites(list(range(len(cell))), -cell[centre].frac_coords)
    cell.make_supercell(2)
    moves = {}
    for index, site in enumerate(cell):
        if site.specie.symbol != bridges:
            continue
        place = site.coords / a
        along = int(np.argmax(np.abs(place - np.round(place))))  # the bridge is half a cell away from its octahedra
        octahedron = np.round(place - 0.5 * np.eye(3)[along]).astype(int)
        turn = np.array([axes[k] * _sign(octahedron, k, phases[k]) for k in range(3)]) * math.tan(TILT_ANGLE)
        moves[index] = np.cross(turn, 0.5 * a * np.eye(3)[along])
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
    bridges = [symbol for symbol in set(symbols) if symbols.count(symbol) == 3]
    if len(symbols) != 5 or len(bridges) != 1:
        return None
    for index, site in enumerate(structure):
        near = structure.get_neighbors(site, 0.55 * structure.lattice.a)
        if sorted(one.specie.symbol for one in near) == bridges * 6:
            return index, bridges[0]
    return None
