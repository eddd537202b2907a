"""OpenMM systems of one kind of molecule, or of a solute in a solvent, from the parameters of the molecules.

A periodic system has PME and a Lennard-Jones energy that is cut off, or switched off, as the force field was fitted;
the energy beyond is added as a mean over the box (long-range dispersion correction). Without it densities of liquids
are 1 to 3 % too low. An isolated molecule has neither cutoff nor box.

Source: Eastman et al., J. Phys. Chem. B 128, 109 (2024), OpenMM 8; TIP3P: Jorgensen et al., J. Chem. Phys. 79, 926
(1983), as OpenMM's own file `tip3p.xml` has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.force_fields.molecule_parameters import (
    AngleParameters,
    AtomParameters,
    BondParameters,
    ConstraintParameters,
    MoleculeParameters,
    NonbondedRules,
    neighbours_of,
)

Array = NDArray[np.float64]

MAX_ATOMS = 100_000  # of a system
EWALD_TOLERANCE = 5e-4  # OpenMM's default: relative error of the forces
REMOVE_DRIFT_EVERY = 100  # steps; the motion of the centre of mass is set to zero
NO_SIGMA = 1.0
"""nm, given with an epsilon of 0, where sigma has no meaning."""


class Term(IntEnum):
    """Force groups of a system, so that the energy of each kind of term can be asked for."""

    BONDS = 0
    ANGLES = 1
    TORSIONS = 2
    NONBONDED = 3


@dataclass(frozen=True)
class Portion:
    """Molecules of one kind in a system."""

    parameters: MoleculeParameters
    number: int
    """How many; at least 1."""
    name: str = "MOL"
    """Residue name, at most four letters or digits."""

    def __post_init__(self) -> None:
        if self.number < 1:
            raise ValueError(f"{self.number} molecules of {self.name}")
        if not (self.name.isalnum() and self.name.isascii() and len(self.name) <= 4):
            raise ValueError(f"residue name {self.name!r}: at most four letters or digits")


@dataclass(frozen=True)
class SimulationBox:
    """An OpenMM system with its topology."""

    system: Any
    """The `openmm.System`: its forces have the groups of `Term`."""
    topology: Any
    """The `openmm.app.Topology`: one residue a molecule."""
    edge: float | None
    """Edge of the cubic box, nm; None for an isolated molecule."""


def build(portions: Sequence[Portion], edge: float | None, remove_drift: bool = True) -> SimulationBox:
    """Returns the system of these molecules, one kind after the other.

    Constraints are those of the parameters; a bond between constrained atoms has no spring. Pairs three bonds apart
    have the scales of their own molecule's force field; cutoff and switch are those of the first portion.
    edge: of the cubic box, nm; None for no box, which then has to hold a single molecule.
    remove_drift: whether the motion of the centre of mass of a box is removed.
    Raises SimulatorError refused (too_large, too_small), the latter for a box below two cutoffs.
    """
    import openmm

    _check(portions, edge)
    system = openmm.System()
    forces = _new_forces()
    first = 0
    for portion in portions:
        excluded = excluded_pairs(portion.parameters)
        for _ in range(portion.number):
            _add_molecule(system, forces, portion.parameters, first, excluded)
            first += len(portion.parameters.atoms)
    nonbonded = forces[Term.NONBONDED]
    if edge is None:
        nonbonded.setNonbondedMethod(openmm.NonbondedForce.NoCutoff)
    else:
        _set_periodic(system, nonbonded, portions[0].parameters.rules, edge)
    for term, force in forces.items():
        force.setForceGroup(int(term))
        system.addForce(force)
    if edge is not None and remove_drift:
        remover = openmm.CMMotionRemover(REMOVE_DRIFT_EVERY)
        system.addForce(remover)
    return SimulationBox(system, topology_of(portions, edge), edge)


def _check(portions: Sequence[Portion], edge: float | None) -> None:
    if not portions:
        raise ValueError("no molecules")
    n_atoms = sum(portion.number * len(portion.parameters.atoms) for portion in portions)
    if n_atoms > MAX_ATOMS:
        raise SimulatorError(Outcome.REFUSED, Reason.TOO_LARGE, f"{n_atoms} atoms; the limit is {MAX_ATOMS}")
    if edge is None:
        if len(portions) > 1 or portions[0].number > 1:
            raise ValueError("several molecules need a box")
        return
    cutoff = portions[0].parameters.rules.cutoff
    if not (math.isfinite(edge) and edge >= 2 * cutoff):
        detail = f"a box of {edge:.3f} nm is smaller than two cutoffs of {cutoff:g} nm: take more molecules"
        raise SimulatorError(Outcome.REFUSED, Reason.TOO_SMALL, detail)


def _new_forces() -> dict[Term, Any]:
    import openmm

    return {
        Term.BONDS: openmm.HarmonicBondForce(),
        Term.ANGLES: openmm.HarmonicAngleForce(),
        Term.TORSIONS: openmm.PeriodicTorsionForce(),
        Term.NONBONDED: openmm.NonbondedForce(),
    }


def _set_periodic(system: Any, nonbonded: Any, rules: NonbondedRules, edge: float) -> None:
    import openmm

    vectors = (openmm.Vec3(edge, 0, 0), openmm.Vec3(0, edge, 0), openmm.Vec3(0, 0, edge))
    system.setDefaultPeriodicBoxVectors(*vectors)
    nonbonded.setNonbondedMethod(openmm.NonbondedForce.PME)
    nonbonded.setCutoffDistance(rules.cutoff)
    nonbonded.setEwaldErrorTolerance(EWALD_TOLERANCE)
    nonbonded.setUseDispersionCorrection(True)
    if rules.switch_width:
        nonbonded.setUseSwitchingFunction(True)
        nonbonded.setSwitchingDistance(rules.cutoff - rules.switch_width)


def _add_molecule(
    system: Any,
    forces: dict[Term, Any],
    parameters: MoleculeParameters,
    first: int,
    excluded: tuple[set[tuple[int, int]], set[tuple[int, int]]],
) -> None:
    """Adds a molecule whose first atom gets the number `first`. excluded: as `excluded_pairs` returns them."""
    fixed = {_ordered(constraint.atoms) for constraint in parameters.constraints}
    for atom in parameters.atoms:
        system.addParticle(atom.mass)
    for constraint in parameters.constraints:
        i, j = constraint.atoms
        system.addConstraint(first + i, first + j, constraint.distance)
    for bond in parameters.bonds:
        if _ordered(bond.atoms) not in fixed:
            i, j = bond.atoms
            forces[Term.BONDS].addBond(first + i, first + j, bond.length, bond.force_constant)
    for angle in parameters.angles:
        i, j, k = angle.atoms
        is_fixed = fixed.issuperset({_ordered((i, j)), _ordered((j, k)), _ordered((i, k))})
        if not is_fixed:
            forces[Term.ANGLES].addAngle(first + i, first + j, first + k, angle.angle, angle.force_constant)
    for torsion in parameters.torsions:
        four = [first + atom for atom in torsion.atoms]
        forces[Term.TORSIONS].addTorsion(*four, torsion.periodicity, torsion.phase, torsion.barrier)
    _add_nonbonded(forces[Term.NONBONDED], parameters, first, excluded)


def _add_nonbonded(
    nonbonded: Any,
    parameters: MoleculeParameters,
    first: int,
    excluded: tuple[set[tuple[int, int]], set[tuple[int, int]]],
) -> None:
    atoms = parameters.atoms
    charges = parameters.charges
    for atom, charge in zip(atoms, charges, strict=True):
        nonbonded.addParticle(charge, atom.sigma, atom.epsilon)
    none, scaled = excluded
    for i, j in sorted(none):
        nonbonded.addException(first + i, first + j, 0.0, NO_SIGMA, 0.0)
    for i, j in sorted(scaled):
        product = parameters.rules.scale_coulomb * charges[i] * charges[j]
        sigma = (atoms[i].sigma + atoms[j].sigma) / 2
        epsilon = parameters.rules.scale_lennard_jones * math.sqrt(atoms[i].epsilon * atoms[j].epsilon)
        nonbonded.addException(first + i, first + j, product, sigma, epsilon)


def excluded_pairs(parameters: MoleculeParameters) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Returns the pairs one or two bonds apart, and those exactly three bonds apart; the lower atom is first."""
    neighbours = neighbours_of(len(parameters.atoms), parameters.bonded_pairs)
    near: set[tuple[int, int]] = set()
    third: set[tuple[int, int]] = set()
    for start in range(len(neighbours)):
        shells = [{start}]
        reached = {start}
        for _ in range(3):
            shell = {atom for inner in shells[-1] for atom in neighbours[inner]} - reached
            reached |= shell
            shells.append(shell)
        near |= {(start, atom) for atom in shells[1] | shells[2] if start < atom}
        third |= {(start, atom) for atom in shells[3] if start < atom}
    return near, third


