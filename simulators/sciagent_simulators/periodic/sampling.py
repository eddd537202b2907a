"""The k-points of a calculation: an even mesh for the density, and the lines between points of high symmetry.

A mesh alone misses extrema: that of silicon's conduction band lies at 0.85 of the line from Gamma to X, on no mesh of
4, 6 or 8 points, which gives a gap of 0.73 instead of 0.60 eV. In a cell with right angles the mesh is shifted by half
a step, which gives a better density from fewer points (SrTiO3: one point instead of four, and the gap 0.1 instead of
0.4 eV off); in other cells a shift would break the symmetry, so that Gamma is on the mesh.

Sources: Monkhorst, Pack, Phys. Rev. B 13, 5188 (1976); the lines: Setyawan, Curtarolo, Comput. Mater. Sci. 49, 299
(2010), as ASE has them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
LONG_CELL = 0.6  # 1/angstrom; along shorter reciprocal vectors a coarse mesh has one point
SLACK = 0.2  # points by which the density may be missed before the mesh grows
SAME_POINT = 1e-5
RIGHT = 1e-3  # degrees


@dataclass(frozen=True)
class Mesh:
    """A regular mesh of k-points."""

    size: tuple[int, ...]
    """Numbers of points along the three reciprocal vectors: 1 or even."""
    has_gamma: bool
    """Whether Gamma is one of the points; otherwise the mesh is shifted by half a step."""

    def has(self, point: Points) -> bool:
        """Returns whether the point is on the mesh. point: (3,), in units of the reciprocal vectors."""
        steps = [x * n for x, n in zip(point, self.size, strict=True)]
        return self.has_gamma and all(abs(x - round(x)) < SAME_POINT for x in steps)


def mesh_of(cell: Any, density: float) -> Mesh:
    """Returns the mesh for a density of points per 1/angstrom, where reciprocal vectors include 2 pi.

    cell: ase.cell.Cell, or 3 x 3 vectors as rows, angstrom.
    """
    from ase.cell import Cell

    lattice = Cell.new(cell)
    lengths = 2 * np.pi * np.linalg.norm(np.asarray(lattice.reciprocal()), axis=1)
    size = tuple(_points(float(length), density) for length in lengths)
    return Mesh(size, has_gamma=1 in size or bool(np.abs(lattice.angles() - 90).max() > RIGHT))


def _points(length: float, density: float) -> int:
    least = 1 if length < LONG_CELL else 2
    number = max(least, math.ceil(length * density - SLACK))
    return number + 1 if number > 1 and number % 2 else number


def line_points(cell: Any, density: float, mesh: Mesh | None = None) -> Points:
    """Returns (n, 3) the points of the lines that are not on the mesh, each once, in units of the reciprocal vectors.

    cell: as in `mesh_of`. density: points per 1/angstrom; the ends of a line always belong to it. A point and its
    opposite count once, since they have the same levels.
    """
    from ase.cell import Cell

    found: dict[tuple[int, ...], Points] = {}
    for point in Cell.new(cell).bandpath(density=density).kpts:
        if mesh is not None and mesh.has(point):
            continue
        places = (
            tuple(int(x) for x in np.round(sign * point / SAME_POINT) % round(1 / SAME_POINT)) for sign in (1, -1)
        )
        found.setdefault(min(places), point)
    return np.array(list(found.values()), dtype=float).reshape(-1, 3)
