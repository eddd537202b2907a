"""Masses by volume against amounts by volume, by molar masses that IUPAC's atomic weights give."""

from __future__ import annotations

import math

import pytest
from pymatgen.core import Lattice, Structure

from sciagent.chemistry.crystal import crystal_from_structure
from sciagent.chemistry.mass_concentrations import conversions, molar_mass, to_canonical_by_mass, units_for
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.errors import UnitError

ASPIRIN = parse_molecule("CC(=O)Oc1ccccc1C(=O)O")
MASS = 9 * 12.011 + 8 * 1.008 + 4 * 15.999  # C9H8O4, g/mol


def test_the_molar_mass_is_that_of_the_formula() -> None:
    assert molar_mass(ASPIRIN) == pytest.approx(MASS, abs=0.01)


@pytest.mark.parametrize(
    ("name", "value", "unit", "expected"),
    [
        ("solubility", 4.6, "mg/mL", 4.6 / MASS),
        ("solubility", 4.6, "g/L", 4.6 / MASS),
        ("solubility", 250.0, "ug/mL", 0.25 / MASS),
        ("log_molar_solubility", 12.3, "mg/L", math.log10(0.0123 / MASS)),
        ("pic50", 5.0, "ng/mL", -math.log10(5e-6 / MASS)),
        ("solubility", 5.0, "mmol/L", 0.005),
    ],
)
def test_a_mass_by_volume_becomes_an_amount(name: str, value: float, unit: str, expected: float) -> None:
    found = to_canonical_by_mass(Quantity(value, unit), properties()[name], ASPIRIN)
    assert (found.value, found.unit) == (pytest.approx(expected, rel=1e-4), properties()[name].unit)


def test_uncertainty_limit_and_digits_are_converted_with_the_value() -> None:
    typed = Quantity(12.3, "mg/L", 0.4, Censoring.BELOW, as_typed="<12.3 mg/L")
    by_logarithm = to_canonical_by_mass(typed, properties()["log_molar_solubility"], ASPIRIN)
    assert by_logarithm.uncertainty == pytest.approx(0.4 / 12.3 / math.log(10))
    assert (by_logarithm.censoring, by_logarithm.as_typed) == (Censoring.BELOW, "<12.3 mg/L")
    assert to_canonical_by_mass(typed, properties()["pic50"], ASPIRIN).censoring is Censoring.ABOVE


def test_the_words_name_the_molar_mass() -> None:
    values = {"solubility": Quantity(4.6, "mg/mL", as_typed="4.6 mg/mL"), "melting_point": Quantity(410.0, "K")}
    assert conversions(values, ASPIRIN) == ("solubility 4.6 mg/mL is 0.02553 mol/L, by the molar mass of 180.16 g/mol",)


def test_what_has_no_molecules_is_refused_with_the_units_that_it_takes() -> None:
    rock_salt = crystal_from_structure(
        Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.63), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]])
    )
    solubility = properties()["solubility"]
    assert "g/L" not in units_for(rock_salt, solubility) and "g/L" in units_for(ASPIRIN, solubility)
    assert conversions({"solubility": Quantity(4.6, "g/L")}, rock_salt) == ()
    with pytest.raises(UnitError, match=r"needs the molar mass of a molecule, and .* is none; it takes: mol/L, mmol/L"):
        to_canonical_by_mass(Quantity(4.6, "g/L", as_typed="4.6 g/L"), solubility, rock_salt)
