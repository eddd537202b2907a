"""A solute whose interactions with its solvent are scaled: the OpenMM system, its states, and their energies.

State by state the solute's charges lose their interaction with the solvent, then its Lennard-Jones interactions do, by
a soft core. All interactions within the solute stay and have no cut-off, so the last state is the solvent and the
solute in a vacuum, and no leg in the gas is needed. The electrostatic interactions of the solute with its own periodic
images go with its charges; it has no Lennard-Jones interactions with them in any state.

The soft core is U = 4 epsilon s x (x - 1) with x = 1 / (0.5 (1 - s) + (r / sigma)^6), the plain energy at s = 1, and
finite at r = 0 for s < 1.

Source: soft core: Beutler et al., Chem. Phys. Lett. 222, 529 (1994). Long-range correction and interaction groups:
Eastman et al., J. Phys. Chem. B 128, 109 (2024), OpenMM 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.dynamics.openmm_chain import ANGSTROM, GAS_CONSTANT, platforms
from sciagent_simulators.force_fields.molecule_parameters import MoleculeParameters
from sciagent_simulators.force_fields.openmm_system import Portion, Term, build

Array = NDArray[np.float64]

CHARGES = "solute_charges"  # OpenMM's global parameter: factor of the solute's charges
STERICS = "solute_sterics"  # OpenMM's global parameter: s of the soft core
SOFT_CORE = (
    f"4*epsilon*{STERICS}*x*(x-1); x = 1/(0.5*(1-{STERICS})+(r/sigma)^6); "
    "sigma = 0.5*(sigma1+sigma2); epsilon = sqrt(epsilon1*epsilon2)"
)
SOFT_CORE_GROUP = 4  # OpenMM's force group of the soft core, beyond those of `Term`
CHARGE_SHARE = 0.3  # of the steps between states that scale the charges
MIN_STATES = 6


@dataclass(frozen=True)
class AlchemicalState:
    """The share of the interactions between solute and solvent that is left, 1 for all."""

    charges: float
    """Factor of the solute's charges."""
    sterics: float
    """s of the soft core."""


def states(number: int) -> tuple[AlchemicalState, ...]:
    """Returns evenly spaced states from the full solute to the one without interactions: first charges, then sterics.

    Raises ValueError for fewer than 6."""
    if number < MIN_STATES:
        raise ValueError(f"{number} states; {MIN_STATES} are needed at least")
    n_charges = max(2, round(CHARGE_SHARE * (number - 1)))
    n_sterics = number - 1 - n_charges
    charged = [AlchemicalState(1 - step / n_charges, 1.0) for step in range(n_charges)]
    uncharged = [AlchemicalState(0.0, 1 - step / n_sterics) for step in range(n_sterics + 1)]
    return (*charged, *uncharged)


def alchemical_system(
    solute: MoleculeParameters, solvent: MoleculeParameters, number: int, edge: float, state: AlchemicalState
) -> Any:
    """Returns the openmm.System of a solute, whose atoms come first, and of solvent molecules in a cubic box.

    number: of solvent molecules. edge: nm. state: the values of the system's parameters unless a context sets others.
    Raises SimulatorError refused (too_large, too_small) as `build`.
    """
    system = build([Portion(solute, 1), Portion(solvent, number)], edge).system
    nonbonded = system.getForce(int(Term.NONBONDED))
    n_solute = len(solute.atoms)
    soft = _soft_core(nonbonded, n_solute, state)
    _keep_inner_energy(nonbonded, n_solute)
    _scale_charges(nonbonded, n_solute, state)
    for place in range(nonbonded.getNumExceptions()):
        first, second, *_ = nonbonded.getExceptionParameters(place)
        soft.addExclusion(first, second)
    system.addForce(soft)
    return system


