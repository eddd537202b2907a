from __future__ import annotations

import numpy as np
import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators.geometry import Geometry
from sciagent_simulators.near_degeneracy import NEAR_DEGENERATE, pair_occupation
from sciagent_simulators.pyscf_engine import DftSettings, build, mean_field, single_point

QUICK = DftSettings(grid_level=0)


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
    assert found["pair_occupation"] < NEAR_DEGENERATE / 2


def test_even_fluorine_stays_below_it():
    assert occupation(Geometry((9, 9), np.array([[0, 0, 0], [0, 0, 1.412]])))["pair_occupation"] < 0.15
