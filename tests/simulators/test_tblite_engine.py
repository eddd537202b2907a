"""Against Grimme's own program: `xtb NAME.xyz --gfn N --sp` of Debian's xtb 6.5.1, structures of conftest.py.

H2O+ with `--chrg 1 --uhf 1 --acc 0.01`. Energies agree to 1e-6 hartree, orbitals to the four digits printed.
"""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators import tblite_engine
from sciagent_simulators.geometry import Geometry
from sciagent_simulators.tblite_engine import DEBYE, HARTREE, energies, frontier, relax, single_point

# name, charge, multiplicity, method, energy (hartree), HOMO, LUMO (eV)
XTB = [
    ("water", 0, 1, "GFN2-xTB", -5.070370761845, -12.1769, 2.4528),
    ("water", 1, 2, "GFN2-xTB", -4.396978956367, -24.5114, -7.1365),
    ("formaldehyde", 0, 1, "GFN2-xTB", -7.175247612233, -11.5611, -8.0212),
    ("benzene", 0, 1, "GFN2-xTB", -15.878807820062, -10.9095, -6.0855),
    ("hydrogen iodide", 0, 1, "GFN2-xTB", -4.324481071845, -11.5142, -5.3942),
    ("water", 0, 1, "GFN1-xTB", -5.768640575450, -13.6206, -4.2936),
    ("formaldehyde", 0, 1, "GFN1-xTB", -7.846109102275, -12.7579, -8.6308),
    ("benzene", 0, 1, "GFN1-xTB", -15.894372096163, -11.8511, -7.0790),
]


@pytest.mark.parametrize(("name", "charge", "multiplicity", "method", "energy", "homo", "lumo"), XTB)
def test_energies_and_orbitals_match_xtb(structure, name, charge, multiplicity, method, energy, homo, lumo):
    result = single_point(structure(name, charge, multiplicity), method)
    assert result.energy / HARTREE == pytest.approx(energy, abs=1e-6)
    assert result.homo == pytest.approx(homo, abs=5e-4)
    assert result.lumo == pytest.approx(lumo, abs=5e-4)
    assert result.gap == pytest.approx(lumo - homo, abs=1e-3)


@pytest.mark.parametrize(("name", "dipole"), [("water", 2.271), ("formaldehyde", 2.388), ("hydrogen iodide", 2.356)])
def test_dipoles_match_xtb(structure, name, dipole):
    assert single_point(structure(name)).dipole == pytest.approx(dipole, abs=2e-3)


def test_dipole_of_an_ion_does_not_depend_on_where_it_lies(structure):
    """xtb prints -1.082 e bohr along z about the origin; the centre of mass lies 0.0516 angstrom above it."""
    cation = structure("water", 1, 2)
    moved = cation.moved(cation.positions + np.array([3.0, -2.0, 1.0]))
    assert single_point(cation).dipole == pytest.approx((1.082 + 0.05165 / tblite_engine.BOHR) * DEBYE, abs=3e-3)
    assert single_point(moved).dipole == pytest.approx(single_point(cation).dipole, abs=1e-6)


def test_frontier_counts_electrons_and_is_not_misled_by_smearing():
    energies = np.array([-3.0, -2.0, -1.0, 0.0])
    assert frontier(energies, np.array([2.0, 2.0, 0.0, 0.0]), 0) == (-2.0, -1.0)
    assert frontier(energies, np.array([2.0, 1.1, 0.9, 0.0]), 0) == (-2.0, -1.0)
    assert frontier(energies, np.array([2.0, 1.0, 1.0, 0.0]), 2) == (-1.0, 0.0)
    assert frontier(energies, np.array([2.0, 1.0, 0.0, 0.0]), 1) == (-2.0, -1.0)


def test_a_hydrogen_atom_has_no_gap():
    result = single_point(Geometry((1,), np.zeros((1, 3)), multiplicity=2))
    assert result.homo is not None
    assert result.lumo is None and result.gap is None


def test_relaxed_water_has_the_bond_of_gfn2(structure):
    """xtb 6.5.1 `--opt` gives r(OH) = 0.959 angstrom; two optimisers at fmax 0.05 eV/angstrom agree to 0.005."""
    geometry, result = relax(structure("water"))
    assert np.linalg.norm(geometry.positions[1] - geometry.positions[0]) == pytest.approx(0.959, abs=0.005)
    assert result.fmax < 0.05 and result.steps > 0


def test_too_few_steps_are_named(structure):
    with pytest.raises(SimulatorError) as caught:
        relax(structure("water"), fmax=1e-4, max_steps=1)
    assert (caught.value.outcome, caught.value.reason) == ("not_converged", "geometry_not_converged")


def test_too_few_cycles_are_recovered_or_named(structure, monkeypatch):
    plain = single_point(structure("water"))
    few = {"default": {"max-iter": 2}}
    monkeypatch.setattr(tblite_engine, "RECOVERY", tblite_engine.RECOVERY | few)
    recovered = single_point(structure("water"))
    assert recovered.recovery == "damped"
    assert recovered.energy == pytest.approx(plain.energy, abs=1e-5)
    monkeypatch.setattr(tblite_engine, "RECOVERY", few)
    with pytest.raises(SimulatorError) as caught:
        single_point(structure("water"))
    assert (caught.value.outcome, caught.value.reason) == ("not_converged", "scf_not_converged")


@pytest.mark.parametrize("multiplicity", [1, 3])
def test_wrong_parity_is_refused_where_xtb_says_nothing(structure, multiplicity):
    with pytest.raises(SimulatorError) as caught:
        single_point(structure("water", charge=1, multiplicity=multiplicity))
    assert caught.value.reason == "multiplicity"


def test_overlapping_atoms_are_refused_where_tblite_returns_an_energy(structure):
    with pytest.raises(SimulatorError) as caught:
        single_point(structure("hydrogen atom on hydrogen atom"))
    assert caught.value.reason == "overlapping_atoms"


def test_francium_is_refused():
    with pytest.raises(SimulatorError) as caught:
        single_point(Geometry((87, 1), np.array([[0, 0, 0], [0, 0, 3.0]])))
    assert (caught.value.outcome, caught.value.reason) == ("refused", "element")


def test_the_energy_of_what_fails_is_infinite_and_an_error_where_all_fail(structure):
    good, bad = structure("water"), structure("hydrogen atom on hydrogen atom")
    assert list(energies([bad, good])) == [np.inf, single_point(good).energy]
    with pytest.raises(SimulatorError):
        energies([bad, bad])