def topology_of(portions: Sequence[Portion], edge: float | None) -> Any:
    """Returns the `openmm.app.Topology`, with a residue for each molecule and all bonds."""
    from openmm import Vec3
    from openmm.app import Element, Topology
    from openmm.unit import nanometer

    topology = Topology()
    chain = topology.addChain()
    for portion in portions:
        for _ in range(portion.number):
            residue = topology.addResidue(portion.name, chain)
            atoms = []
            for place, atom in enumerate(portion.parameters.atoms, start=1):
                element = Element.getByAtomicNumber(atom.number)
                atoms.append(topology.addAtom(f"{element.symbol}{place}", element, residue))
            for i, j in portion.parameters.bonded_pairs:
                topology.addBond(atoms[i], atoms[j])
    if edge is not None:
        topology.setUnitCellDimensions(Vec3(edge, edge, edge) * nanometer)
    return topology


@lru_cache(maxsize=8)
def openmm_water(file: str, rules: NonbondedRules) -> MoleculeParameters:
    """Returns rigid water by one of OpenMM's own files, such as `tip3p.xml`; its atoms are O, H, H.

    rules: those of the force field of the other molecules; water has no pairs three bonds apart.
    Raises OpenMM's ValueError for a water model with more sites than atoms.
    """
    from openmm.app import Element, ForceField, Topology

    topology = Topology()
    residue = topology.addResidue("HOH", topology.addChain())
    symbols = {"O": "O", "H1": "H", "H2": "H"}
    atoms = [topology.addAtom(name, Element.getBySymbol(symbol), residue) for name, symbol in symbols.items()]
    topology.addBond(atoms[0], atoms[1])
    topology.addBond(atoms[0], atoms[2])
    system = ForceField(file).createSystem(topology, rigidWater=False)
    rigid = ForceField(file).createSystem(topology, rigidWater=True)
    forces = {type(force).__name__: force for force in system.getForces()}
    sites = []
    charges = []
    for place, atom in enumerate(atoms):
        charge, sigma, epsilon = (_bare(value) for value in forces["NonbondedForce"].getParticleParameters(place))
        charges.append(charge)
        mass = _bare(system.getParticleMass(place))
        sites.append(AtomParameters(atom.element.atomic_number, mass, sigma, epsilon, atom.name))
    bonds = []
    for place in range(forces["HarmonicBondForce"].getNumBonds()):
        i, j, length, strength = forces["HarmonicBondForce"].getBondParameters(place)
        bonds.append(BondParameters((i, j), _bare(length), _bare(strength), "O-H"))
    i, j, k, angle, strength = forces["HarmonicAngleForce"].getAngleParameters(0)
    constraints = []
    for place in range(rigid.getNumConstraints()):
        first, second, distance = rigid.getConstraintParameters(place)
        constraints.append(ConstraintParameters((first, second), _bare(distance), "rigid water"))
    return MoleculeParameters(
        force_field=file.removesuffix(".xml"),
        atoms=tuple(sites),
        charges=tuple(charges),
        bonds=tuple(bonds),
        angles=(AngleParameters((i, j, k), _bare(angle), _bare(strength), "H-O-H"),),
        torsions=(),
        constraints=tuple(constraints),
        rules=rules,
    )


def rigid_water(parameters: MoleculeParameters) -> Array:
    """Returns the positions of a rigid water, 1 x 3 x 3, angstrom, from its constraints; its atoms are O, H, H."""
    lengths = {frozenset(constraint.atoms): 10 * constraint.distance for constraint in parameters.constraints}
    bond = lengths[frozenset((0, 1))]
    half = lengths[frozenset((1, 2))] / 2
    height = math.sqrt(bond**2 - half**2)
    return np.array([[[0.0, 0.0, 0.0], [half, height, 0.0], [-half, height, 0.0]]])


def _bare(quantity: Any) -> float:
    """Returns the number of an OpenMM quantity in OpenMM's own units: nm, kJ/mol, dalton, radian, e."""
    from openmm.unit import md_unit_system

    return float(quantity.value_in_unit_system(md_unit_system))


def _ordered(pair: tuple[int, int]) -> tuple[int, int]:
    return (min(pair), max(pair))
