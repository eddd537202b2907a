"""Against PySCF's own exchange and its own solver."""

from __future__ import annotations

import numpy as np
import pytest
from pyscf import dft, gto

from sciagent_simulators.pyscf_response import _OccupiedExchange, run_lowest
from sciagent_simulators.pyscf_solvent import in_solvent

HARTREE = 27.211386


def field(solvent=None, atom="O 0 0 0; C 0 0 1.205; H 0 0.943 1.792; H 0 -0.943 1.792", functional="camb3lyp"):
    mf = dft.RKS(gto.M(atom=atom, basis="def2-svp", verbose=0), xc=functional).density_fit()
    mf.grids.level = 0
    mf = in_solvent(mf, solvent, "C-PCM")
    mf.kernel()
    return mf


@pytest.fixture(scope="module")
def formaldehyde():
    return field()


@pytest.mark.parametrize("omega", [None, 0.33])
@pytest.mark.parametrize("memory", [4000, 0])
def test_exchange_is_pyscfs_where_it_is_used(formaldehyde, omega, memory, monkeypatch):
    mf, occupied = formaldehyde, formaldehyde.mo_coeff[:, formaldehyde.mo_occ > 0]
    monkeypatch.setattr(mf.with_df, "max_memory", memory)  # with none, the integrals come in many blocks
    monkeypatch.setattr(mf.with_df, "blockdim", 240 if memory else 7)
    rng = np.random.default_rng(1)
    densities = rng.normal(size=(3, mf.mol.nao, occupied.shape[1])) @ occupied.T
    vj, vk = _OccupiedExchange(mf).get_jk(densities, hermi=0, omega=omega)
    j, k = mf.with_df.get_jk(densities, hermi=0, omega=omega)
    assert np.abs(k @ occupied).max() > 1
    np.testing.assert_allclose(vk @ occupied, k @ occupied, atol=1e-10)
    np.testing.assert_allclose(vj, j, atol=1e-10)


def test_a_symmetric_density_is_pyscfs_own(formaldehyde):
    density = formaldehyde.make_rdm1()
    ours = _OccupiedExchange(formaldehyde).get_jk(density, hermi=1)[1]
    np.testing.assert_allclose(ours, formaldehyde.with_df.get_jk(density, hermi=1)[1], atol=1e-12)


@pytest.mark.parametrize("singlet", [True, False])
@pytest.mark.parametrize("solvent", [None, "water"])
def test_excitations_are_pyscfs(formaldehyde, singlet, solvent):
    mf = field(solvent) if solvent else formaldehyde
    ours, pyscfs = mf.TDA(), mf.TDA()
    for solver, states in ((ours, 3), (pyscfs, 8)):  # asked for three, PySCF misses the third
        solver.nstates, solver.singlet, solver.conv_tol = states, singlet, 1e-4
    run_lowest(ours)
    pyscfs.kernel()
    assert all(ours.converged) and ours._scf is mf
    np.testing.assert_allclose(ours.e * HARTREE, pyscfs.e[:3] * HARTREE, atol=1e-4)
    if singlet:
        np.testing.assert_allclose(ours.oscillator_strength(), pyscfs.oscillator_strength()[:3], atol=1e-3)


def test_the_solvers_width_is_as_it_was(formaldehyde):
    from pyscf.tdscf import _lr_eig

    before = _lr_eig.MAX_SPACE_INC
    solver = formaldehyde.TDA()
    solver.nstates = 1
    solver.kernel = lambda x0: 1 / 0
    with pytest.raises(ZeroDivisionError):
        run_lowest(solver)
    assert before == _lr_eig.MAX_SPACE_INC and solver._scf is formaldehyde


def test_an_atom_with_fewer_transitions_than_trials():
    helium = field(atom="He 0 0 0", functional="pbe0")
    solver = helium.TDA()
    solver.nstates = 1
    run_lowest(solver)
    assert solver.converged[0]


@pytest.mark.long
def test_full_tddft_finds_the_third_too(formaldehyde):
    ours, pyscfs = formaldehyde.TDDFT(), formaldehyde.TDDFT()
    for solver, states in ((ours, 3), (pyscfs, 8)):
        solver.nstates, solver.conv_tol = states, 1e-4
    run_lowest(ours, full=True)
    pyscfs.kernel()
    assert all(ours.converged)
    np.testing.assert_allclose(ours.e * HARTREE, pyscfs.e[:3] * HARTREE, atol=1e-4)
