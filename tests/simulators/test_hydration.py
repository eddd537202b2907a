"""Solvation free energies: a particle in an ideal gas, whose value is an integral, and a run that was ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sciagent.errors import SimulatorError
from sciagent_simulators.dynamics import hydration
from sciagent_simulators.dynamics.alchemical_solute import alchemical_system, reduced_potentials, states
from sciagent_simulators.dynamics.hydration import HydrationProtocol, HydrationSimulation, rigid_water
from sciagent_simulators.force_fields.molecule_parameters import AtomParameters, MoleculeParameters, NonbondedRules
from sciagent_simulators.force_fields.openmm_system import openmm_water

Array = NDArray[np.float64]
RULES = NonbondedRules(scale_coulomb=0.5, scale_lennard_jones=0.5, cutoff=0.9, switch_width=0.1)
GAS = 8.31446261815324e-3  # kJ/(mol K), CODATA 2018
TEMPERATURE = 300.0
SIGMA = 0.4  # nm
EPSILON = 3.0  # kJ/mol, of the solute with an atom of the gas
EDGE = 22.0  # angstrom
ATOMS = 40


def particle(epsilon: float, number: int = 18, mass: float = 10.0) -> MoleculeParameters:
    """Returns a molecule of one atom without charge."""
    atoms = (AtomParameters(number, mass, SIGMA, epsilon, "LJ"),)
    return MoleculeParameters("toy", atoms, (0.0,), (), (), (), (), RULES)


def ideal_gas(folder: Path, n_states: int = 8, replicas: int = 2) -> HydrationSimulation:
    """A solute in atoms that do not feel each other: their epsilon is so small, and that of the solute so large."""
    protocol = HydrationProtocol(
        temperature=TEMPERATURE,
        pressure=None,
        edge=EDGE,
        states=states(n_states),
        start_chunks=1,
        equilibration_chunks=1,
        production_chunks=1,
        replicas=replicas,
        steps=50,
        time_step=0.005,
        frame_every=5,
        platform="CPU",
    )
    one = np.zeros((1, 1, 3))
    solute = particle(EPSILON**2 / 1e-6)
    density = ATOMS * 10.0 * 1.66053906660e-3 / (EDGE / 10) ** 3  # g/mL
    return HydrationSimulation(solute, one, particle(1e-6), one, protocol, folder, "ideal", density)


def pair_energy(r: Array, sterics: float) -> Array:
    """Returns the energy of the solute with an atom of the gas by the soft core, switched off at the end, kJ/mol."""
    x = 1 / (0.5 * (1 - sterics) + (r / SIGMA) ** 6)
    plain = 4 * EPSILON * sterics * x * (x - 1)
    t = np.clip((r - (RULES.cutoff - RULES.switch_width)) / RULES.switch_width, 0, 1)
    switched: Array = plain * (1 - 10 * t**3 + 15 * t**4 - 6 * t**5)  # OpenMM's switching function
    return np.where(r < RULES.cutoff, switched, 0.0)


def drawn(simulation: HydrationSimulation, sterics: float, n_frames: int, random: np.random.Generator) -> Array:
    """Returns frames of the gas around the solute in a state, f x n x 3, angstrom, each drawn on its own.

    The atoms do not feel each other, so each is drawn by rejection."""
    edge = simulation._packed_edge / 10
    thermal = GAS * TEMPERATURE
    deepest = float(pair_energy(np.linspace(1e-3, RULES.cutoff, 20_000), sterics).min())
    kept: list[Array] = []
    missing = n_frames * simulation.solvent_molecules
    while missing > 0:
        trials = random.uniform(-edge / 2, edge / 2, (200_000, 3))
        chances = np.exp((deepest - pair_energy(np.linalg.norm(trials, axis=1), sterics)) / thermal)
        kept.append(trials[random.uniform(size=len(trials)) < chances])
        missing -= len(kept[-1])
    atoms = np.concatenate(kept)[: n_frames * simulation.solvent_molecules]
    frames = atoms.reshape(n_frames, simulation.solvent_molecules, 3)
    return 10 * np.concatenate([np.zeros((n_frames, 1, 3)), frames], axis=1)


def exact_value(simulation: HydrationSimulation) -> float:
    """Returns - kT N ln(1 + integral of exp(-u / kT) - 1 over the box, over its volume), and the tail, kJ/mol."""
    n = simulation.solvent_molecules
    volume = (simulation._packed_edge / 10) ** 3
    r = np.linspace(1e-3, RULES.cutoff - 1e-9, 200_001)
    switched = pair_energy(r, 1.0)
    thermal = GAS * TEMPERATURE
    shells = 4 * math.pi * r**2 * (np.exp(-np.minimum(switched / thermal, 700)) - 1)
    value = -n * thermal * math.log1p(np.trapezoid(shells, r) / volume)
    plain = 4 * EPSILON * ((SIGMA / r) ** 12 - (SIGMA / r) ** 6)
    lost = 4 * math.pi * r**2 * np.where(r > RULES.cutoff - RULES.switch_width, plain - switched, 0.0)
    beyond = 4 * math.pi * 4 * EPSILON * (SIGMA**12 / (9 * RULES.cutoff**9) - SIGMA**6 / (3 * RULES.cutoff**3))
    return float(value + n / volume * (np.trapezoid(lost, r) + beyond))


def no_report(done: float, of: float, text: str) -> None:
    """Ignores a report."""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_particle_in_an_ideal_gas_has_the_value_of_the_integral(tmp_path: Path) -> None:
    """The frames are drawn without dynamics, so that they are independent; energies and MBAR are those of a run."""
    simulation = ideal_gas(tmp_path)
    listed = simulation.protocol.states
    edge = simulation._packed_edge
    random = np.random.default_rng(11)
    system = alchemical_system(simulation.solute, simulation.solvent, ATOMS, edge / 10, listed[0])
    potentials = []
    for _ in range(2):
        parts = []
        for state in listed:
            frames = drawn(simulation, state.sterics, 40, random)
            boxes = np.full((len(frames), 3), edge)
            parts.append(reduced_potentials(system, frames, boxes, listed, TEMPERATURE, platform="CPU"))
        potentials.append(parts)
    values = simulation.values(potentials)
    expected = exact_value(simulation)
    assert simulation.solvent_molecules == ATOMS and abs(expected) > 1
    assert values.uncertainty < 0.4
    assert values.free_energy == pytest.approx(expected, abs=4 * values.uncertainty)
    assert values.charges == pytest.approx(0.0, abs=1e-6), "it has no charges"
    assert values.scatter is not None and len(values.replicas) == 2
    assert values.uncertainty == max(values.scatter, values.mbar_uncertainty)
    assert values.smallest_overlap > 0.03 and values.samples == 2 * 8 * 40


class JobDiedError(Exception):
    """The end of a job in the middle of a chunk."""


def dying_after(chunks: float) -> Callable[[float, float, str], None]:
    def report(done: float, of: float, text: str) -> None:
        if done > chunks:
            raise JobDiedError

    return report


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_run_that_died_goes_on_to_the_same_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hydration, "independent_indices", lambda series: np.arange(len(series)))  # so few frames
    told: list[float] = []
    whole = ideal_gas(tmp_path / "whole", n_states=6, replicas=1).run(lambda done, of, text: told.append(done / of))
    assert told[-1] == 1.0 and told == sorted(told) and whole.samples == 6 * 10
    with pytest.raises(JobDiedError):
        ideal_gas(tmp_path / "died", n_states=6, replicas=1).run(dying_after(7.5))
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "died").rglob("*.zip")}
    assert len(files) == 7, "the box's two, a state's three, and two of the next"
    resumed = ideal_gas(tmp_path / "died", n_states=6, replicas=1).run(no_report)
    assert resumed.free_energy == whole.free_energy
    assert {file: file.stat().st_mtime_ns for file in files} == files, "what was done is not done again"


def test_a_solute_that_is_wider_than_the_forces_reach_is_refused(tmp_path: Path) -> None:
    one = np.zeros((1, 1, 3))
    wide = np.array([[[0.0, 0.0, 0.0], [9.0, 0.0, 0.0]]])
    ready = ideal_gas(tmp_path)
    simulation = HydrationSimulation(ready.solute, wide, ready.solvent, one, ready.protocol, tmp_path, "wide")
    with pytest.raises(SimulatorError, match=r"9\.0 angstrom wide"):
        simulation.run(no_report)


def test_water_has_its_bond_and_its_angle() -> None:
    """0.9572 angstrom and 104.52 degrees: Jorgensen et al., J. Chem. Phys. 79, 926 (1983)."""
    [oxygen, first, second] = rigid_water(openmm_water("tip3p.xml", RULES))[0]
    arms = (first - oxygen, second - oxygen)
    lengths = [float(np.linalg.norm(arm)) for arm in arms]
    assert lengths == pytest.approx([0.9572, 0.9572], abs=1e-4)
    assert math.degrees(math.acos(arms[0] @ arms[1] / (lengths[0] * lengths[1]))) == pytest.approx(104.52, abs=0.01)
