"""Entropies against the NIST-JANAF tables, and all thermal functions against ASE's and xtb's own."""

from __future__ import annotations

import numpy as np
import pytest
from ase.build import molecule
from ase.thermochemistry import HarmonicThermo, IdealGasThermo
from ase.units import invcm

from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.thermochemistry.ideal_gas_and_symmetry_number import (
    Conditions,
    K,
    free_rotor_entropy,
    oscillator_entropy,
    rotor_share,
    thermal,
)
from tests.support.fundamentals import AMMONIA, BENZENE, WATER

JOULE_PER_MOL = 96485.33212  # J/mol in one eV

# name: fundamentals (cm^-1), symmetry number, S(298.15 K, 1 bar) in J/(mol K) of
# NIST-JANAF (benzene: McBride, Gordon, Reno, NASA TM-4513 (1993))
GASES = {
    "H2O": (WATER, 2, 188.84),
    "NH3": (AMMONIA, 3, 192.77),
    "CO2": ((667, 667, 1333, 2349), 2, 213.79),
    "CH4": ((1306, 1306, 1306, 1534, 1534, 2917, 3019, 3019, 3019), 12, 186.25),
    "N2": ((2330,), 2, 191.61),
    "HCN": ((712, 712, 2089, 3312), 1, 201.83),
    "C6H6": (BENZENE, 12, 269.17),
}
BAR = 1 / 1.01325  # atm


BONDS = {"N2": 1.0977, "O2": 1.2075}  # angstrom (Huber, Herzberg 1979); those of G2 are 0.03 too long


def geometry(name: str, multiplicity: int = 1) -> Geometry:
    atoms = molecule(name)
    if name in BONDS:
        atoms.set_distance(0, 1, BONDS[name])
    return Geometry(tuple(int(z) for z in atoms.numbers), atoms.positions, 0, multiplicity)


@pytest.mark.parametrize("name", GASES)
def test_entropies_of_gases_are_those_of_the_tables(name):
    """The geometries of G2 (MP2/6-31G*) give moments of inertia within 2 percent, hence 0.2 J/(mol K)."""
    frequencies, symmetry, expected = GASES[name]
    found = thermal(geometry(name), np.array(frequencies, dtype=float), Conditions(298.15, BAR))
    assert found.symmetry == symmetry
    assert found.entropy * JOULE_PER_MOL == pytest.approx(expected, abs=0.35)


def test_atoms_and_radicals_have_the_entropies_of_the_tables():
    """NIST-JANAF, 1 bar: helium 126.15, hydrogen atom 114.72, dioxygen 205.15 J/(mol K) (triplet, 1580 cm^-1)."""
    helium = thermal(Geometry((2,), np.zeros((1, 3))), np.array([]), Conditions(298.15, BAR))
    hydrogen = thermal(Geometry((1,), np.zeros((1, 3)), 0, 2), np.array([]), Conditions(298.15, BAR))
    oxygen = thermal(geometry("O2", 3), np.array([1580.0]), Conditions(298.15, BAR))
    found = [x.entropy * JOULE_PER_MOL for x in (helium, hydrogen, oxygen)]
    assert found == pytest.approx([126.15, 114.72, 205.15], abs=0.2)
    assert helium.enthalpy == pytest.approx(2.5 * K * 298.15)


@pytest.mark.parametrize("temperature", [100.0, 298.15, 800.0])
def test_all_functions_equal_those_of_ase(temperature):
    atoms = molecule("C6H6")
    frequencies = np.linspace(400, 3100, 30)
    ase = IdealGasThermo(frequencies * invcm, "nonlinear", atoms=atoms, symmetrynumber=12, spin=0, potentialenergy=0)
    found = thermal(geometry("C6H6"), frequencies, Conditions(temperature))
    assert found.symmetry == 12
    assert found.enthalpy == pytest.approx(ase.get_enthalpy(temperature, verbose=False), abs=1e-5)
    assert found.harmonic_entropy == pytest.approx(ase.get_entropy(temperature, 101325.0, verbose=False), abs=1e-8)
    assert found.zero_point == pytest.approx(0.5 * invcm * frequencies.sum(), rel=1e-6)
    oscillators = HarmonicThermo(frequencies * invcm)
    assert oscillator_entropy(frequencies, temperature).sum() == pytest.approx(
        oscillators.get_entropy(temperature, verbose=False), rel=1e-5
    )


def test_a_soft_mode_has_the_entropy_of_a_rotor_and_a_stiff_one_that_of_an_oscillator():
    """Grimme (2012): at 100 cm^-1 both count alike."""
    assert rotor_share(np.array([100.0])) == pytest.approx([0.5])
    soft, stiff = np.array([1.0]), np.array([1500.0])
    assert oscillator_entropy(soft, 298.15) > 1.5 * free_rotor_entropy(soft, 298.15)
    water = geometry("H2O")
    low = thermal(water, np.array([5.0, 3657.0, 3756.0]), Conditions())
    assert low.entropy < low.harmonic_entropy - 1e-4
    high = thermal(water, np.array([1595.0, 3657.0, 3756.0]), Conditions())
    assert high.entropy == pytest.approx(high.harmonic_entropy, abs=1e-9)
    assert rotor_share(stiff)[0] < 1e-4


def test_a_litre_of_a_mole_lies_above_an_atmosphere():
    """RT ln(24.465) = 1.894 kcal/mol at 298.15 K."""
    water, frequencies = geometry("H2O"), np.array([1595.0, 3657.0, 3756.0])
    gas, solution = (thermal(water, frequencies, Conditions(298.15, p)).gibbs(298.15) for p in (1.0, None))
    assert (solution - gas) * JOULE_PER_MOL / 4184 == pytest.approx(1.894, abs=0.001)


def test_frequencies_that_are_not_positive_are_refused():
    with pytest.raises(ValueError, match=r"must be positive: -5.0"):
        thermal(geometry("N2"), np.array([-5.0]), Conditions())
