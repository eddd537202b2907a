"""Relaxation of a molecule on a molecular potential, and the potential as a surface for the conformer search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from ase.calculators.calculator import Calculator, all_changes
from ase.optimize import LBFGS

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.conformer_search_and_averages import FMAX, Surface
from sciagent_simulators.geometry_and_its_checks import Geometry, check, failure
from sciagent_simulators.molecular_potentials.molecular_potential_base_and_registry import (
    MolecularPotential,
    MolecularValues,
    Numbers,
    evaluated,
)

MAX_STEP = 0.1
"""Largest step of an atom, angstrom. A network is trusted near its training data only, so steps are short."""


@dataclass(frozen=True)
class RelaxedMolecule:
    """A molecule at a minimum of a potential."""

    geometry: Geometry
    values: MolecularValues
    steps: int
    """Evaluations of the potential, besides the first."""


class _GeometryCalculator(Calculator):  # type: ignore[misc]
    """A potential as ASE's optimisers ask for it. Positions come from the optimiser, all else from the geometry."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, potential: MolecularPotential, geometry: Geometry) -> None:
        super().__init__()
        self._potential = potential
        self._geometry = geometry
        self.values: MolecularValues | None = None

    def calculate(self, atoms: Any = None, properties: Any = None, system_changes: Any = all_changes) -> None:
        super().calculate(atoms, properties, system_changes)
        self.values = evaluated(self._potential, self._geometry.moved(atoms.positions))
        self.results = {"energy": self.values.energy, "forces": self.values.forces}


def relax_molecule(
    potential: MolecularPotential, geometry: Geometry, fmax: float = 0.02, max_steps: int = 500
) -> RelaxedMolecule:
    """Returns the geometry, relaxed until the largest force on an atom is below fmax (eV/angstrom), and its values.

    Raises SimulatorError refused (element, charge, radical, multiplicity), implausible (not_finite,
    overlapping_atoms) and not_converged (geometry_not_converged).
    """
    check(geometry)
    atoms = geometry.atoms
    calculator = _GeometryCalculator(potential, geometry)
    atoms.calc = calculator
    optimiser = LBFGS(atoms, logfile=None, maxstep=MAX_STEP)
    is_converged = bool(optimiser.run(fmax=fmax, steps=max_steps))
    relaxed = geometry.moved(atoms.positions)
    values = calculator.values
    assert values is not None  # the optimiser has asked for the forces
    if not is_converged:
        detail = f"largest force {values.fmax:.3f} eV/angstrom after {max_steps} steps; asked for {fmax}"
        raise failure(Reason.GEOMETRY_NOT_CONVERGED, detail, fmax=values.fmax)
    check(relaxed)
    return RelaxedMolecule(relaxed, values, steps=int(optimiser.nsteps))


def potential_energies(potential: MolecularPotential, geometries: Sequence[Geometry]) -> Numbers:
    """Returns energies, (n,), eV; infinite for a geometry that failed. Raises the first SimulatorError if all fail."""
    energies = np.full(len(geometries), np.inf)
    problems: list[SimulatorError] = []
    for index, geometry in enumerate(geometries):
        try:
            energies[index] = evaluated(potential, geometry).energy
        except SimulatorError as error:
            problems.append(error)
    if problems and len(problems) == len(geometries):
        raise problems[0]
    return energies


def potential_surface(potential: MolecularPotential, fmax: float = FMAX) -> Surface:
    """Returns the surface of a potential for the conformer search. fmax: of the relaxations, eV/angstrom."""

    def relax(geometry: Geometry) -> tuple[Geometry, MolecularValues]:
        relaxed = relax_molecule(potential, geometry, fmax=fmax)
        return relaxed.geometry, relaxed.values

    return Surface(energies=partial(potential_energies, potential), relax=relax)
