"""Chains of OpenMM on 125 atoms of liquid argon: Lennard-Jones, 3.405 angstrom and 119.8 K (Rahman 1964)."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.dynamics.openmm_chain import (
    GAS_CONSTANT,
    Array,
    DynamicsSettings,
    OpenMMRun,
    final_positions_and_box,
)

EDGE = 18.6  # angstrom: 125 atoms at 1.29 g/mL
MASS = 39.948
NPT = DynamicsSettings(95.0, pressure=10.0, steps=100, sample_every=25, frame_every=50, atoms=(0, 7))

KILLED = """
import os, signal, sys
from pathlib import Path
from tests.simulators.test_openmm_chain import argon_run, NPT

def progress(done, of, text):
    if done > float(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

argon_run(NPT).chain(Path(sys.argv[1]), "argon", 0, 4).run(progress)
"""


def argon(edge: float = EDGE, cutoff: float = 8.0) -> tuple[Any, Array]:
    """Returns a system of 125 atoms and their positions on a lattice, angstrom."""
    import openmm

    system = openmm.System()
    system.setDefaultPeriodicBoxVectors(*np.diag([edge / 10] * 3))
    force = openmm.NonbondedForce()
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(cutoff / 10)
    for _ in range(125):
        system.addParticle(MASS)
        force.addParticle(0.0, 0.3405, 119.8 * GAS_CONSTANT)
    system.addForce(force)
    system.addForce(openmm.CMMotionRemover())
    grid = np.arange(5) * edge / 5
    return system, np.array(np.meshgrid(grid, grid, grid)).reshape(3, -1).T


def argon_run(settings: DynamicsSettings) -> OpenMMRun:
    system, positions = argon()
    return OpenMMRun(system, positions, settings)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a chain of 4 chunks that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    argon_run(NPT).chain(folder, "argon", 0, 4).run()
    return folder


def test_a_run_killed_in_its_third_chunk_ends_with_the_same_bits(tmp_path: Path, whole: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    killed = subprocess.run([*command, "3.5"], timeout=120)  # the start and two chunks are 3
    assert killed.returncode == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000.zip", "001.zip", "002.zip"]
    subprocess.run([*command, "inf"], timeout=120, check=True)
    for number in range(5):
        assert digest(tmp_path / f"{number:03d}.zip") == digest(whole / f"{number:03d}.zip"), number


def test_other_replicas_are_other_trajectories(tmp_path: Path, whole: Path) -> None:
    run = argon_run(NPT)
    other = run.chain(tmp_path, "argon", 1, 1)
    other.run()
    own = run.samples(run.chain(whole, "argon", 0, 4), 1)
    assert np.abs(run.samples(other).potential_energy - own.potential_energy).min() > 1e-3


def test_samples_have_their_units(whole: Path) -> None:
    run = argon_run(NPT)
    chain = run.chain(whole, "argon", 0, 4)
    samples = run.samples(chain)
    assert samples.time == pytest.approx(np.arange(1, 17) * 0.05)
    assert samples.volume is not None and samples.density is not None
    assert samples.density == pytest.approx(125 * MASS / 0.602214076 / samples.volume, rel=1e-8)
    assert 1.1 < samples.density.mean() < 1.5
    assert samples.positions is not None and samples.positions.shape == (8, 2, 3)
    assert samples.boxes is not None and samples.boxes.shape == (8, 3)
    positions, box = final_positions_and_box(chain.read(4))
    assert samples.positions[-1] == pytest.approx(positions[[0, 7]], abs=1e-4)
    assert samples.boxes[-1] == pytest.approx(box, abs=1e-6)
    assert np.unique(samples.volume).size > 3
    platform = json.loads(chain.read(4)["platform.json"])
    assert platform["platform"] in ("CPU", "CUDA", "OpenCL", "HIP")


def test_the_thermostat_holds_the_temperature_at_constant_volume(tmp_path: Path) -> None:
    """375 - 3 degrees of freedom scatter by 7 percent; the mean of some 20 independent ones by 2 percent."""
    settings = DynamicsSettings(120.0, friction=5.0, steps=600, sample_every=10, platform="CPU")
    run = argon_run(settings)
    chain = run.chain(tmp_path, "argon", 0, 3)
    chain.run()
    samples = run.samples(chain)
    assert samples.temperature[60:].mean() == pytest.approx(120.0, rel=0.06)
    assert samples.volume == pytest.approx(np.full(180, EDGE**3), rel=1e-9)
    assert samples.positions is None


def test_a_box_below_twice_the_cutoff_has_its_name(tmp_path: Path) -> None:
    system, positions = argon(cutoff=9.4)
    with pytest.raises(SimulatorError) as error:
        OpenMMRun(system, positions, NPT).chain(tmp_path, "argon", 0, 1).run()
    assert (error.value.outcome, error.value.reason) == (Outcome.UNSTABLE, Reason.BOX_TOO_SMALL)


def test_a_box_that_shrinks_below_twice_the_cutoff_has_its_name(tmp_path: Path) -> None:
    system, positions = argon(edge=24.0, cutoff=11.5)
    squeezed = DynamicsSettings(95.0, pressure=20_000.0, steps=2000, sample_every=50, barostat_every=1)
    with pytest.raises(SimulatorError) as error:
        OpenMMRun(system, positions, squeezed).chain(tmp_path, "argon", 0, 5).run()
    assert (error.value.outcome, error.value.reason) == (Outcome.UNSTABLE, Reason.BOX_TOO_SMALL)


def test_atoms_on_top_of_each_other_explode_by_name(tmp_path: Path) -> None:
    system, positions = argon()
    positions[1] = positions[0] + [1e-4, 0, 0]
    settings = DynamicsSettings(95.0, steps=100, sample_every=10)
    with pytest.raises(SimulatorError) as error:
        OpenMMRun(system, positions, settings, minimise=False).chain(tmp_path, "argon", 0, 1).run()
    assert (error.value.outcome, error.value.reason) == (Outcome.UNSTABLE, Reason.EXPLODED)


def test_a_platform_that_is_not_there_has_its_name(tmp_path: Path) -> None:
    system, positions = argon()
    settings = DynamicsSettings(95.0, platform="Abacus")
    with pytest.raises(SimulatorError, match=r"no platform Abacus here; it has .*CPU") as error:
        OpenMMRun(system, positions, settings).chain(tmp_path, "argon", 0, 1).run()
    assert (error.value.outcome, error.value.reason) == (Outcome.BAD_ENVIRONMENT, Reason.PROGRAM_MISSING)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "above 0 K"),
        ({"temperature": float("nan")}, "finite"),
        ({"temperature": 300.0, "steps": 0}, "a chunk has"),
        ({"temperature": 300.0, "sample_every": 70}, "does not divide"),
        ({"temperature": 300.0, "frame_every": 150}, "no multiple"),
        ({"temperature": 300.0, "frame_every": 300}, "does not divide"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DynamicsSettings(**settings)


def test_bad_systems_are_refused() -> None:
    import openmm

    system, positions = argon()
    with pytest.raises(ValueError, match="125 particles"):
        OpenMMRun(system, positions[:3], NPT)
    with pytest.raises(ValueError, match="three positive edges"):
        OpenMMRun(system, positions, NPT, box=np.zeros(3))
    with pytest.raises(ValueError, match="0 to 124"):
        OpenMMRun(system, positions, DynamicsSettings(95.0, atoms=(125,)))
    system.addForce(openmm.MonteCarloBarostat(1.0, 95.0))
    with pytest.raises(ValueError, match="its own"):
        OpenMMRun(system, positions, NPT)
