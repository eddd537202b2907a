"""Against PySCF's own solvent classes, which evaluate everything anew, on water in def2-SVP."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import DftSettings, build, mean_field, single_point
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import (
    PYSCF_SOLVENTS,
    constants,
    in_solvent,
    set_optical_permittivity,
)
from sciagent_simulators.tblite_engine import HARTREE

HF = DftSettings(functional="hf", spin_check="off", grid_level=0, conv_tol=1e-10)


def plain(structure, name: str, charge: int = 0):
    """PySCF alone: no class of ours."""
    mf = mean_field(build(structure(name, charge), HF), HF)
    return mf


@pytest.mark.parametrize("model", ["SMD", "IEF-PCM"])
def test_kept_integrals_change_nothing(structure, model):
    settings = replace(HF, solvent="water", solvent_model=model)
    ours = mean_field(build(structure("water"), settings), settings)
    theirs = plain(structure, "water")
    if model == "SMD":
        theirs = theirs.SMD()
        theirs.with_solvent = type(theirs.with_solvent)(theirs.mol, "water")
    else:
        theirs = theirs.PCM()
        theirs.with_solvent.method, theirs.with_solvent.eps = model, constants("water")[0]
    assert ours.kernel() == pytest.approx(theirs.kernel(), abs=1e-8)
    assert ours.nuc_grad_method().kernel() == pytest.approx(theirs.nuc_grad_method().kernel(), abs=1e-6)


def test_a_surface_too_large_for_the_memory_is_evaluated_anew(structure):
    settings = replace(HF, solvent="water", solvent_model="C-PCM")
    kept = mean_field(build(structure("water"), settings), settings)
    kept.kernel()
    assert kept.with_solvent._kept is not None
    small = mean_field(build(structure("water"), settings), settings)
    small.mol.max_memory = 1
    small.kernel()
    assert small.with_solvent._kept is None
    assert small.e_tot == pytest.approx(kept.e_tot, abs=1e-8)


def test_born_energy_of_a_spherical_ion():
    """-(1 - 1/eps) q^2 / 2r for a sodium ion in the sphere that PySCF gives it; all its electrons lie well inside."""
    ion = Geometry((11,), np.zeros((1, 3)), charge=1)
    settings = replace(HF, solvent="water", solvent_model="C-PCM")
    surface = mean_field(build(ion, settings), settings).with_solvent
    surface.build()
    radius = float(np.linalg.norm(surface.surface["grid_coords"], axis=1).mean())
    expected = -(1 - 1 / constants("water")[0]) / (2 * radius) * HARTREE
    assert single_point(ion, settings).energy - single_point(ion, HF).energy == pytest.approx(expected, rel=0.01)


def test_every_solvent_has_its_constants():
    assert all(constants(name)[0] > 1.8 and 1.3 < constants(name)[1] < 1.7 for name in PYSCF_SOLVENTS)
    assert constants("water") == pytest.approx((78.36, 1.3328), abs=0.01)
    assert constants("acetonitrile")[0] == pytest.approx(35.7, abs=0.1)
    with pytest.raises(KeyError):
        constants("mercury")


def test_the_gas_phase_is_the_mean_field_itself(structure):
    mf = plain(structure, "water")
    assert in_solvent(mf, None, "SMD") is mf


def test_an_excitation_is_answered_by_the_square_of_the_refractive_index(structure):
    settings = replace(HF, solvent="toluene", solvent_model="IEF-PCM")
    mf = mean_field(build(structure("water"), settings), settings)
    mf.kernel()
    excitation = mf.TDA()
    set_optical_permittivity(excitation, "toluene")
    assert excitation.with_solvent.eps == pytest.approx(1.4961**2, abs=0.01)
    assert mf.with_solvent.eps == pytest.approx(2.374, abs=0.01)
