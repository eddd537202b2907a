"""The molecules in the periodic box of a liquid: a pure one, or one molecule dissolved in water.

How many there are follows from the edge of the box that is aimed at and from a density that is estimated by the volumes
of the atoms. Atoms are in the order of the kinds of molecules, the solute first.

Source: Girolami, J. Chem. Educ. 71, 962 (1994), without its terms for hydrogen bonds and rings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.dynamics.structure_and_diffusion import BoxFrames
from sciagent_simulators.force_fields.molecule_parameters import MoleculeParameters
from sciagent_simulators.force_fields.openmm_system import Portion, build, openmm_water, rigid_water
from sciagent_simulators.force_fields.packed_box import PackedKind, edge_at_density, pack

Array = NDArray[np.float64]
Indices = NDArray[np.int_]

PACKED_SHARE = 0.6  # of the estimated density, at which the boxes are packed
RELATIVE_VOLUMES = ((2, 1.0), (9, 2.0), (17, 4.0), (35, 5.0), (53, 7.5))
"""(largest atomic number, volume of the atom), in units of 5 cm3/mol, by Girolami."""
WATER_FILE = "tip3p.xml"  # of OpenMM
WATER_NUMBERS = (8, 1, 1)
WATER_MASSES = (15.999, 1.008, 1.008)  # dalton


def estimated_density(numbers: Sequence[int], masses: Sequence[float]) -> float:
    """Returns an estimate of a liquid's density, g/mL, good to about 20 percent, from the atoms of a molecule.

    numbers: atomic numbers up to 53. masses: of the atoms, dalton."""
    return sum(masses) / (5 * _relative_volume(numbers))


def molecules_in(edge: float, numbers: Sequence[int], masses: Sequence[float]) -> int:
    """Returns the number of molecules, with these atoms, of a liquid of the estimated density in a box with this edge,
    angstrom."""
    return max(1, round((edge / _edge_of_one(numbers, masses)) ** 3))


def waters_beside(edge: float, numbers: Sequence[int], masses: Sequence[float]) -> int:
    """Returns the number of waters in a box with this edge, angstrom, beside one molecule with these atoms."""
    free = edge**3 - _edge_of_one(numbers, masses) ** 3
    return max(1, round(free / _edge_of_one(WATER_NUMBERS, WATER_MASSES) ** 3))


def _relative_volume(numbers: Sequence[int]) -> float:
    """Returns the volume of atoms in units of 5 cm3/mol."""
    volume = 0.0
    for number in numbers:
        volume += next(size for largest, size in RELATIVE_VOLUMES if number <= largest)
    return volume


def _edge_of_one(numbers: Sequence[int], masses: Sequence[float]) -> float:
    """Returns the edge of the cube that a molecule fills in a liquid of the estimated density, angstrom."""
    return edge_at_density([sum(masses)], [1], estimated_density(numbers, masses)) * 10


@dataclass(frozen=True, eq=False)
class MoleculesOfKind:
    """Molecules of one kind in a box."""

    parameters: MoleculeParameters
    conformers: Array
    """c x n x 3, angstrom, from which the box is packed."""
    count: int
    name: str = "MOL"
    """Residue name."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The n atomic numbers."""
        return tuple(atom.number for atom in self.parameters.atoms)

    @property
    def masses(self) -> tuple[float, ...]:
        """The n masses, dalton."""
        return tuple(atom.mass for atom in self.parameters.atoms)


@dataclass(frozen=True)
class AtomPairs:
    """The pairs of atoms whose distribution is taken, by their places in their molecules."""

    name: str
    """Such as `O-O`."""
    first: tuple[int, ...]
    """Atoms of a molecule of the first kind."""
    second: tuple[int, ...]
    """Atoms of a molecule of the last kind, which is the solvent in a solution."""


