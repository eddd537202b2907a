"""The states of a solute: at their ends the energies are those of plain systems; between, the soft core is finite."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sciagent_simulators.dynamics.alchemical_solute import (
    CHARGES,
    STERICS,
    AlchemicalState,
    alchemical_system,
    reduced_potentials,
    states,
)
from sciagent_simulators.dynamics.openmm_chain import GAS_CONSTANT
from sciagent_simulators.force_fields.molecule_parameters import MoleculeParameters
from sciagent_simulators.force_fields.openmm_system import Portion, build, openmm_water, rigid_water
from sciagent_simulators.force_fields.packed_box import PackedKind, pack
from sciagent_simulators.force_fields.parametrise import parametrise

EDGE = 1.9  # nm
WATERS = 120
FULL = AlchemicalState(1.0, 1.0)
NONE = AlchemicalState(0.0, 0.0)
BUTANOL_CHARGES = (-0.1, -0.1, -0.08, 0.12, -0.6, *[0.04] * 7, 0.03, 0.03, 0.02, 0.02, 0.38)
"""The charges come from no charge model; what counts is that pairs four bonds apart have charges."""


def butanol(folder: Path) -> tuple[MoleculeParameters, np.ndarray[Any, Any]]:
    """Returns 1-butanol, in which atoms are up to six bonds apart, and its positions, 1 x 15 x 3, nm."""
    from rdkit import Chem
    from rdkit.Chem import rdDistGeom

    molecule = Chem.AddHs(Chem.MolFromSmiles("CCCCO"))
    rdDistGeom.EmbedMolecule(molecule, randomSeed=7)
    charges = np.array(BUTANOL_CHARGES[: molecule.GetNumAtoms()])
    charges -= charges.mean()
    parameters = parametrise(molecule, "openff-2.2.1", folder, 1, charges.tolist())
    return parameters, molecule.GetConformer().GetPositions()[None] / 10


def energy(system: Any, positions: Any, state: AlchemicalState | None = None) -> float:
    """Returns the potential energy, kJ/mol, on OpenMM's Reference platform. positions: nm."""
    import openmm

    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    if state is not None:
        context.setParameter(CHARGES, state.charges)
        context.setParameter(STERICS, state.sterics)
    context.setPositions(positions)
    return float(context.getState(energy=True).getPotentialEnergy()._value)


def without_tail(system: Any) -> Any:
    """Returns the system after its long-range corrections are taken off."""
    for force in system.getForces():
        if hasattr(force, "setUseDispersionCorrection"):
            force.setUseDispersionCorrection(False)
        if hasattr(force, "setUseLongRangeCorrection"):
            force.setUseLongRangeCorrection(False)
    return system


def test_the_ends_have_the_energies_of_the_plain_systems(tmp_path: Path) -> None:
    solute, conformers = butanol(tmp_path / "butanol")
    water = openmm_water("tip3p.xml", solute.rules)
    kinds = [
        PackedKind(tuple(atom.number for atom in solute.atoms), conformers, 1),
        PackedKind((8, 1, 1), rigid_water(water) / 10, WATERS),
    ]
    positions = pack(kinds, EDGE, 3)
    n_solute = len(solute.atoms)
    system = alchemical_system(solute, water, WATERS, EDGE, FULL)
    plain = build([Portion(solute, 1), Portion(water, WATERS)], EDGE).system
    with_tail = energy(plain, positions) - energy(system, positions)
    # the plain tail counts the solute's atoms with their own images, too
    whole = energy(without_tail(plain), positions)
    alone = build([Portion(solute, 1)], EDGE).system
    own_tail = energy(alone, positions[:n_solute]) - energy(without_tail(alone), positions[:n_solute])
    assert with_tail == pytest.approx(own_tail, rel=0.1)
    assert abs(own_tail) < 0.1, "kJ/mol"
    system = without_tail(system)
    assert energy(system, positions) == pytest.approx(whole, rel=1e-6)
    apart = energy(without_tail(build([Portion(water, WATERS)], EDGE).system), positions[n_solute:])
    apart += energy(build([Portion(solute, 1)], None).system, positions[:n_solute])
    assert energy(system, positions, NONE) == pytest.approx(apart, rel=1e-6)
    assert abs(whole - apart) > 1, "the solute and its solvent do interact"
    reduced = reduced_potentials(
        system, 10 * positions[None], np.full((1, 3), 10 * EDGE), (FULL, NONE), 300.0, platform="Reference"
    )
    assert reduced[:, 0] * GAS_CONSTANT * 300 == pytest.approx([whole, apart], rel=1e-6)


def test_atoms_on_one_place_have_a_finite_energy_but_for_the_full_solute(tmp_path: Path) -> None:
    solute, conformers = butanol(tmp_path / "butanol")
    water = openmm_water("tip3p.xml", solute.rules)
    system = alchemical_system(solute, water, 1, EDGE, FULL)
    far = rigid_water(water)[0] / 10 + 0.9
    on_carbon = rigid_water(water)[0] / 10 + conformers[0, 1] + 0.01
    at_rest = np.concatenate([conformers[0], far])
    overlapping = np.concatenate([conformers[0], on_carbon])
    half = AlchemicalState(0.0, 0.5)
    assert energy(system, overlapping, FULL) - energy(system, at_rest, FULL) > 1e6
    assert 0 < energy(system, overlapping, half) - energy(system, at_rest, half) < 1000


def test_states_run_from_all_interactions_to_none() -> None:
    listed = states(16)
    assert len(listed) == 16 and listed[0] == FULL and listed[-1] == NONE
    for one, other in itertools.pairwise(listed):
        assert (one.charges > other.charges) != (one.sterics > other.sterics), "one at a time"
        assert one.sterics == 1.0 or one.charges == 0.0, "no bare charges"
    assert AlchemicalState(0.0, 1.0) in listed
    assert math.isclose(sum(state.charges for state in states(6)), 1.5)
    with pytest.raises(ValueError, match="6 are needed"):
        states(5)
