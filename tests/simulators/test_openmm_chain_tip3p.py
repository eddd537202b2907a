"""TIP3P water by OpenMM's own parameters, whose density and structure are published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sciagent_simulators.dynamics.openmm_chain import Array, DynamicsSettings, OpenMMRun
from sciagent_simulators.dynamics.series_statistics import mean_of_replicas
from sciagent_simulators.dynamics.structure_and_diffusion import BoxFrames, radial_distribution

EDGE = 21.5  # angstrom


def water() -> tuple[Any, Array]:
    """Returns a system of some 320 waters, and their positions, angstrom."""
    import openmm
    from openmm import app, unit

    field = app.ForceField("tip3p.xml")
    model = app.Modeller(app.Topology(), [] * unit.nanometer)
    model.addSolvent(field, boxSize=openmm.Vec3(*[EDGE / 10] * 3) * unit.nanometer)
    system = field.createSystem(
        model.topology, nonbondedMethod=app.PME, nonbondedCutoff=0.9 * unit.nanometer, constraints=app.HBonds
    )
    return system, np.array(model.positions.value_in_unit(unit.angstrom))


@pytest.mark.long
def test_tip3p_water_has_its_density_and_its_first_neighbours(tmp_path: Path) -> None:
    """0.985 +- 0.01 g/mL at 298.15 K and 1 atm, and the highest peak of oxygens at 2.77 +- 0.05 angstrom.

    Jorgensen et al., J. Chem. Phys. 79, 926 (1983), have 0.982 g/mL and 2.77 angstrom for a cut-off of 7.5 angstrom and
    no sum over images. The error of the density must be below 0.006 g/mL, else the test would say little.
    """
    system, positions = water()
    oxygens = tuple(range(0, len(positions), 3))
    settings = DynamicsSettings(
        298.15, pressure=1.01325, steps=5000, sample_every=50, frame_every=250, atoms=oxygens, barostat_every=10
    )
    run = OpenMMRun(system, positions, settings)
    chain = run.chain(tmp_path, "tip3p", 0, 7)
    chain.run()
    samples = run.samples(chain)
    assert samples.density is not None and samples.positions is not None and samples.boxes is not None
    density = mean_of_replicas([samples.density])
    assert density.uncertainty < 0.006
    assert density.mean == pytest.approx(0.985, abs=0.01)
    kept = samples.positions[40:]
    frames = BoxFrames(kept, samples.boxes[40:], ("O",) * len(oxygens), tuple(range(len(oxygens))))
    distribution = radial_distribution(frames, "O", "O", n_bins=200)
    peak = distribution.highest_peak
    assert peak[0] == pytest.approx(2.77, abs=0.05)
    assert 2.3 < peak[1] < 3.0
    assert samples.temperature.mean() == pytest.approx(298.15, rel=0.02)
    print(f"density {density.mean:.4f} +- {density.uncertainty:.4f} g/mL of {density.independent:.0f}, peak {peak}")
