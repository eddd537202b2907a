"""The k-points of a calculation, the elements that GPAW has data for, their open shells, and the errors of the mesh.

The k-points are an even mesh for the density, and lines between points of high symmetry. A mesh alone misses extrema:
the minimum of silicon's conduction band lies at 0.85 of the line from Gamma to X, on no mesh of 4, 6 or 8 points, which
gives a gap of 0.73 instead of 0.60 eV. In a cell with right angles the mesh is shifted by half a step, which gives a
better density from fewer points (SrTiO3: one point instead of four, and the gap 0.1 instead of 0.4 eV off). In other
cells a shift would break the symmetry, so that Gamma is on the mesh.

Sources: Monkhorst, Pack, Phys. Rev. B 13, 5188 (1976); the lines: Setyawan, Curtarolo, Comput. Mater. Sci. 49, 299
(2010), as ASE has them.

GPAW has PAW data for the elements in VALENCE, some with open shells. GPAW 22.8 of Debian (gpaw-setups 0.9.20000) lacks
the lanthanides; its other data are the same as in the package of PyPI.

The mesh leaves errors in energies and moments of metals, measured on a few of them. Energies: root mean squares over
Na, Al, Cu and Pd, two cells each, against 6 k-points per 1/angstrom (benchmarks/crystals/metals.json). Moments: root
mean squares of bcc iron with two cells against 4.5 k-points per 1/angstrom (benchmarks/crystals/README.md); no other
ferromagnet has been measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
LONG_CELL = 0.6  # 1/angstrom; along shorter reciprocal vectors a coarse mesh has one point
SLACK = 0.2  # points by which the density may be missed before the mesh grows
SAME_POINT = 1e-5  # largest difference between the coordinates of one k-point, in units of the reciprocal vectors
RIGHT_ANGLE_TOLERANCE = 1e-3  # degrees


@dataclass(frozen=True)
class Mesh:
    """A regular mesh of k-points."""

    size: tuple[int, ...]
    """Numbers of points along the three reciprocal vectors: 1 or even."""
    has_gamma: bool
    """Whether Gamma is one of the points; otherwise the mesh is shifted by half a step."""

    def has(self, point: Points) -> bool:
        """Returns whether the point is on the mesh. point: (3,), in units of the reciprocal vectors.

        A shifted mesh counts as having none of the points that are asked for, so that they are computed.
        """
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
    has_right_angles = bool(np.abs(lattice.angles() - 90).max() <= RIGHT_ANGLE_TOLERANCE)
    # a mesh with a single point along a vector is not shifted
    return Mesh(size, has_gamma=1 in size or not has_right_angles)


def _points(length: float, density: float) -> int:
    """Returns the number of points along a reciprocal vector of this length (1/angstrom): 1, or an even number."""
    min_points = 1 if length < LONG_CELL else 2
    number = max(min_points, math.ceil(length * density - SLACK))
    is_odd = number % 2 == 1
    return number + 1 if number > 1 and is_odd else number


def line_points(cell: Any, density: float, mesh: Mesh | None = None) -> Points:
    """Returns (n, 3) the points of the lines that are not on the mesh, each once, in units of the reciprocal vectors.

    cell: as in `mesh_of`. density: points per 1/angstrom; the ends of a line always belong to it. A point and its
    opposite count once, since they have the same levels.
    """
    from ase.cell import Cell

    point_by_key: dict[tuple[int, ...], Points] = {}
    for point in Cell.new(cell).bandpath(density=density).kpts:
        if mesh is not None and mesh.has(point):
            continue
        key = min(_rounded_point(point), _rounded_point(-point))
        point_by_key.setdefault(key, point)
    return np.array(list(point_by_key.values()), dtype=float).reshape(-1, 3)


def _rounded_point(point: Points) -> tuple[int, ...]:
    """Returns the point in the first cell of the reciprocal lattice, in whole steps of SAME_POINT."""
    steps_of_cell = round(1 / SAME_POINT)
    return tuple(int(x) for x in np.round(point / SAME_POINT) % steps_of_cell)


_VALENCE_TABLE = (
    "H:1 He:2 Li:1 Be:2 B:3 C:4 N:5 O:6 F:7 Ne:8 Na:7 Mg:10 Al:3 Si:4 P:5 S:6 Cl:7 Ar:8 K:9 Ca:10 Sc:11 Ti:12 V:13 "
    "Cr:6 Mn:15 Fe:8 Co:9 Ni:16 Cu:11 Zn:12 Ga:3 Ge:4 As:5 Se:6 Br:7 Kr:8 Rb:9 Sr:10 Y:11 Zr:12 Nb:13 Mo:14 Ru:16 "
    "Rh:15 Pd:16 Ag:17 Cd:12 In:13 Sn:14 Sb:15 Te:6 I:7 Xe:8 Cs:9 Ba:10 La:11 Ce:12 Pr:13 Nd:14 Pm:15 Sm:16 Eu:17 "
    "Gd:18 Tb:19 Dy:20 Ho:21 Er:22 Tm:23 Yb:24 Lu:25 Hf:12 Ta:13 W:14 Re:13 Os:14 Ir:15 Pt:16 Au:11 Hg:18 Tl:13 "
    "Pb:14 Bi:15 Rn:8"
)
_VALENCE_ENTRIES = [entry.split(":") for entry in _VALENCE_TABLE.split()]
VALENCE: Mapping[str, int] = {symbol: int(electrons) for symbol, electrons in _VALENCE_ENTRIES}
"""{element: valence electrons in the PAW data that GPAW ships, with semicore states}."""
SEMICORE: Mapping[str, int] = {
    **{"Cr": 14, "Fe": 16, "Co": 17, "Ni": 18, "Cu": 19, "Zn": 20, "Ga": 13, "Ge": 14},
    **{"Rh": 17, "Pd": 18, "Ag": 19, "Cd": 20},
    **{"Re": 15, "Os": 16, "Ir": 17, "Pt": 18, "Au": 19, "Hg": 20},
}
"""{element: valence electrons with one more shell than the shipped data have}. GPAW ships no such data, but its
generator has the parameters to make them."""
D_GROUPS = {
    **{symbol: 3 for symbol in ("Sc", "Y")},
    **{symbol: 4 for symbol in ("Ti", "Zr", "Hf")},
    **{symbol: 5 for symbol in ("V", "Nb", "Ta")},
    **{symbol: 6 for symbol in ("Cr", "Mo", "W")},
    **{symbol: 7 for symbol in ("Mn", "Tc", "Re")},
    **{symbol: 8 for symbol in ("Fe", "Ru", "Os")},
    **{symbol: 9 for symbol in ("Co", "Rh", "Ir")},
    **{symbol: 10 for symbol in ("Ni", "Pd", "Pt")},
    **{symbol: 11 for symbol in ("Cu", "Ag", "Au")},
}
"""{element of the d block: electrons beyond its noble gas, without a filled f shell}. Zinc's group is
left out, since its d shell is never open."""
LANTHANIDES = ("La", "Ce", "Pr", "Nd", "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho", "Er", "Tm", "Yb", "Lu")
LANTHANIDE_STATE = 3.0
"""Usual oxidation state of a lanthanide, also in alloys, where no states add up to zero."""
CLOSED_TOLERANCE = 1e-3  # electrons by which a closed shell may seem to be open, since states may be fractions


def in_gpaw_22_8(symbol: str) -> bool:
    """Returns whether GPAW 22.8, the version of Debian, has data for the element."""
    return symbol in VALENCE and symbol not in LANTHANIDES


def is_open(symbol: str, oxidation: float) -> bool:
    """Returns whether an atom in this oxidation state has a partly filled d or f shell."""
    if symbol in LANTHANIDES:
        electrons = LANTHANIDES.index(symbol) + 3 - oxidation  # lanthanum has 3 electrons beyond its noble gas
        full_shell = 14
    elif symbol in D_GROUPS:
        electrons = D_GROUPS[symbol] - oxidation
        full_shell = 10
    else:
        return False
    return CLOSED_TOLERANCE < electrons < full_shell - CLOSED_TOLERANCE


@lru_cache(maxsize=4096)
def open_shells(formula: str) -> tuple[str, ...]:
    """Returns the elements with open d or f shells in the oxidation states that the formula suggests.

    Without such states, as in elements and alloys, lanthanides count as ions of charge 3, and other atoms as neutral:
    most metals of the d block are open, and so are all lanthanides but lanthanum and lutetium.
    """
    from pymatgen.core import Composition

    composition = Composition(formula)
    symbols = [element.symbol for element in composition]
    if not any(symbol in D_GROUPS or symbol in LANTHANIDES for symbol in symbols):
        return ()
    guesses = composition.oxi_state_guesses() if len(symbols) > 1 else ()
    states = guesses[0] if guesses else {}
    open_elements = []
    for symbol in symbols:
        state = float(states.get(symbol, 0.0))
        if symbol in LANTHANIDES and not state:
            state = LANTHANIDE_STATE
        if is_open(symbol, state):
            open_elements.append(symbol)
    return tuple(open_elements)


ENERGY_ERRORS = {1.2: 0.19, 2.5: 0.026, 3.5: 0.015, 4.5: 0.007}
"""{density of the mesh, in k-points per 1/angstrom: error in eV per atom}."""
MOMENT_ERRORS = {2.5: 0.14, 3.5: 0.03}
"""{density of the mesh, in k-points per 1/angstrom: error in Bohr magnetons per magnetic atom}."""


def energy_error(mesh: float) -> float | None:
    """Returns the error of a metal's energy, eV per atom; None for a mesh coarser than all that were measured.

    mesh: k-points per 1/angstrom.
    """
    return _error_of_next_coarser(ENERGY_ERRORS, mesh)


def moment_error(mesh: float) -> float | None:
    """Returns the error of a metal's moment, Bohr magnetons per magnetic atom, as `energy_error` does."""
    return _error_of_next_coarser(MOMENT_ERRORS, mesh)


def _error_of_next_coarser(errors: Mapping[float, float], mesh: float) -> float | None:
    """Returns the error of the densest measured mesh that is not denser than this one; None if all are denser."""
    not_denser = [density for density in errors if density <= mesh]
    return errors[max(not_denser)] if not_denser else None
