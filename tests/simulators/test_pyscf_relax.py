from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import DftSettings
from sciagent_simulators.pyscf_relax import (
    LARGEST_STEP,
    Gradients,
    newton_step,
    relax,
    updated,
    without_rigid_motion,
    xtb_hessian,
)

QUICK = DftSettings(functional="pbe", grid_level=1, spin_check="off")


def bond(geometry: Geometry) -> float:
    return float(np.linalg.norm(geometry.positions[1] - geometry.positions[0]))


@pytest.mark.parametrize("solvent", [None, "water"])
def test_forces_are_the_slope_of_the_energy(structure, solvent):
    water, h = structure("water"), 0.01
    gradients = Gradients(water, replace(QUICK, grid_level=2, solvent=solvent, solvent_model="IEF-PCM"))
    _, forces = gradients.at(water.positions)
    energies = []
    for sign in (1, -1):
        moved = water.positions.copy()
        moved[1, 1] += sign * h
        energies.append(gradients.at(moved)[0])
    assert forces[1, 1] == pytest.approx((energies[1] - energies[0]) / (2 * h), abs=5e-3)
    assert forces.sum(axis=0) == pytest.approx(np.zeros(3), abs=5e-3)


def test_hydrogen_ends_at_the_minimum_of_its_curve():
    """The parabola through three single points 0.02 angstrom apart has its minimum there."""
    start = Geometry((1, 1), np.array([[0, 0, 0], [0, 0, 0.85]]))
    found, facts = relax(start, QUICK, fmax=0.005)
    gradients, r = Gradients(start, QUICK), bond(found)
    low, mid, high = (gradients.at(np.array([[0, 0, 0], [0, 0, r + d]]))[0] for d in (-0.02, 0, 0.02))
    assert 0.02 * (low - high) / (2 * (low + high - 2 * mid)) == pytest.approx(0, abs=5e-4)
    assert facts["dft_fmax"] < 0.005 and facts["dft_steps"] < 8


def test_water_is_as_experiment_has_it(structure):
    """0.9572 angstrom, 104.5 degrees; PBE bonds are 0.01 too long, def2-SVP adds as much."""
    found, facts = relax(structure("water"), QUICK)
    one, two = (found.positions[k] - found.positions[0] for k in (1, 2))
    angle = np.degrees(np.arccos(one @ two / np.linalg.norm(one) / np.linalg.norm(two)))
    assert bond(found) == pytest.approx(0.9572, abs=0.025)
    assert angle == pytest.approx(104.5, abs=2.5)
    assert facts["dft_gradients"] == facts["dft_steps"] + 1


def test_a_relaxation_that_was_broken_off_takes_the_same_steps(structure, tmp_path):
    water = structure("water")
    stretched = water.moved(water.positions * 1.1)
    whole, facts = relax(stretched, QUICK)
    assert facts["dft_steps"] > 2
    stem = tmp_path / "relax"
    with pytest.raises(SimulatorError) as caught:
        relax(stretched, QUICK, max_steps=2, checkpoint=stem)
    assert (caught.value.outcome, caught.value.reason) == ("not_converged", "geometry_not_converged")
    assert caught.value.diagnostics["dft_fmax"] > 0.02
    resumed, again = relax(stretched, QUICK, checkpoint=stem)
    assert (again["resumed_at_step"], again["dft_steps"]) == (2, facts["dft_steps"])
    assert resumed.positions == pytest.approx(whole.positions, abs=2e-4)


@pytest.mark.parametrize("kept", [0, 100, 700])
def test_a_file_cut_short_or_of_another_molecule_is_ignored(structure, tmp_path, kept):
    stem = tmp_path / "relax"
    with pytest.raises(SimulatorError):
        relax(structure("water"), QUICK, fmax=1e-4, max_steps=1, checkpoint=stem)
    file = stem.with_suffix(".npz")
    content = file.read_bytes()
    assert len(content) > 700
    file.write_bytes(content[:kept])
    hydrogen = Geometry((1, 1), np.array([[0, 0, 0], [0, 0, 0.76]]))
    assert relax(hydrogen, QUICK, checkpoint=stem)[1]["resumed_at_step"] == 0


def test_the_hessian_of_water_has_its_three_vibrations(structure):
    """GFN2-xTB stretches O-H at about 50 eV/angstrom^2; six modes are free and taken as soft."""
    values = np.linalg.eigvalsh(xtb_hessian(structure("water")))
    assert values[:6] == pytest.approx(np.full(6, 2.0), abs=1e-6)
    assert values[6] > 2 and 30 < values[-1] < 150


def test_an_update_satisfies_the_secant_equation_and_noise_leaves_the_hessian_positive():
    rng = np.random.default_rng(1)
    basis = rng.normal(size=(6, 6))
    hessian, step = basis @ basis.T + np.eye(6), rng.normal(size=6)
    change = hessian @ step * 1.5
    assert updated(hessian, step, change) @ step == pytest.approx(change)
    assert np.linalg.eigvalsh(updated(hessian, step, -change)).min() > 0
    assert updated(hessian, np.zeros(6), change) is hessian


def test_a_step_reaches_the_minimum_of_a_parabola_unless_it_is_far():
    forces = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    assert newton_step(40.0 * np.eye(6), forces) == pytest.approx(forces / 40)
    assert np.abs(newton_step(np.eye(6), forces)).max() == pytest.approx(LARGEST_STEP)


def test_what_moves_the_whole_is_no_force():
    rng = np.random.default_rng(2)
    positions = rng.normal(size=(4, 3))
    pull, turn = np.ones((4, 3)), np.cross([0.3, -0.2, 0.9], positions - positions.mean(axis=0))
    assert without_rigid_motion(pull + turn, positions) == pytest.approx(np.zeros((4, 3)), abs=1e-10)
    line = np.array([[0, 0, 0], [0, 0, 1.3]])
    assert without_rigid_motion(np.array([[0, 0, 1.0], [0, 0, -0.8]]), line)[:, 2] == pytest.approx([0.9, -0.9])


def test_a_single_atom_has_nothing_to_relax():
    atom = Geometry((2,), np.zeros((1, 3)))
    assert relax(atom, QUICK) == (atom, {"dft_steps": 0, "dft_fmax": 0.0})
