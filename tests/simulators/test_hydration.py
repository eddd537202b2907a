"""Solvation free energies: a particle in an ideal gas, whose value is an integral, and a run that was ended."""

from __future__ import annotations

import hashlib
import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sciagent.errors import SimulatorError
from sciagent_simulators.dynamics import hydration
from sciagent_simulators.dynamics.alchemical_solute import (
    AlchemicalState,
    alchemical_system,
    reduced_potentials,
    states,
)
from sciagent_simulators.dynamics.chunks import Progress
from sciagent_simulators.dynamics.hydration import HydrationProtocol, HydrationSimulation, HydrationValues
from sciagent_simulators.force_fields.molecule_parameters import AtomParameters, MoleculeParameters, NonbondedRules
from sciagent_simulators.force_fields.openmm_system import openmm_water, rigid_water

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


def soft_core(r: Array, sterics: float) -> Array:
    """Returns the energy of the solute with an atom of the gas at any distance, nm, in kJ/mol."""
    x = 1 / (0.5 * (1 - sterics) + (r / SIGMA) ** 6)
    energies: Array = 4 * EPSILON * sterics * x * (x - 1)
    return energies


def pair_energy(r: Array, sterics: float) -> Array:
    """Returns the energy of the solute with an atom of the gas by the soft core, switched off at the end, kJ/mol."""
    t = np.clip((r - (RULES.cutoff - RULES.switch_width)) / RULES.switch_width, 0, 1)
    switched: Array = soft_core(r, sterics) * (1 - 10 * t**3 + 15 * t**4 - 6 * t**5)  # OpenMM's switching function
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


def harmonic_potentials(random: np.random.Generator, shift: float) -> list[Array]:
    """Returns the reduced potentials of 6 harmonic states, whose middles are 0.5 apart, at 60 frames of each.

    shift: of the frames of the second half of the time, as if the states had not been reached in the first."""
    centres = 0.5 * np.arange(6)
    parts = []
    for centre in centres:
        frames = centre + random.normal(size=60)
        frames[30:] += shift
        parts.append(0.5 * (frames[None] - centres[:, None]) ** 2 + 0.7 * np.arange(6)[:, None])
    return parts


def test_values_of_two_halves_that_differ_are_no_value(tmp_path: Path) -> None:
    simulation = ideal_gas(tmp_path, n_states=6, replicas=3)
    random = np.random.default_rng(2)
    steady = simulation.values([harmonic_potentials(random, 0.0) for _ in range(3)])
    assert steady.free_energy == pytest.approx(-5 * 0.7 * GAS * TEMPERATURE, abs=4 * steady.uncertainty)
    assert 0 < steady.uncertainty < 1
    with pytest.raises(SimulatorError, match="halves of the time") as ended:
        simulation.values([harmonic_potentials(random, 0.8) for _ in range(3)])
    assert ended.value.reason == "not_equilibrated"


def no_report(done: float, of: float, text: str) -> None:
    """Ignores a report."""


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


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.simulators.test_hydration import small_run

def progress(done, of, text):
    if done > float(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

print(repr(small_run(Path(sys.argv[1]), progress).free_energy))
"""


def small_run(folder: Path, progress: Progress) -> HydrationValues:
    """Returns the values of a run with so few frames that all of them count as independent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hydration, "independent_indices", lambda series: np.arange(len(series)))
        return ideal_gas(folder, n_states=6, replicas=1).run(progress)


def digests(folder: Path) -> dict[str, str]:
    """Returns the digest of each chunk's file."""
    files = sorted(folder.rglob("*.zip"))
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_a_run_killed_twice_goes_on_to_the_same_bits_and_the_same_value(tmp_path: Path) -> None:
    amounts: list[float] = []
    whole = small_run(tmp_path / "whole", lambda done, of, text: amounts.append(done / of))
    assert amounts[-1] == 1.0 and amounts == sorted(amounts) and whole.samples == 6 * 10
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, str(folder)]
    # the box has two chunks and each state three: in the steps of the second state, in the evaluation of the third
    for limit, n_files in (("7.5", 7), ("10.97", 10)):
        killed = subprocess.run([*command, limit], timeout=200)
        assert killed.returncode == -signal.SIGKILL
        assert len(digests(folder)) == n_files
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*.zip")}
    resumed = subprocess.run([*command, "inf"], timeout=200, check=True, capture_output=True, text=True)
    assert float(resumed.stdout.split()[-1]) == whole.free_energy
    assert digests(folder) == digests(tmp_path / "whole")
    assert {file: file.stat().st_mtime_ns for file in before} == before, "what was done is not done again"


def test_a_state_has_the_energy_of_the_soft_core_and_of_what_is_beyond_the_cut_off(tmp_path: Path) -> None:
    simulation = ideal_gas(tmp_path)
    edge = simulation._packed_edge
    listed = (AlchemicalState(0.0, 1.0), AlchemicalState(0.0, 0.4), AlchemicalState(0.0, 0.0))
    frames = drawn(simulation, 0.4, 3, np.random.default_rng(5))
    system = alchemical_system(simulation.solute, simulation.solvent, ATOMS, edge / 10, listed[0])
    boxes = np.full((3, 3), edge)
    found = reduced_potentials(system, frames, boxes, listed, TEMPERATURE, platform="Reference") * GAS * TEMPERATURE
    far = np.linspace(RULES.cutoff - RULES.switch_width, 60.0, 2_000_001)
    n = ATOMS + 1
    density = (
        ATOMS / (edge / 10) ** 3 * n / (n + 1)
    )  # OpenMM averages over n (n + 1) / 2 pairs, with those of an atom and itself
    for row, state in zip(found - found[-1], listed, strict=True):
        plain = soft_core(far, state.sterics)
        lost = np.trapezoid(4 * math.pi * far**2 * (plain - pair_energy(far, state.sterics)), far)
        near = pair_energy(np.linalg.norm(frames[:, 1:], axis=2) / 10, state.sterics).sum(axis=1)
        assert row == pytest.approx(near + density * lost, rel=1e-4, abs=1e-4)


def test_a_solute_that_comes_close_to_its_periodic_image_is_refused(tmp_path: Path) -> None:
    one = np.zeros((1, 1, 3))
    wide = np.array([[[0.0, 0.0, 0.0], [11.0, 0.0, 0.0]]])
    ready = ideal_gas(tmp_path)
    simulation = HydrationSimulation(ready.solute, wide, ready.solvent, one, ready.protocol, tmp_path, "wide")
    with pytest.raises(SimulatorError, match=r"11\.0 angstrom wide.*take a box of 23"):
        simulation.run(no_report)


def test_water_has_its_bond_and_its_angle() -> None:
    """0.9572 angstrom and 104.52 degrees: Jorgensen et al., J. Chem. Phys. 79, 926 (1983)."""
    [oxygen, first, second] = rigid_water(openmm_water("tip3p.xml", RULES))[0]
    arms = (first - oxygen, second - oxygen)
    lengths = [float(np.linalg.norm(arm)) for arm in arms]
    assert lengths == pytest.approx([0.9572, 0.9572], abs=1e-4)
    assert math.degrees(math.acos(arms[0] @ arms[1] / (lengths[0] * lengths[1]))) == pytest.approx(104.52, abs=0.01)
