"""Parameters of one molecule in a class-I force field, whichever program or file they came from.

The energy, in kJ/mol, is the sum of
    k/2 (r - r0)^2             over bonds,
    k/2 (theta - theta0)^2     over angles,
    k (1 + cos(n phi - phi0))  over terms of proper and improper torsions,
and, over pairs of atoms three bonds or more apart, 4 epsilon ((sigma/r)^12 - (sigma/r)^6) + q_i q_j / (4 pi eps0 r),
both scaled for pairs that are three bonds apart. Unlike atoms mix by Lorentz and Berthelot: the mean of sigma, the
geometric mean of epsilon.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

HYDROGEN = 1
MAX_CHARGE_ERROR = 1e-9
"""Elementary charges by which the partial charges of a molecule may differ from its formal charge."""


@dataclass(frozen=True)
class AtomParameters:
    """An atom, with its Lennard-Jones parameters."""

    number: int
    """Atomic number."""
    mass: float
    """Dalton."""
    sigma: float
    """nm."""
    epsilon: float
    """kJ/mol."""
    label: str
    """Name of the parameters in the force field, such as `n16` or `c3`."""


@dataclass(frozen=True)
class BondParameters:
    """A harmonic bond."""

    atoms: tuple[int, int]
    length: float
    """nm."""
    force_constant: float
    """kJ/mol/nm^2, of k/2 (r - r0)^2."""
    label: str


@dataclass(frozen=True)
class AngleParameters:
    """A harmonic angle."""

    atoms: tuple[int, int, int]
    """The second is the vertex."""
    angle: float
    """Radian."""
    force_constant: float
    """kJ/mol/rad^2, of k/2 (theta - theta0)^2."""
    label: str


@dataclass(frozen=True)
class TorsionParameters:
    """One cosine of a proper or an improper torsion; a torsion may have several."""

    atoms: tuple[int, int, int, int]
    """In the order that defines the dihedral angle."""
    periodicity: int
    phase: float
    """Radian."""
    barrier: float
    """kJ/mol; k of k (1 + cos(n phi - phi0))."""
    label: str
    is_improper: bool = False


@dataclass(frozen=True)
class ConstraintParameters:
    """A fixed distance between two atoms."""

    atoms: tuple[int, int]
    distance: float
    """nm."""
    label: str


@dataclass(frozen=True)
class NonbondedRules:
    """The rules for pairs of atoms with which the force field was fitted."""

    scale_coulomb: float
    """Factor of the Coulomb energy of atoms that are three bonds apart."""
    scale_lennard_jones: float
    """Factor of their Lennard-Jones energy."""
    cutoff: float
    """nm, of the Lennard-Jones energy in a periodic box, and of the direct sum of PME."""
    switch_width: float
    """nm below the cutoff in which the Lennard-Jones energy goes to 0 smoothly; 0 for a truncation."""


@dataclass(frozen=True)
class MoleculeParameters:
    """All parameters of a molecule of n atoms."""

    force_field: str
    """Name with version, such as `openff-2.2.1`."""
    atoms: tuple[AtomParameters, ...]
    """n atoms, in the order of the molecule."""
    charges: tuple[float, ...]
    """n partial charges, elementary charges."""
    bonds: tuple[BondParameters, ...]
    angles: tuple[AngleParameters, ...]
    torsions: tuple[TorsionParameters, ...]
    constraints: tuple[ConstraintParameters, ...]
    rules: NonbondedRules

    @property
    def mass(self) -> float:
        """Mass of the molecule, dalton."""
        return sum(atom.mass for atom in self.atoms)

    @property
    def bonded_pairs(self) -> list[tuple[int, int]]:
        """The bonds of the molecular graph."""
        return [bond.atoms for bond in self.bonds]

    def flexible(self) -> MoleculeParameters:
        """Returns the same parameters without constraints: every bond is a spring."""
        return replace(self, constraints=())

    def charged(self, charges: Sequence[float], formal_charge: int = 0) -> MoleculeParameters:
        """Returns the same parameters with other charges.

        Raises ValueError for another number of charges than of atoms, or another sum than the formal charge.
        """
        if len(charges) != len(self.atoms):
            raise ValueError(f"{len(charges)} charges for {len(self.atoms)} atoms")
        excess = sum(charges) - formal_charge
        if not abs(excess) <= MAX_CHARGE_ERROR * len(charges):
            raise ValueError(f"the charges add up to {sum(charges):.6f}; the molecule has {formal_charge}")
        return replace(self, charges=tuple(float(charge) for charge in charges))


def neighbours_of(n_atoms: int, bonds: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Returns the bonded atoms of each atom, in ascending order."""
    neighbours: list[list[int]] = [[] for _ in range(n_atoms)]
    for i, j in bonds:
        neighbours[i].append(j)
        neighbours[j].append(i)
    return [sorted(found) for found in neighbours]


def angles_of(neighbours: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    """Returns the angles of a molecular graph, each once: the vertex in the middle, the lower end first."""
    angles = []
    for vertex, ends in enumerate(neighbours):
        for place, first in enumerate(ends):
            angles += [(first, vertex, last) for last in ends[place + 1 :]]
    return angles


def proper_torsions_of(neighbours: Sequence[Sequence[int]]) -> list[tuple[int, int, int, int]]:
    """Returns the paths of four different bonded atoms, each once: the second has a lower number than the third."""
    torsions = []
    for second, others in enumerate(neighbours):
        for third in others:
            if second < third:
                torsions += _torsions_about(second, third, neighbours)
    return torsions


def _torsions_about(second: int, third: int, neighbours: Sequence[Sequence[int]]) -> list[tuple[int, int, int, int]]:
    """Returns the proper torsions about a bond; in a ring of three atoms both ends would be one atom."""
    torsions = []
    for first in neighbours[second]:
        for fourth in neighbours[third]:
            if first != third and fourth not in (second, first):
                torsions.append((first, second, third, fourth))
    return torsions
