"""Against experiment (NIST Chemistry WebBook) and Hartree-Fock limits of atoms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import DftSettings, ground_state
from sciagent_simulators.pyscf_ions import Relaxation, ion

PBE0 = DftSettings(basis="def2-svpd", grid_level=1, spin_check="off")


def changed(geometry, change, settings=PBE0, relaxation=None, checkpoint=None):
    molecule = ground_state(geometry, settings)[1]
    return ion(geometry, molecule, change, settings, relaxation, checkpoint)


def atom(number: int, multiplicity: int) -> Geometry:
    return Geometry((number,), np.zeros((1, 3)), multiplicity=multiplicity)


def test_helium_in_hartree_fock():
    """-2.0 + 2.8617 hartree at the limit of the basis; def2-SVPD has -2.8552 and -1.9936."""
    assert changed(atom(2, 1), 1, DftSettings("hf", "def2-svpd", 0)).energy == pytest.approx(23.45, abs=0.05)


@pytest.mark.parametrize(
    ("number", "multiplicity", "change", "experiment"),
    [(9, 2, 1, 17.423), (9, 2, -1, -3.401), (16, 3, 1, 10.360), (16, 3, -1, -2.077)],
)
def test_atoms_lie_near_experiment(number, multiplicity, change, experiment):
    """Fluorine and sulfur, NIST; PBE0/def2-SVPD within 0.35 eV."""
    found = changed(atom(number, multiplicity), change)
    assert found.energy == pytest.approx(experiment, abs=0.35)
    assert not found.unbound


def test_an_affinity_needs_diffuse_functions():
    """Fluorine binds an electron by 3.401 eV (NIST); without diffuse functions two thirds of that are missing."""
    with_them, without = (changed(atom(9, 2), -1, replace(PBE0, basis=b)).energy for b in ("def2-svpd", "def2-svp"))
    assert with_them == pytest.approx(-3.401, abs=0.35)
    assert without > -1.5


def test_the_lower_spin_of_an_ion_counts():
    """S is a triplet: S+ is a quartet, not a doublet; S- is a doublet, not a quartet."""
    assert changed(atom(16, 3), 1).diagnostics["multiplicity"] == 4
    assert changed(atom(16, 3), -1).diagnostics["multiplicity"] == 2


def test_water_does_not_hold_an_electron(structure):
    found = changed(structure("water"), -1)
    assert found.unbound and found.energy > 0 and found.diagnostics["held_by_basis"]


def test_an_anion_that_falls_apart_when_relaxed_is_named():
    """HCl + e: H leaves."""
    chloride = Geometry((1, 17), np.array([[0, 0, 0], [0, 0, 1.28]]))
    with pytest.raises(SimulatorError) as caught:
        changed(chloride, -1, relaxation=Relaxation(0.05, 30, ((0, 1),)))
    assert (caught.value.outcome, caught.value.reason) == ("unstable", "anion_dissociated")


def test_a_proton_has_no_cation():
    with pytest.raises(SimulatorError) as caught:
        changed(atom(1, 2), 1)
    assert (caught.value.outcome, caught.value.reason) == ("refused", "multiplicity")


def test_an_ion_relaxes_and_goes_on_from_its_files(structure, tmp_path):
    """Adiabatic lies below vertical; water by 0.1 eV (photoelectron spectrum: the band begins near its maximum)."""
    water = structure("water")
    vertical = changed(water, 1)
    first = changed(water, 1, relaxation=Relaxation(0.02, 30, ((0, 1), (0, 2))), checkpoint=tmp_path / "cation")
    assert 0 < vertical.energy - first.energy < 0.3
    again = changed(water, 1, relaxation=Relaxation(0.02, 30, ((0, 1), (0, 2))), checkpoint=tmp_path / "cation")
    assert again.diagnostics["resumed_at_step"] == first.diagnostics["dft_steps"]
    assert again.energy == pytest.approx(first.energy, abs=1e-4)