def _soft_core(nonbonded: Any, n_solute: int, state: AlchemicalState) -> Any:
    """Returns the Lennard-Jones force between solute and solvent, with the cut-off of the plain force."""
    import openmm

    force = openmm.CustomNonbondedForce(SOFT_CORE)
    force.addGlobalParameter(STERICS, state.sterics)
    force.addPerParticleParameter("sigma")
    force.addPerParticleParameter("epsilon")
    n_particles = nonbonded.getNumParticles()
    solvent_atoms = range(n_solute, n_particles)
    for place in range(n_particles):
        _, sigma, epsilon = nonbonded.getParticleParameters(place)
        force.addParticle([sigma, epsilon])
    # atoms without depth, such as the hydrogens of water, would give 0 times infinity where they meet the solute
    force.addInteractionGroup(*(_with_depth(nonbonded, atoms) for atoms in (range(n_solute), solvent_atoms)))
    force.setNonbondedMethod(openmm.CustomNonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(nonbonded.getCutoffDistance())
    force.setUseSwitchingFunction(nonbonded.getUseSwitchingFunction())
    force.setSwitchingDistance(nonbonded.getSwitchingDistance())
    force.setUseLongRangeCorrection(True)
    force.setForceGroup(SOFT_CORE_GROUP)
    return force


def _with_depth(nonbonded: Any, atoms: Iterable[int]) -> list[int]:
    """Returns those of the atoms that have a Lennard-Jones energy."""
    return [place for place in atoms if nonbonded.getParticleParameters(place)[2]._value > 0]


def _keep_inner_energy(nonbonded: Any, n_solute: int) -> None:
    """Makes every pair within the solute an exception with its plain energy, which the scaling does not touch."""
    excepted = set()
    for place in range(nonbonded.getNumExceptions()):
        first, second, *_ = nonbonded.getExceptionParameters(place)
        excepted.add((min(first, second), max(first, second)))
    parameters = [nonbonded.getParticleParameters(place) for place in range(n_solute)]
    for first in range(n_solute):
        for second in range(first + 1, n_solute):
            if (first, second) not in excepted:
                charge, sigma, epsilon = parameters[first]
                other_charge, other_sigma, other_epsilon = parameters[second]
                depth = math.sqrt(epsilon._value * other_epsilon._value)
                product = charge._value * other_charge._value
                nonbonded.addException(first, second, product, (sigma + other_sigma) / 2, depth)


def _scale_charges(nonbonded: Any, n_solute: int, state: AlchemicalState) -> None:
    """Makes the solute's charges those of the parameter, and takes its Lennard-Jones energy out of the plain force."""
    nonbonded.addGlobalParameter(CHARGES, state.charges)
    for place in range(n_solute):
        charge, sigma, _ = nonbonded.getParticleParameters(place)
        nonbonded.setParticleParameters(place, 0.0, sigma, 0.0)
        if charge._value:
            nonbonded.addParticleParameterOffset(CHARGES, place, charge, 0.0, 0.0)


def _no_share(share: float) -> None:
    """Ignores a share of the work that is done."""


def reduced_potentials(
    system: Any,
    positions: Array,
    boxes: Array,
    listed: Sequence[AlchemicalState],
    temperature: float,
    threads: int = 1,
    platform: str | None = None,
    report: Callable[[float], None] = _no_share,
) -> Array:
    """Returns the potential energy of each state over kT at each frame, K x f.

    system: of `alchemical_system`. positions: f x n x 3, angstrom. boxes: f x 3, edges, angstrom. temperature: K.
    report: takes the share of the work that is done, after each frame. The work against the pressure is left out, since
    it is equal in all states of a frame.

    The soft core does not depend on the charges, nor the rest on s, so each is computed once for each of its values.
    """
    import openmm

    chosen, properties = next(platforms(platform, threads))
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), chosen, properties)
    charges = sorted({state.charges for state in listed})
    sterics = sorted({state.sterics for state in listed})
    parts = [(CHARGES, value, {int(term) for term in Term}) for value in charges]
    parts += [(STERICS, value, {SOFT_CORE_GROUP}) for value in sterics]
    energies = np.empty((len(parts), len(positions)))
    for row, (parameter, value, groups) in enumerate(parts):
        # a new parameter brings a new long-range correction, which is dear, so the frames are the inner loop
        context.setParameter(parameter, value)
        for column, (frame, edges) in enumerate(zip(positions, boxes, strict=True)):
            context.setPeriodicBoxVectors(*np.diag(edges * ANGSTROM))
            context.setPositions(frame * ANGSTROM)
            energies[row, column] = context.getState(energy=True, groups=groups).getPotentialEnergy()._value
            report((row * len(positions) + column + 1) / energies.size)
    rest = [energies[charges.index(state.charges)] for state in listed]
    soft = [energies[len(charges) + sterics.index(state.sterics)] for state in listed]
    reduced: Array = (np.array(rest) + np.array(soft)) / (GAS_CONSTANT * temperature)
    return reduced
