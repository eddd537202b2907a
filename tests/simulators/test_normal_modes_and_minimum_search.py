from __future__ import annotations

import numpy as np
import pytest
from ase.build import molecule

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.tblite_engine import relax
from sciagent_simulators.thermochemistry.normal_modes_and_minimum_search import (
    normal_modes,
    numerical_hessian,
    real_frequencies,
    vibrational_space,
)
from sciagent_simulators.thermochemistry.tblite_hessian import tblite_hessian

# xtb 6.5.1, `xtb FILE --ohess vtight`, cm^-1
XTB = {"H2O": (1539.75, 3643.22, 3651.54), "NH3": (1160.50, 1592.61, 1592.99, 3424.68, 3476.71, 3476.92)}


def geometry(name: str) -> Geometry:
    atoms = molecule(name)
    return Geometry(tuple(int(z) for z in atoms.numbers), atoms.positions)


@pytest.mark.parametrize("name", XTB)
def test_frequencies_are_those_of_the_program_xtb(name):
    """Both differ by the step and the tolerance of the geometry: 3 cm^-1."""
    relaxed, _ = relax(geometry(name), fmax=0.003)
    found = normal_modes(relaxed, tblite_hessian(relaxed, accuracy=0.05))
    assert found.frequencies == pytest.approx(XTB[name], abs=3.0)


def test_a_diatomic_vibrates_as_the_formula_says():
    """sqrt(k / mu) / (2 pi c): 1903 N/m and 6.857 Da give 2170 cm^-1 in carbon monoxide (Huber, Herzberg 1979)."""
    carbon_monoxide = Geometry((6, 8), np.array([[0, 0, 0], [0, 0, 1.128]]))
    k = 1902.5 / 16.02176634  # eV/angstrom^2
    hessian = np.zeros((6, 6))
    hessian[np.ix_([2, 5], [2, 5])] = [[k, -k], [-k, k]]
    assert normal_modes(carbon_monoxide, hessian).frequencies == pytest.approx([2169.8], abs=2.0)


@pytest.mark.parametrize(("name", "modes"), [("H2O", 3), ("CO2", 4), ("C2H2", 7), ("CH4", 9), ("H", 0)])
def test_translations_and_rotations_are_projected_out(name, modes):
    """A Hessian with a large part along each of them has the same frequencies as without."""
    place = geometry(name)
    inner = vibrational_space(place)
    assert inner.shape == (3 * len(place.numbers), modes)
    root = np.sqrt(np.repeat(place.atoms.get_masses(), 3))
    own = root[:, None] * (inner @ np.diag(np.arange(1.0, modes + 1)) @ inner.T) * root
    outer = np.eye(len(root)) - inner @ inner.T
    rigid = root[:, None] * outer * root
    plain, spoilt = (normal_modes(place, hessian).frequencies for hessian in (own, own + 50 * rigid))
    assert spoilt == pytest.approx(plain, abs=1e-6)
    assert len(plain) == modes


def test_the_planar_ammonia_is_a_saddle_point_whose_mode_is_named():
    """Inversion: one imaginary mode, in which nitrogen and hydrogens leave the plane."""
    angles = np.radians([0, 120, 240])
    hydrogens = [[1.0 * np.cos(a), 1.0 * np.sin(a), 0] for a in angles]
    planar, _ = relax(Geometry((7, 1, 1, 1), np.array([[0, 0, 0], *hydrogens])), fmax=0.01)
    modes = normal_modes(planar, tblite_hessian(planar))
    assert len(modes.imaginary(50)) == 1 and modes.frequencies[0] < -300
    with pytest.raises(
        SimulatorError, match=r"not a minimum: 1 imaginary mode: \d+i cm\^-1 \(mainly H2, H3, H4\)"
    ) as e:
        real_frequencies(modes, planar, 50.0)
    assert (e.value.outcome, e.value.reason) == (Outcome.UNSTABLE, Reason.IMAGINARY_FREQUENCY)
    assert "imaginary_limit: " not in e.value.detail  # no limit may be that large
    positive, note = real_frequencies(modes, planar, 5000.0)
    assert (positive > 0).all() and "taken as real" in note


def test_central_differences_of_a_spring():
    spring = np.diag([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    found = numerical_hessian(lambda x: (-spring @ x.ravel()).reshape(2, 3), np.zeros((2, 3)), 0.01)
    assert found == pytest.approx(spring, abs=1e-9)
