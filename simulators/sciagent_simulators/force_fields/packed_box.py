"""Molecules placed in a cubic box without overlaps, at a density below that of the liquid, from a seed.

Each molecule gets a random conformer, orientation and place, and is rejected while any of its atoms is nearer to a
placed one than a share of the sum of their van der Waals radii, counted through the walls of the box. Large kinds are
placed first. A relaxation and an equilibration at constant pressure have to follow.

Source: radii: Bondi, J. Phys. Chem. 68, 441 (1964); Rowland and Taylor, J. Phys. Chem. 100, 7384 (1996), hydrogen; as
RDKit has them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import failure

MAX_ATOMS = 30_000  # in a box
MAX_TRIALS = 100_000  # of all molecules of a box together; 160 microseconds each for 120 molecules of octane
MAX_LISTED = 200  # placed atoms that are compared one by one
NEAREST = 0.7  # smallest distance of two atoms of different molecules, in sums of their radii
DALTON_PER_CUBIC_NM = 1.66053906660e-3  # g/mL; atomic mass constant, CODATA 2018


@dataclass(frozen=True, eq=False)
class PackedKind:
    """Molecules of one kind that are to be placed."""

    numbers: tuple[int, ...]
    """n atomic numbers."""
    conformers: NDArray[np.float64]
    """c x n x 3, nm; each molecule gets one of them at random."""
    count: int
    """How many molecules."""

    def __post_init__(self) -> None:
        if self.conformers.ndim != 3 or self.conformers.shape[1:] != (len(self.numbers), 3) or not self.numbers:
            raise ValueError(f"conformers {self.conformers.shape}; expected conformers x {len(self.numbers)} x 3")
        if not len(self.conformers) or not np.isfinite(self.conformers).all():
            raise ValueError("no conformer, or a coordinate that is not finite")
        if self.count < 1:
            raise ValueError(f"{self.count} molecules")


def edge_at_density(masses: Sequence[float], counts: Sequence[int], density: float) -> float:
    """Returns the edge of the cubic box, nm, in which the molecules have this density, g/mL.

    masses: of one molecule of each kind, dalton. counts: molecules of each kind.
    """
    total = sum(mass * count for mass, count in zip(masses, counts, strict=True))
    if not (math.isfinite(density) and density > 0 and total > 0):
        raise ValueError(f"density {density} g/mL of {total} dalton")
    return float((total * DALTON_PER_CUBIC_NM / density) ** (1 / 3))


def pack(kinds: Sequence[PackedKind], edge: float, seed: int) -> NDArray[np.float64]:
    """Returns positions, N x 3 in nm, of all molecules in the order of the kinds; centres lie in the box [0, edge).

    Molecules stay whole, so that atoms may lie beyond a wall. The same arguments give the same positions.
    Raises SimulatorError refused (too_large) for too many atoms, and implausible (overlapping_atoms) when a molecule
    finds no place: a lower density helps.
    """
    if not (math.isfinite(edge) and edge > 0):
        raise ValueError(f"edge {edge} nm")
    _check_size(kinds)
    random = np.random.default_rng(seed)
    starts = np.cumsum([0, *(kind.count * len(kind.numbers) for kind in kinds)])
    placed = _PlacedAtoms(edge)
    positions = np.empty((int(starts[-1]), 3))
    order = sorted(range(len(kinds)), key=lambda place: -len(kinds[place].numbers))
    for place in order:
        kind = kinds[place]
        radii = _radii(kind.numbers)
        n = len(kind.numbers)
        for copy in range(kind.count):
            coordinates = _placed_molecule(kind, radii, placed, random)
            placed.add(coordinates, radii)
            first = int(starts[place]) + copy * n
            positions[first : first + n] = coordinates
    return positions


def random_rotation(random: np.random.Generator) -> NDArray[np.float64]:
    """Returns a uniformly distributed rotation matrix, 3 x 3, from a random unit quaternion."""
    w, x, y, z = _unit(random.normal(size=4))
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


class _PlacedAtoms:
    """The atoms that lie in the box already: most in one search tree for each radius, the last ones in a list."""

    def __init__(self, edge: float) -> None:
        self.edge = edge
        self.number = 0
        self.trials_left = MAX_TRIALS
        self._positions = np.empty((0, 3))
        self._radii = np.empty(0)
        self._in_trees = 0
        self._trees: list[tuple[float, Any]] = []

    def add(self, positions: NDArray[np.float64], radii: NDArray[np.float64]) -> None:
        """Adds the atoms of a molecule: n x 3 and n, nm."""
        wrapped = np.mod(positions, self.edge)
        wrapped[wrapped >= self.edge] = 0.0  # as a tiny negative number is rounded
        self._positions = np.concatenate([self._positions, wrapped])
        self._radii = np.concatenate([self._radii, radii])
        self.number += len(positions)
        if self.number - self._in_trees > MAX_LISTED:
            self._plant()

    def overlaps(self, positions: NDArray[np.float64], radii: NDArray[np.float64]) -> bool:
        """Whether an atom of these, n x 3 in nm, is too near to a placed one or its images."""
        self.trials_left -= 1
        listed = self._positions[self._in_trees :]
        shifts = positions[:, None] - listed[None]
        shifts -= self.edge * np.round(shifts / self.edge)
        nearest = NEAREST * (radii[:, None] + self._radii[None, self._in_trees :])
        if (np.einsum("ijk,ijk->ij", shifts, shifts) < nearest**2).any():
            return True
        wrapped = np.mod(positions, self.edge)
        for radius, tree in self._trees:
            limits = NEAREST * (radii + radius)
            distances, _ = tree.query(wrapped, distance_upper_bound=float(limits.max()))
            if (distances < limits).any():
                return True
        return False

    def _plant(self) -> None:
        from scipy.spatial import cKDTree

        self._in_trees = self.number
        self._trees = []
        for radius in np.unique(self._radii):
            atoms = self._positions[self._radii == radius]
            self._trees.append((float(radius), cKDTree(atoms, boxsize=self.edge)))


def _placed_molecule(
    kind: PackedKind, radii: NDArray[np.float64], placed: _PlacedAtoms, random: np.random.Generator
) -> NDArray[np.float64]:
    """Returns the positions of a molecule, n x 3 in nm, that overlaps with no placed one."""
    while placed.trials_left > 0:
        shape = kind.conformers[random.integers(len(kind.conformers))]
        centred = shape - shape.mean(axis=0)
        centre = random.uniform(0, placed.edge, 3)
        coordinates: NDArray[np.float64] = centred @ random_rotation(random).T + centre
        if not placed.overlaps(coordinates, radii):
            return coordinates
    detail = f"no place for another molecule beside {placed.number} atoms in a box of {placed.edge:.3f} nm"
    raise failure(Reason.OVERLAPPING_ATOMS, f"{detail}: begin with a lower density")


def _check_size(kinds: Sequence[PackedKind]) -> None:
    n_atoms = sum(kind.count * len(kind.numbers) for kind in kinds)
    if not n_atoms:
        raise ValueError("no molecules")
    if n_atoms > MAX_ATOMS:
        raise SimulatorError(Outcome.REFUSED, Reason.TOO_LARGE, f"{n_atoms} atoms in the box; the limit is {MAX_ATOMS}")


def _radii(numbers: Sequence[int]) -> NDArray[np.float64]:
    """Returns van der Waals radii, nm."""
    from rdkit.Chem import GetPeriodicTable

    table = GetPeriodicTable()
    return np.array([table.GetRvdw(number) / 10 for number in numbers])


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled: NDArray[np.float64] = vector / np.linalg.norm(vector)
    return scaled
