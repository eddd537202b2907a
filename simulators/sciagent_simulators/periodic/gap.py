"""The band gap from eigenvalues on a mesh and along lines, by counting electrons: no Fermi level, no smearing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WHOLE = 0.02
"""The largest distance of electrons and moment of an insulator from whole numbers, in electrons or Bohr magnetons."""


@dataclass(frozen=True)
class BandSet:
    """Eigenvalues at some k-points."""

    points: NDArray[np.float64]
    """(k, 3), in units of the reciprocal vectors."""
    eigenvalues: NDArray[np.float64]
    """(spins, k, bands), eV, ascending in each row."""


@dataclass(frozen=True)
class Gap:
    """The fundamental gap of a crystal: lowest empty level minus highest occupied one, at any two k-points."""

    value: float
    """eV; 0 for a metal."""
    direct: float
    """Smallest difference at one k-point, eV; 0 for a metal."""
    valence_maximum: float | None = None
    """eV on GPAW's own scale; None for a metal."""
    valence_point: tuple[float, ...] = ()
    """k-point of the highest occupied level, in units of the reciprocal vectors; empty for a metal."""
    conduction_point: tuple[float, ...] = ()
    """k-point of the lowest empty level."""
    is_on_mesh: bool = False
    """Whether both are points of the mesh."""

    @property
    def is_metal(self) -> bool:
        return self.valence_maximum is None


METAL = Gap(0.0, 0.0)


def gap_of(sets: Sequence[BandSet], electrons: float, moment: float) -> Gap:
    """Returns the gap over all sets of k-points, of which the first is the mesh.

    electrons: valence electrons of the cell. moment: Bohr magnetons; it decides how many bands of each spin are filled.
    A crystal whose numbers of electrons of a spin are not whole, or whose filled and empty bands overlap, is a metal.
    Raises ValueError without lines beside the mesh, since its gap may be far too large, and for too few bands.
    """
    if not any(len(bands.points) for bands in sets[1:]):
        raise ValueError("a gap needs bands along lines, not a mesh alone")
    filled = [(electrons + sign * moment) / 2 for sign in (1, -1)]
    if any(abs(number - round(number)) > WHOLE for number in filled):
        return METAL
    occupied = [round(number) for number in filled]
    points = np.concatenate([bands.points for bands in sets])
    highest, lowest = _edges(sets, occupied)
    top, bottom = int(highest.argmax()), int(lowest.argmin())
    value = float(lowest[bottom] - highest[top])
    if value <= 0:
        return METAL
    places = [tuple(float(round(x, 6)) for x in points[k]) for k in (top, bottom)]
    on_mesh = max(top, bottom) < len(sets[0].points)
    return Gap(value, float((lowest - highest).min()), float(highest[top]), places[0], places[1], on_mesh)


def _edges(sets: Sequence[BandSet], occupied: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns (k,) the highest occupied and the lowest empty level of both spins at each point of all sets.

    occupied: numbers of filled bands by spin. Raises ValueError for too few bands."""
    n_points = sum(len(bands.points) for bands in sets)
    highest, lowest = np.full(n_points, -np.inf), np.full(n_points, np.inf)
    for spin, filled in enumerate(occupied[: len(sets[0].eigenvalues)]):
        rows = [row for bands in sets for row in bands.eigenvalues[spin]]
        if any(len(row) <= filled for row in rows):
            raise ValueError(f"{min(map(len, rows))} bands for {filled} filled ones of a spin")
        if filled > 0:
            highest = np.maximum(highest, [row[filled - 1] for row in rows])
        lowest = np.minimum(lowest, [row[filled] for row in rows])
    return highest, lowest