class LiquidBox:
    """The molecules of a cubic periodic box, N atoms in M molecules."""

    def __init__(self, kinds: Sequence[MoleculesOfKind]) -> None:
        """kinds: the candidate; in a solution the solvent after it."""
        self.kinds = tuple(kinds)
        self.molecules = sum(kind.count for kind in kinds)
        self.estimate = self._estimated_density()

    @property
    def is_pure(self) -> bool:
        """Whether all molecules are of one kind."""
        return len(self.kinds) == 1

    def _estimated_density(self) -> float:
        """Returns the estimated density, g/mL: that of a mean molecule."""
        shares = [kind.count / self.molecules for kind in self.kinds]
        mass = sum(share * sum(kind.masses) for share, kind in zip(shares, self.kinds, strict=True))
        volume = sum(share * _relative_volume(kind.numbers) for share, kind in zip(shares, self.kinds, strict=True))
        return mass / (5 * volume)

    @cached_property
    def masses(self) -> Array:
        """(N,), dalton."""
        return np.concatenate([np.tile(kind.masses, kind.count) for kind in self.kinds])

    @cached_property
    def molecule_masses(self) -> Array:
        """(M,), dalton."""
        return np.concatenate([np.full(kind.count, sum(kind.masses)) for kind in self.kinds])

    @cached_property
    def molecule_of_atom(self) -> Indices:
        """(N,) number of each atom's molecule, from 0."""
        sizes = np.concatenate([np.full(kind.count, len(kind.numbers)) for kind in self.kinds])
        return np.repeat(np.arange(self.molecules), sizes)

    @cached_property
    def elements(self) -> tuple[str, ...]:
        """N symbols."""
        from rdkit import Chem

        table = Chem.GetPeriodicTable()
        symbols: tuple[str, ...] = ()
        for kind in self.kinds:
            symbols += tuple(table.GetElementSymbol(number) for number in kind.numbers) * kind.count
        return symbols

    def edge_at(self, density: float) -> float:
        """Returns the edge of the box, angstrom, at a density, g/mL."""
        return 10 * self._edge_in_nm(density)

    def _edge_in_nm(self, density: float) -> float:
        masses = [sum(kind.masses) for kind in self.kinds]
        return edge_at_density(masses, [kind.count for kind in self.kinds], density)

    @cached_property
    def system(self) -> object:
        """The `openmm.System` at the estimated density."""
        portions = [Portion(kind.parameters, kind.count, kind.name) for kind in self.kinds]
        return build(portions, self._edge_in_nm(self.estimate)).system

    def packed(self, seed: int) -> tuple[Array, float]:
        """Returns positions, N x 3, without overlaps at a low density, and the edge of their box, angstrom.

        Raises SimulatorError as `pack`."""
        edge = self.edge_at(PACKED_SHARE * self.estimate)
        kinds = [PackedKind(kind.numbers, kind.conformers / 10, kind.count) for kind in self.kinds]
        return 10 * pack(kinds, edge / 10, seed), edge

    def scaled(self, positions: Array, factor: float) -> Array:
        """Returns positions, N x 3, after the box has grown by a factor: molecules that are whole are moved by their
        centres and keep their shapes."""
        moved: Array = positions.copy()
        begin = 0
        for kind in self.kinds:
            end = begin + kind.count * len(kind.masses)
            molecules = positions[begin:end].reshape(kind.count, len(kind.masses), 3)
            centres = np.average(molecules, axis=1, weights=kind.masses)
            moved[begin:end] = (molecules + (factor - 1) * centres[:, None]).reshape(-1, 3)
            begin = end
        return moved

    def frames(self, positions: Array, boxes: Array) -> BoxFrames:
        """Returns frames of the box. positions: f x N x 3; boxes: f x 3 edges; angstrom."""
        return BoxFrames(positions, boxes, self.elements, tuple(self.molecule_of_atom.tolist()))

    def atoms_at(self, places: Sequence[int], of_last: bool = False) -> list[int]:
        """Returns the numbers of all atoms that have these places in a molecule of the first kind, or of the last."""
        kind = self.kinds[-1 if of_last else 0]
        before = len(self.elements) - kind.count * len(kind.numbers) if of_last else 0
        starts = before + len(kind.numbers) * np.arange(kind.count)
        chosen: list[int] = np.add.outer(starts, np.array(places, dtype=int)).ravel().tolist()
        return chosen


def pure_liquid(parameters: MoleculeParameters, conformers: Array, edge: float) -> LiquidBox:
    """Returns a box of one kind of molecule. conformers: c x n x 3; edge: that is aimed at; angstrom."""
    counted = MoleculesOfKind(parameters, conformers, 1)
    return LiquidBox([MoleculesOfKind(parameters, conformers, molecules_in(edge, counted.numbers, counted.masses))])


def solution_in_water(parameters: MoleculeParameters, conformers: Array, edge: float) -> LiquidBox:
    """Returns a box of one molecule in TIP3P water. conformers: c x n x 3; edge: that is aimed at; angstrom."""
    solute = MoleculesOfKind(parameters, conformers, 1)
    water = openmm_water(WATER_FILE, parameters.rules)
    shape = rigid_water(water)
    return LiquidBox([solute, MoleculesOfKind(water, shape, waters_beside(edge, solute.numbers, solute.masses), "HOH")])
