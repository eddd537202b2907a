"""Relaxation on a molecular potential, with springs of known length and GFN2-xTB in place of a network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.molecular_potentials.molecular_potential_base_and_registry import Domain, MolecularValues
from sciagent_simulators.molecular_potentials.relax_molecule import (
    potential_energies,
    potential_surface,
    relax_molecule,
)
from sciagent_simulators.potentials.potential_base_and_registry import EnergyScale

LENGTH = 0.74
STIFFNESS = 30.0
HYDROGEN = Domain(frozenset({"H"}), frozenset({0}), EnergyScale("spring", "none"))


@dataclass(frozen=True)
class Spring:
    """A potential of two hydrogen atoms: STIFFNESS / 2 (r - LENGTH)^2, eV."""

    domain: Domain = HYDROGEN

    def evaluate(self, geometry: Geometry) -> MolecularValues:
        vector = geometry.positions[1] - geometry.positions[0]
        distance = float(np.linalg.norm(vector))
        pull = STIFFNESS * (distance - LENGTH) * vector / distance
        return MolecularValues(0.5 * STIFFNESS * (distance - LENGTH) ** 2, np.array([pull, -pull]))


def hydrogen(distance: float) -> Geometry:
    return Geometry((1, 1), np.array([[0.0, 0.0, 0.0], [0.0, 0.0, distance]]))


def test_a_spring_relaxes_to_its_length() -> None:
    relaxed = relax_molecule(Spring(), hydrogen(0.9), fmax=1e-3)
    assert np.ptp(relaxed.geometry.positions[:, 2]) == pytest.approx(LENGTH, abs=1e-4)
    assert relaxed.values.energy == pytest.approx(0.0, abs=1e-6) and relaxed.steps > 0


def test_a_relaxation_that_does_not_end_is_an_error() -> None:
    with pytest.raises(SimulatorError, match="geometry_not_converged"):
        relax_molecule(Spring(), hydrogen(1.5), fmax=1e-6, max_steps=1)


def test_overlapping_atoms_never_reach_the_potential() -> None:
    with pytest.raises(SimulatorError, match="overlapping_atoms"):
        relax_molecule(Spring(), hydrogen(0.1))


def test_energies_leave_out_what_fails_and_raise_if_all_do() -> None:
    helium = Geometry((2, 2), hydrogen(1.0).positions)
    energies = potential_energies(Spring(), [hydrogen(0.84), helium])
    assert energies[0] == pytest.approx(0.5 * STIFFNESS * 0.01) and energies[1] == np.inf
    with pytest.raises(SimulatorError, match="element"):
        potential_energies(Spring(), [helium])


def test_a_surface_relaxes_and_ranks() -> None:
    surface = potential_surface(Spring(), fmax=1e-3)
    geometry, minimum = surface.relax(hydrogen(0.9))
    assert minimum.energy == pytest.approx(surface.energies([geometry])[0], abs=1e-9)
    assert minimum.dipole is None
