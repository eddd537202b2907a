"""Liquids: their phase, what follows from samples. Runs are in the tests of `md.liquid`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators.dynamics.box_of_liquid import (
    AtomPairs,
    LiquidBox,
    MoleculesOfKind,
    pure_liquid,
    solution_in_water,
)
from sciagent_simulators.dynamics.liquid import (
    FRAME_EVERY,
    FRAME_EVERY_IN_WATER,
    STEPS,
    LiquidProtocol,
    LiquidSimulation,
)
from sciagent_simulators.dynamics.openmm_chain import DynamicsSamples
from sciagent_simulators.force_fields.molecule_parameters import (
    AtomParameters,
    BondParameters,
    MoleculeParameters,
    NonbondedRules,
)

PROTOCOL = LiquidProtocol(298.15, 1.0, 1, 2, 2, vaporisation=True, viscosity=None)
RULES = NonbondedRules(cutoff=0.9, switch_width=0.1, scale_coulomb=0.8333, scale_lennard_jones=0.5)
ATOM = AtomParameters(17, 35.453, 0.35, 1.0, "Cl")
CHLORINE = MoleculeParameters(
    force_field="by hand",
    atoms=(ATOM, ATOM),
    charges=(0.0, 0.0),
    bonds=(BondParameters((0, 1), 0.2, 2e5, "Cl-Cl"),),
    angles=(),
    torsions=(),
    constraints=(),
    rules=RULES,
)


LIQUID = pure_liquid(CHLORINE, np.zeros((1, 2, 3)), 20.0)


def samples(simulation: LiquidSimulation, spread: float, seed: int) -> DynamicsSamples:
    """Samples of a box whose molecules walk at random by `spread` angstrom in each direction from frame to frame."""
    chunks = PROTOCOL.chunks
    random = np.random.default_rng(seed)
    n = simulation.box.molecules
    frames = chunks * STEPS // FRAME_EVERY
    centres = random.uniform(0, 20, (1, n, 3)) + np.cumsum(random.normal(0, spread, (frames, n, 3)), axis=0)
    positions = np.repeat(centres, 2, axis=1)
    positions[:, 1::2, 0] += 2.0
    times = np.arange(chunks * 100) * 0.1
    ones = np.ones(len(times))
    boxes = np.full((frames, 3), 20.0)
    return DynamicsSamples(times, -ones, 298 * ones, 8000 * ones, 1.5 * ones, positions, boxes)


def test_what_does_not_flow_is_no_liquid(tmp_path: Path) -> None:
    simulation = LiquidSimulation(LIQUID, PROTOCOL, tmp_path, "key")
    with pytest.raises(SimulatorError, match="it does not flow") as caught:
        simulation._flow([samples(simulation, 0.1, seed) for seed in (1, 2)])
    assert caught.value.reason == "phase"
    # twenty frames of production; within half of them, ten steps in three directions
    flowing = simulation._flow([samples(simulation, 1.0, seed) for seed in (1, 2)])
    assert flowing == pytest.approx(10 * 3, rel=0.15)
    assert simulation._flow([samples(simulation, 4.0, seed) for seed in (1, 2)]) > 100, "one that leaps flows, too"


def test_pair_distributions_are_those_of_the_chosen_atoms(tmp_path: Path) -> None:
    """Molecules without order: 1 far away. Near, the first atoms meet the first ones alone, as all lie at random."""
    pairs = (AtomPairs("first", (0,), (0,)), AtomPairs("Cl-Cl", (0, 1), (0, 1)))
    protocol = LiquidProtocol(298.15, 1.0, 1, 2, 2, vaporisation=False, viscosity=None, pairs=pairs)
    simulation = LiquidSimulation(LIQUID, protocol, tmp_path, "key")
    found = dict(simulation._distributions([samples(simulation, 1.0, seed) for seed in (1, 2)]))
    n = LIQUID.molecules
    for name, atoms in (("first", 1), ("Cl-Cl", 2)):
        assert found[name].g[60:].mean() == pytest.approx(1, abs=0.03)
        in_reach = (n - 1) * atoms * 4 / 3 * np.pi / 8  # a sphere of half of the edge in a cube
        assert found[name].neighbours[-1] == pytest.approx(in_reach, rel=0.03)


def test_a_solution_is_sampled_more_often_and_has_no_vaporisation(tmp_path: Path) -> None:
    box = LiquidBox([MoleculesOfKind(CHLORINE, np.zeros((1, 2, 3)), count) for count in (1, 80)])
    with pytest.raises(ValueError, match="no heat of vaporisation"):
        LiquidSimulation(box, PROTOCOL, tmp_path, "key")
    protocol = LiquidProtocol(298.15, 1.0, 1, 2, 2, vaporisation=False, viscosity=None)
    assert LiquidSimulation(box, protocol, tmp_path, "key").frame_every == FRAME_EVERY_IN_WATER


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_solute_in_water_has_the_density_of_water_and_its_neighbours(tmp_path: Path) -> None:
    """Ten picoseconds of equilibration and ten of production with a molecule of chlorine without charges.

    TIP3P has 0.985 g/mL at 298 K (`test_openmm_chain_tip3p`); water touches chlorine at the mean of their sigmas times
    the sixth root of two, 3.7 angstrom."""
    box = solution_in_water(CHLORINE, np.array([[[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]]), 19.0)
    pairs = (AtomPairs("Cl-O", (0, 1), (0,)),)
    protocol = LiquidProtocol(298.15, 1.01325, 1, 1, 1, vaporisation=False, viscosity=None, pairs=pairs, platform="CPU")
    simulation = LiquidSimulation(box, protocol, tmp_path, "key")
    run = simulation._box_run(0)
    chain = simulation._chain(run, "box", 0, protocol.chunks)
    chain.run()
    samples = run.samples(chain)
    density = simulation._produced(samples.density)
    assert density.mean() == pytest.approx(0.985, rel=0.04)
    assert simulation._flow([samples]) > 1.5
    [(_, found)] = simulation._distributions([samples])
    assert np.all(found.g[found.r < 2.5] == 0), "no water within the chlorine"
    assert found.highest_peak[0] == pytest.approx(3.6, abs=0.4)
    assert found.g[found.r > 7].mean() == pytest.approx(1, abs=0.15)
