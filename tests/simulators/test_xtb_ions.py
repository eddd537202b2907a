"""Against Debian's xtb 6.5.1: `XTBPATH=/usr/share/xtb xtb NAME.xyz [--gfn 2] [--alpb water] --acc 0.01 --vipea`."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators.geometry import Geometry, GeometryProtocol, bonds_of, prepare
from sciagent_simulators.implicit_solvent import Solvation
from sciagent_simulators.xtb_ions import SHIFT, check_relaxation, difference, ionised, relaxed

# name, method, solvent, ionisation energy, electron affinity (eV)
XTB = [
    ("water", "IPEA1-xTB", None, 13.7984, -2.0331),
    ("water", "IPEA1-xTB", "water", 10.5745, 0.5902),
    ("water", "GFN2-xTB", None, 13.4784, -11.7616),
    ("formaldehyde", "IPEA1-xTB", None, 11.3378, -1.5556),
    ("formaldehyde", "GFN2-xTB", "water", 7.5822, 1.4146),
    ("benzene", "IPEA1-xTB", None, 9.4976, -1.5378),
    ("benzene", "IPEA1-xTB", "water", 7.4568, 0.4472),
    ("benzene", "GFN2-xTB", None, 9.3253, -1.9396),
]


@pytest.mark.parametrize(("name", "method", "solvent", "ip", "ea"), XTB)
def test_vertical_energies_match_xtb(structure, name, method, solvent, ip, ea):
    """To the four digits that xtb prints."""
    neutral = structure(name)
    solvation = Solvation(solvent) if solvent else None
    for ion, value in (("cation", ip), ("anion", ea)):
        found, _ = difference(neutral, ionised(neutral, ion), ion, method, solvation)
        assert found == pytest.approx(value, abs=2e-4)


def test_the_shift_is_the_one_xtb_prints():
    assert pytest.approx(4.8455, abs=5e-5) == SHIFT


@pytest.mark.parametrize(("multiplicity", "expected"), [(1, 2), (2, 1), (3, 2)])
def test_an_ion_is_one_step_of_spin_away(structure, multiplicity, expected):
    charge = 1 if multiplicity == 2 else 0
    neutral = structure("oxygen", charge=charge, multiplicity=multiplicity)
    assert ionised(neutral, "cation").multiplicity == expected
    assert ionised(neutral, "anion").charge == charge - 1


def test_a_proton_has_no_electrons_to_compute():
    with pytest.raises(SimulatorError) as caught:
        hydrogen = Geometry((1,), np.zeros((1, 3)), multiplicity=2)
        difference(hydrogen, ionised(hydrogen, "cation"), "cation")
    assert (caught.value.outcome, caught.value.reason) == ("refused", "multiplicity")


def test_helium_has_no_room_for_another_electron():
    helium = Geometry((2,), np.zeros((1, 3)))
    with pytest.raises(SimulatorError) as caught:
        difference(helium, ionised(helium, "anion"), "anion")
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
        relaxed(ionised(neutral, ion), ion, bonds_of(smiles))
    assert (caught.value.outcome, caught.value.reason) == ("unstable", reason)


def test_relaxing_an_ion_lowers_its_energy_or_the_value_is_refused():
    check_relaxation("cation", vertical=9.0, adiabatic=8.8)
    check_relaxation("anion", vertical=1.0, adiabatic=1.3)
    check_relaxation("anion", vertical=1.0, adiabatic=0.8)
    for ion, adiabatic in (("cation", 1.4), ("anion", 0.6)):
        with pytest.raises(SimulatorError) as caught:
            check_relaxation(ion, vertical=1.0, adiabatic=adiabatic)
        assert (caught.value.outcome, caught.value.reason) == ("implausible", "implausible_value")
