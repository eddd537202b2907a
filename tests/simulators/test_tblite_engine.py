"""Against Grimme's own program: `xtb NAME.xyz --gfn N --sp` of Debian's xtb 6.5.1, structures of conftest.py.

H2O+ with `--chrg 1 --uhf 1 --acc 0.01`. Energies agree to 1e-6 hartree, orbitals to the four digits printed.

Against Debian's xtb 6.5.1: `XTBPATH=/usr/share/xtb xtb NAME.xyz [--gfn 2] [--alpb water] --acc 0.01 --vipea`.
"""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators import tblite_engine
from sciagent_simulators.geometry_and_its_checks import Geometry, bonds_of
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvation
from sciagent_simulators.starting_geometry import GeometryProtocol, prepare
from sciagent_simulators.tblite_engine import (
    DEBYE,
    HARTREE,
    IPEA_SHIFT,
    check_relaxation,
    energies,
    frontier,
    ionisation_difference,
    ionised,
    relax,
    relaxed_ion,
    single_point,
)

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


# name, method, solvent, ionisation energy, electron affinity (eV)
VIPEA = [
    ("water", "IPEA1-xTB", None, 13.7984, -2.0331),
    ("water", "IPEA1-xTB", "water", 10.5745, 0.5902),
    ("water", "GFN2-xTB", None, 13.4784, -11.7616),
    ("formaldehyde", "IPEA1-xTB", None, 11.3378, -1.5556),
    ("formaldehyde", "GFN2-xTB", "water", 7.5822, 1.4146),
    ("benzene", "IPEA1-xTB", None, 9.4976, -1.5378),
    ("benzene", "IPEA1-xTB", "water", 7.4568, 0.4472),
    ("benzene", "GFN2-xTB", None, 9.3253, -1.9396),
]


@pytest.mark.parametrize(("name", "method", "solvent", "ip", "ea"), VIPEA)
def test_vertical_energies_match_xtb(structure, name, method, solvent, ip, ea):
    """To the four digits that xtb prints."""
    neutral = structure(name)
    solvation = Solvation(solvent) if solvent else None
    for ion, value in (("cation", ip), ("anion", ea)):
        found, _ = ionisation_difference(neutral, ionised(neutral, ion), ion, method, solvation)
        assert found == pytest.approx(value, abs=2e-4)


def test_the_shift_is_the_one_xtb_prints():
    assert pytest.approx(4.8455, abs=5e-5) == IPEA_SHIFT


@pytest.mark.parametrize(("multiplicity", "expected"), [(1, 2), (2, 1), (3, 2)])
def test_an_ion_is_one_step_of_spin_away(structure, multiplicity, expected):
    charge = 1 if multiplicity == 2 else 0
    neutral = structure("oxygen", charge=charge, multiplicity=multiplicity)
    assert ionised(neutral, "cation").multiplicity == expected
    assert ionised(neutral, "anion").charge == charge - 1


def test_a_proton_has_no_electrons_to_compute():
    with pytest.raises(SimulatorError) as caught:
        hydrogen = Geometry((1,), np.zeros((1, 3)), multiplicity=2)
        ionisation_difference(hydrogen, ionised(hydrogen, "cation"), "cation")
    assert (caught.value.outcome, caught.value.reason) == ("refused", "multiplicity")


def test_helium_has_no_room_for_another_electron():
    helium = Geometry((2,), np.zeros((1, 3)))
    with pytest.raises(SimulatorError) as caught:
        ionisation_difference(helium, ionised(helium, "anion"), "anion")
    assert (caught.value.outcome, caught.value.reason) == ("refused", "missing_basis")


@pytest.mark.parametrize(
    ("smiles", "ion", "reason"),
    [("CI", "anion", "anion_dissociated"), ("OO", "anion", "anion_dissociated")],
    ids=["iodomethane", "hydrogen peroxide"],
)
def test_an_electron_too_many_breaks_the_weakest_bond(smiles, ion, reason):
    """Dissociative attachment: CH3I + e- gives CH3 and I- without a barrier (Hotop et al., Adv. At. Mol. Opt. Phys.
    49, 85 (2003)); H2O2 gives OH and OH-."""
    neutral, _ = prepare(smiles, 0, 1, GeometryProtocol(conformers=1), seed=1)
    with pytest.raises(SimulatorError) as caught:
        relaxed_ion(ionised(neutral, ion), ion, bonds_of(smiles))
    assert (caught.value.outcome, caught.value.reason) == ("unstable", reason)


def test_relaxing_an_ion_lowers_its_energy_or_the_value_is_refused():
    check_relaxation("cation", vertical=9.0, adiabatic=8.8)
    check_relaxation("anion", vertical=1.0, adiabatic=1.3)
    check_relaxation("anion", vertical=1.0, adiabatic=0.8)
    for ion, adiabatic in (("cation", 1.4), ("anion", 0.6)):
        with pytest.raises(SimulatorError) as caught:
            check_relaxation(ion, vertical=1.0, adiabatic=adiabatic)
        assert (caught.value.outcome, caught.value.reason) == ("implausible", "implausible_value")
