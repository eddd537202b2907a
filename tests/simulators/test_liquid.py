"""Liquids: the size of their boxes, their phase, what follows from samples. Runs are in the tests of `md.liquid`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators.dynamics.liquid import (
    FRAME_EVERY,
    STEPS,
    LiquidProtocol,
    LiquidSimulation,
    estimated_density,
    molecules_in,
)
from sciagent_simulators.dynamics.openmm_chain import DynamicsSamples
from sciagent_simulators.force_fields.molecule_parameters import (
    AtomParameters,
    BondParameters,
    MoleculeParameters,
    NonbondedRules,
)

PROTOCOL = LiquidProtocol(298.15, 1.0, 20.0, 1, 2, 2, vaporisation=True, viscosity=None)
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


@pytest.mark.parametrize(
    ("smiles", "measured"),
    [("CCO", 0.786), ("Cc1ccccc1", 0.864), ("ClCCl", 1.318), ("CCOCC", 0.708), ("CS(C)=O", 1.096), ("BrCCBr", 2.17)],
)
def test_a_density_is_estimated_within_a_fifth(smiles: str, measured: float) -> None:
    from rdkit import Chem

    atoms = list(Chem.AddHs(Chem.MolFromSmiles(smiles)).GetAtoms())
    estimate = estimated_density([atom.GetAtomicNum() for atom in atoms], [atom.GetMass() for atom in atoms])
    assert estimate == pytest.approx(measured, rel=0.2)


def test_molecules_fill_the_box_at_the_estimated_density() -> None:
    # 46.07 dalton at 46.07 / (5 * 12) g/mL are 60 cm3/mol, 99.63 angstrom^3 a molecule
    numbers = (6, 6, 8, 1, 1, 1, 1, 1, 1)
    masses = (12.011, 12.011, 15.999, *[1.008] * 6)
    assert molecules_in(26.0, numbers, masses) == round(26.0**3 / 99.63)


def samples(simulation: LiquidSimulation, spread: float, seed: int) -> DynamicsSamples:
    """Samples of a box whose molecules walk at random by `spread` angstrom in each direction from frame to frame."""
    chunks = PROTOCOL.chunks
    random = np.random.default_rng(seed)
    n = simulation.molecules
    frames = chunks * STEPS // FRAME_EVERY
    centres = random.uniform(0, 20, (1, n, 3)) + np.cumsum(random.normal(0, spread, (frames, n, 3)), axis=0)
    positions = np.repeat(centres, 2, axis=1)
    positions[:, 1::2, 0] += 2.0
    times = np.arange(chunks * 100) * 0.1
    ones = np.ones(len(times))
    boxes = np.full((frames, 3), 20.0)
    return DynamicsSamples(times, -ones, 298 * ones, 8000 * ones, 1.5 * ones, positions, boxes)


def test_what_does_not_flow_is_no_liquid(tmp_path: Path) -> None:
    simulation = LiquidSimulation(CHLORINE, np.zeros((1, 2, 3)), PROTOCOL, tmp_path, "key")
    with pytest.raises(SimulatorError, match="it does not flow") as caught:
        simulation._flow([samples(simulation, 0.1, seed) for seed in (1, 2)])
    assert caught.value.reason == "phase"
    # twenty frames of production; within half of them, ten steps in three directions
    flowing = simulation._flow([samples(simulation, 1.0, seed) for seed in (1, 2)])
    assert flowing == pytest.approx(10 * 3, rel=0.15)


def test_molecules_stay_whole_when_their_box_grows(tmp_path: Path) -> None:
    simulation = LiquidSimulation(CHLORINE, np.zeros((1, 2, 3)), PROTOCOL, tmp_path, "key")
    before = np.random.default_rng(3).uniform(0, 20, (2 * simulation.molecules, 3))
    after = simulation._scaled(before, 1.1)
    assert np.allclose(after[1::2] - after[::2], before[1::2] - before[::2])
    assert np.allclose(after[1::2] + after[::2], 1.1 * (before[1::2] + before[::2]))
