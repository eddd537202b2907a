"""Against NWChem 7.0.2 without density fitting, formaldehyde of conftest.py, CAM-B3LYP/def2-SVP:

dft; xc xcamb88 1.00 lyp 0.81 vwn_5 0.19 hfexch 1.00; cam 0.33 cam_alpha 0.19 cam_beta 0.46; grid xfine; end
tddft; cis; nroots 10; notriplet; end; task tddft energy

Asked for four roots NWChem misses the third, as PySCF's own search does: no start vector has its symmetry.

Against PySCF's own exchange and its own solver.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pyscf import dft, gto

from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import DftSettings, ground_state
from sciagent_simulators.pyscf_excitations import (
    Excitation,
    _OccupiedExchange,
    check_charge_transfer,
    excite,
    overlap,
    run_lowest,
)
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import in_solvent

CAM = DftSettings(functional="cam-b3lyp", spin_check="off", grid_level=1)
NWCHEM = [(4.0133, 0.0), (8.6714, 0.1720), (9.2503, 0.0020), (10.0153, 0.0001)]


@pytest.fixture(scope="module")
def formaldehyde():
    atoms = np.array([[0, 0, 0], [0, 0, 1.205], [0, 0.943, -0.587], [0, -0.943, -0.587]])
    return ground_state(Geometry((6, 8, 1, 1), atoms), CAM)[0]


def test_singlets_and_their_strengths_match_nwchem(formaldehyde):
    found = excite(formaldehyde, 4)
    for one, (energy, strength) in zip(found, NWCHEM, strict=True):
        assert one.energy == pytest.approx(energy, abs=0.01)
        assert one.strength == pytest.approx(strength, abs=0.003)
    assert found[0].main.startswith("HOMO > LUMO") and 0.4 < found[0].overlap < 0.6


def test_the_total_energy_behind_them_matches_nwchem(formaldehyde):
    assert formaldehyde.e_tot == pytest.approx(-114.364326831, abs=2e-4)


def test_full_tddft_lies_below_its_approximation_and_the_triplet_below_both(formaldehyde):
    approximate, full = excite(formaldehyde, 1)[0], excite(formaldehyde, 1, full=True, conv_tol=1e-4)[0]
    assert 0 < approximate.energy - full.energy < 0.2
    assert excite(formaldehyde, 1, singlet=False)[0].energy < full.energy


def test_wavelength():
    assert Excitation(2.0, 0.0, 1.0, "").wavelength == pytest.approx(619.92, abs=0.01)


def test_orbitals_far_apart_do_not_overlap_and_the_excitation_is_charge_transfer():
    """Ammonia and F2 at 6 angstrom: with PBE the electron goes over at far too low an energy."""
    ammonia = [[0, 0, 0], [0.94, 0, 0.38], [-0.47, 0.81, 0.38], [-0.47, -0.81, 0.38]]
    pair = Geometry((7, 1, 1, 1, 9, 9), np.array([*ammonia, [0, 0, -6.0], [0, 0, -7.41]]))
    settings = DftSettings(functional="pbe", spin_check="off", grid_level=0)
    mf = ground_state(pair, settings)[0]
    lowest = excite(mf, 2, conv_tol=1e-3)[0]
    assert lowest.overlap < 0.1 and lowest.strength < 1e-3
    with pytest.raises(SimulatorError) as caught:
        check_charge_transfer(lowest, mf)
    assert (caught.value.outcome, caught.value.reason) == ("unstable", "charge_transfer")


def test_range_separation_and_large_overlap_pass(formaldehyde):
    far = Excitation(4.0, 0.0, 0.05, "")
    check_charge_transfer(far, formaldehyde)
    local = replace(CAM, functional="pbe0")
    water = ground_state(Geometry((8, 1, 1), np.array([[0, 0, 0.117], [0, 0.757, -0.469], [0, -0.757, -0.469]])), local)
    check_charge_transfer(replace(far, overlap=0.5), water[0])
    with pytest.raises(SimulatorError, match="charge_transfer"):
        check_charge_transfer(far, water[0])


def test_an_orbital_overlaps_itself_completely(formaldehyde):
    """Lambda of i into an orbital of the same shape is 1: occupied and empty hydrogen-like 1s of a doubled basis."""
    mf = formaldehyde.copy()
    mf.mo_coeff = np.array(formaldehyde.mo_coeff)
    occupied = int(np.count_nonzero(mf.mo_occ))
    mf.mo_coeff[:, occupied] = mf.mo_coeff[:, occupied - 1]
    amplitude = np.zeros((occupied, mf.mo_coeff.shape[1] - occupied))
    amplitude[-1, 0] = 1.0
    assert overlap(mf, [amplitude])[0] == pytest.approx(1.0, abs=0.01)


def test_a_singlet_that_is_no_ground_state_has_a_negative_root():
    oxygen = Geometry((8, 8), np.array([[0, 0, 0], [0, 0, 1.207]]))
    mf = ground_state(oxygen, DftSettings(spin_check="off", grid_level=1))[0]
    with pytest.raises(SimulatorError) as caught:
        excite(mf, 1, singlet=False)
    assert (caught.value.outcome, caught.value.reason) == ("unstable", "scf_unstable")


def test_helium_in_one_function_has_nothing_to_be_excited_to():
    mf = ground_state(Geometry((2,), np.zeros((1, 3))), DftSettings("hf", "sto-3g", spin_check="off"))[0]
    with pytest.raises(SimulatorError) as caught:
        excite(mf, 1)
    assert caught.value.reason == "no_excited_state"


HARTREE = 27.211386


def field(solvent=None, atom="O 0 0 0; C 0 0 1.205; H 0 0.943 1.792; H 0 -0.943 1.792", functional="camb3lyp"):
    mf = dft.RKS(gto.M(atom=atom, basis="def2-svp", verbose=0), xc=functional).density_fit()
    mf.grids.level = 0
    mf = in_solvent(mf, solvent, "C-PCM")
    mf.kernel()
    return mf


@pytest.fixture(scope="module")
def restricted_formaldehyde():
    return field()


@pytest.fixture(scope="module")
def dissolved_formaldehyde():
    return field("water")


@pytest.mark.parametrize("omega", [None, 0.33])
@pytest.mark.parametrize("memory", [4000, 0])
def test_exchange_is_pyscfs_where_it_is_used(restricted_formaldehyde, omega, memory, monkeypatch):
    mf, occupied = restricted_formaldehyde, restricted_formaldehyde.mo_coeff[:, restricted_formaldehyde.mo_occ > 0]
    monkeypatch.setattr(mf.with_df, "max_memory", memory)  # with none, the integrals come in many blocks
    monkeypatch.setattr(mf.with_df, "blockdim", 240 if memory else 7)
    rng = np.random.default_rng(1)
    densities = rng.normal(size=(3, mf.mol.nao, occupied.shape[1])) @ occupied.T
    vj, vk = _OccupiedExchange(mf).get_jk(densities, hermi=0, omega=omega)
    j, k = mf.with_df.get_jk(densities, hermi=0, omega=omega)
    assert np.abs(k @ occupied).max() > 1
    np.testing.assert_allclose(vk @ occupied, k @ occupied, atol=1e-10)
    np.testing.assert_allclose(vj, j, atol=1e-10)


def test_a_symmetric_density_is_pyscfs_own(restricted_formaldehyde):
    density = restricted_formaldehyde.make_rdm1()
    ours = _OccupiedExchange(restricted_formaldehyde).get_jk(density, hermi=1)[1]
    np.testing.assert_allclose(ours, restricted_formaldehyde.with_df.get_jk(density, hermi=1)[1], atol=1e-12)


@pytest.mark.parametrize("singlet", [True, False])
@pytest.mark.parametrize("solvent", [None, "water"])
def test_excitations_are_pyscfs(restricted_formaldehyde, dissolved_formaldehyde, singlet, solvent):
    mf = dissolved_formaldehyde if solvent else restricted_formaldehyde
    ours, pyscfs = mf.TDA(), mf.TDA()
    for solver, states in ((ours, 3), (pyscfs, 8)):  # asked for three, PySCF misses the third
        solver.nstates, solver.singlet, solver.conv_tol = states, singlet, 1e-4
    run_lowest(ours)
    pyscfs.kernel()
    assert all(ours.converged) and ours._scf is mf
    np.testing.assert_allclose(ours.e * HARTREE, pyscfs.e[:3] * HARTREE, atol=1e-4)
    if singlet:
        np.testing.assert_allclose(ours.oscillator_strength(), pyscfs.oscillator_strength()[:3], atol=1e-3)


def test_the_solvers_width_is_as_it_was(restricted_formaldehyde):
    from pyscf.tdscf import _lr_eig

    before = _lr_eig.MAX_SPACE_INC
    solver = restricted_formaldehyde.TDA()
    solver.nstates = 1
    solver.kernel = lambda x0: 1 / 0
    with pytest.raises(ZeroDivisionError):
        run_lowest(solver)
    assert before == _lr_eig.MAX_SPACE_INC and solver._scf is restricted_formaldehyde


def test_an_atom_with_fewer_transitions_than_trials():
    helium = field(atom="He 0 0 0", functional="pbe0")
    solver = helium.TDA()
    solver.nstates = 1
    run_lowest(solver)
    assert solver.converged[0]


@pytest.mark.long
def test_full_tddft_finds_the_third_too(restricted_formaldehyde):
    ours, pyscfs = restricted_formaldehyde.TDDFT(), restricted_formaldehyde.TDDFT()
    for solver, states in ((ours, 3), (pyscfs, 8)):
        solver.nstates, solver.conv_tol = states, 1e-4
    run_lowest(ours, full=True)
    pyscfs.kernel()
    assert all(ours.converged)
    np.testing.assert_allclose(ours.e * HARTREE, pyscfs.e[:3] * HARTREE, atol=1e-4)
