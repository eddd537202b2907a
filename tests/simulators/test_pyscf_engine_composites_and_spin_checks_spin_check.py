from __future__ import annotations

import numpy as np
import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import (
    MAX_PAIR_OCCUPATION,
    SAFE_TRIPLET,
    DftSettings,
    build,
    check_spin,
    lowest_triplet,
    mean_field,
    pair_occupation,
    single_point,
)
from sciagent_simulators.scf_recovery import converge
from sciagent_simulators.tblite_engine import HARTREE

PLAIN = DftSettings(spin_check="off", grid_level=1)
AUTO = DftSettings(spin_check="auto", grid_level=1)
QUICK = DftSettings(grid_level=0)


def restricted(geometry):
    return converge(mean_field(build(geometry, PLAIN), PLAIN), PLAIN.max_cycles)[0]


def test_a_safe_screen_ends_the_check(structure):
    found = single_point(structure("formaldehyde"), AUTO).diagnostics["spin_check"]
    assert found["triplet_tda"] > SAFE_TRIPLET
    assert set(found) == {"pair_occupation", "pair", "triplet_tda"}


def test_screen_equals_an_excitation_by_pyscf_at_full_accuracy(structure):
    """Grid 3 and conv_tol 1e-6 instead of grid 0 and 1e-3."""
    from pyscf import tdscf

    settings = DftSettings(spin_check="off")
    mf = converge(mean_field(build(structure("formaldehyde"), settings), settings), settings.max_cycles)[0]
    excitation = tdscf.TDA(mf)
    excitation.singlet, excitation.nstates, excitation.conv_tol, excitation.verbose = False, 1, 1e-6, 0
    excitation.kernel()
    assert lowest_triplet(mf) == pytest.approx(float(excitation.e[0]) * HARTREE, abs=0.02)


def test_always_runs_both_comparisons_and_a_stable_molecule_stays_ok(structure):
    found = single_point(structure("formaldehyde"), DftSettings(spin_check="always")).diagnostics["spin_check"]
    assert found["triplet_minus_singlet"] == pytest.approx(found["triplet_tda"], abs=0.3)
    assert found["broken_minus_restricted"] == pytest.approx(0.0, abs=3e-3)


def test_the_screen_is_negative_where_the_triplet_lies_lower(structure):
    """PySCF drops negative roots unless told otherwise; oxygen would pass with its next excitation."""
    assert lowest_triplet(restricted(structure("oxygen"))) < 0


@pytest.mark.parametrize("name", ["oxygen", "methylene"])
def test_singlets_of_triplet_molecules_are_named(structure, name):
    with pytest.raises(SimulatorError) as caught:
        single_point(structure(name), AUTO)
    assert (caught.value.outcome, caught.value.reason) == ("unstable", "triplet_ground_state")


def test_triplet_oxygen_is_fine(structure):
    result = single_point(structure("oxygen", multiplicity=3), AUTO)
    assert result.diagnostics["s_squared"] == pytest.approx(2.0, abs=0.02)


@pytest.mark.parametrize("name", ["nitroxyl", pytest.param("rectangular cyclobutadiene", marks=pytest.mark.long)])
def test_restricted_solutions_that_break_symmetry_are_named(structure, name):
    with pytest.raises(SimulatorError) as caught:
        single_point(structure(name), AUTO)
    assert (caught.value.outcome, caught.value.reason) == ("unstable", "scf_unstable")
    assert caught.value.diagnostics["spin_check"]["broken_minus_restricted"] < -0.003


@pytest.mark.long
def test_square_cyclobutadiene_is_a_singlet_diradical(structure):
    """Its triplet lies below the restricted solution and the broken-symmetry singlet below both."""
    mf = restricted(structure("square cyclobutadiene"))
    with pytest.raises(SimulatorError) as caught:
        check_spin(mf, AUTO)
    assert (caught.value.outcome, caught.value.reason) == ("unstable", "scf_unstable")
    found = caught.value.diagnostics["spin_check"]
    assert found["broken_minus_restricted"] < found["triplet_minus_singlet"] < 0


def test_the_verdict_agrees_with_pyscf_stability_analysis(structure):
    """PySCF's external (RHF to UHF) analysis, exact and dear, on two molecules small enough for it."""
    for name, stable in (("formaldehyde", True), ("nitroxyl", False)):
        mf = restricted(structure(name))
        assert bool(mf.stability(internal=False, external=True, return_status=True)[3]) is stable


def occupation(geometry, settings=QUICK):
    mf = mean_field(build(geometry, settings), settings)
    mf.kernel()
    return pair_occupation(mf)


@pytest.mark.parametrize("distance", [0.74, 1.5, 2.5])
def test_two_electrons_in_two_orbitals_equal_full_ci(distance):
    """H2 in a minimal basis: the two determinants are all there are, so PySCF's full CI has the same occupation."""
    from pyscf import fci, gto, scf

    geometry = Geometry((1, 1), np.array([[0, 0, 0], [0, 0, distance]]))
    mf = scf.RHF(gto.M(atom=f"H 0 0 0; H 0 0 {distance}", basis="sto-3g", verbose=0)).run()
    solver = fci.FCI(mf)
    _, vector = solver.kernel()
    exact = np.linalg.eigvalsh(solver.make_rdm1(vector, 2, 2)).min()
    found = occupation(geometry, DftSettings(functional="hf", basis="sto-3g"))
    assert found["pair_occupation"] == pytest.approx(exact, abs=2e-3)
    assert found["pair"] == "HOMO > LUMO"


def ozone() -> Geometry:
    """Experiment: 1.272 angstrom, 116.8 degrees."""
    return Geometry((8, 8, 8), np.array([[0, 0, 0], [1.0837, 0.6666, 0], [-1.0837, 0.6666, 0]]))


@pytest.mark.parametrize("basis", ["def2-svp", "def2-svpd"])
def test_ozone_is_near_degenerate_though_no_instability_shows_it(basis):
    with pytest.raises(SimulatorError) as caught:
        single_point(ozone(), DftSettings(grid_level=0, basis=basis))
    assert (caught.value.outcome, caught.value.reason) == ("unstable", "near_degenerate")
    found = caught.value.diagnostics["spin_check"]
    assert found["triplet_minus_singlet"] > 0.5 and found["broken_minus_restricted"] > -0.003


@pytest.mark.parametrize("name", ["water", "formaldehyde", "cyanide"])
def test_ordinary_molecules_lie_far_below_the_limit(structure, name):
    found = occupation(structure(name, charge=-1 if name == "cyanide" else 0))
    assert found["pair_occupation"] < MAX_PAIR_OCCUPATION / 2


def test_even_fluorine_stays_below_it():
    assert occupation(Geometry((9, 9), np.array([[0, 0, 0], [0, 0, 1.412]])))["pair_occupation"] < 0.15
