"""Quantities: conversions against published factors, and units that a property does not take."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sciagent.domain.properties_and_levels import BUILT_IN, Property, properties
from sciagent.domain.quantities import (
    Censoring,
    ComputedIsomer,
    Quantity,
    conversion_factor,
    isomer_of_parts,
    named_value_text,
    to_canonical,
    value_text,
)
from sciagent.errors import UnitError

# CODATA 2018: 1 hartree = 27.211386245988 eV, 1 eV = 96.485332123310 kJ/mol, 1 e*angstrom = 4.80320471 D
FACTORS = [
    ("homo_lumo_gap", "hartree", 27.211386245988),
    ("homo_lumo_gap", "meV", 1e-3),
    ("solvation_free_energy", "kJ/mol", 1 / 96.48533212331),
    ("solvation_free_energy", "kcal/mol", 4.184 / 96.48533212331),
    ("s1_energy", "cm^-1", 1 / 8065.543937),
    ("adiabatic_electron_affinity", "meV", 1e-3),
    ("dipole", "e*angstrom", 4.803204712570263),
    ("molecular_weight", "Da", 1.0),
    ("formation_energy", "meV/atom", 1e-3),
    ("oxidation_potential", "mV", 1e-3),
    ("yield", "1", 100.0),
]


@pytest.mark.parametrize(("name", "unit", "factor"), FACTORS)
def test_known_factors(name: str, unit: str, factor: float) -> None:
    assert conversion_factor(unit, properties()[name]) == pytest.approx(factor, rel=1e-8)


@pytest.mark.parametrize("prop", BUILT_IN, ids=lambda p: p.name)
def test_every_unit_of_every_property_converts(prop: Property) -> None:
    for unit in prop.units:
        assert 0 < conversion_factor(unit, prop) < math.inf
    assert conversion_factor(prop.unit, prop) == 1.0


@pytest.mark.parametrize("unit", ["pH", "", "EV", "ev", "kJ", "1", "eV; import os", "hartree "])
def test_a_unit_outside_the_list_is_refused(unit: str) -> None:
    with pytest.raises(UnitError, match="it takes: eV, hartree, kJ/mol"):
        conversion_factor(unit, properties()["homo_lumo_gap"])


def test_the_nearest_unit_is_offered() -> None:
    with pytest.raises(UnitError, match='did you mean "hartree"'):
        conversion_factor("hartre", properties()["homo_lumo_gap"])


@pytest.mark.parametrize(
    ("name", "written", "offered"),
    [
        ("homo_lumo_gap", "ev", "eV"),
        ("homo_lumo_gap", "EV", "eV"),
        ("homo_lumo_gap", "Hartree", "hartree"),
        ("homo_lumo_gap", "mev", "meV"),
        ("homo_lumo_gap", "electronvolt", "eV"),
        ("dipole", "d", "D"),
        ("dipole", "Debye", "D"),
        ("solvation_free_energy", "KJ / mol", "kJ/mol"),
    ],
)
def test_another_case_or_the_full_name_is_told_how_it_is_written_here(name: str, written: str, offered: str) -> None:
    with pytest.raises(UnitError, match=f'did you mean "{offered}"'):
        conversion_factor(written, properties()[name])


def test_all_of_a_quantity_is_converted() -> None:
    typed = Quantity(0.20, "hartree", 0.01, Censoring.ABOVE, 3, "0.20")
    made = to_canonical(typed, properties()["homo_lumo_gap"])
    assert (made.unit, made.censoring, made.n, made.as_typed) == ("eV", Censoring.ABOVE, 3, "0.20")
    assert made.value == pytest.approx(5.4422772492) and made.uncertainty == pytest.approx(0.27211386246)
    assert to_canonical(made, properties()["homo_lumo_gap"]) == made
    assert to_canonical(Quantity(1.0, "meV"), properties()["homo_lumo_gap"]).uncertainty is None


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats() | st.none(), st.integers(-3, 3))
def test_only_finite_numbers_are_quantities(value: float, uncertainty: float | None, n: int) -> None:
    good = math.isfinite(value) and n >= 1
    good = good and (uncertainty is None or (math.isfinite(uncertainty) and uncertainty >= 0))
    try:
        Quantity(value, "eV", uncertainty, n=n)
    except ValueError:
        assert not good
    else:
        assert good


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        (Quantity(3.14159, "eV", 0.05), "3.14 ± 0.05 eV"),
        (Quantity(10.0432, "eV", 0.001), "10.043 ± 0.001 eV"),
        (Quantity(-1e-9, "D", 0.6), "0.0 ± 0.6 D"),
        (Quantity(1234.5, "eV", 20.0), "1230 ± 20 eV"),
        (Quantity(0.1, "eV", None, Censoring.BELOW), "< 0.1 eV"),
        (Quantity(12.0, "1", 0.0, Censoring.ABOVE), "> 12"),
    ],
)
def test_as_a_person_reads_it(quantity: Quantity, text: str) -> None:
    assert str(quantity) == text
    assert named_value_text("gap", quantity) == f"gap {text if text[0] in '<>' else '= ' + text}"


@pytest.mark.parametrize(
    ("typed", "value", "uncertainty", "text"),
    [
        ("-5.10 kcal/mol", -5.1, 0.2, "-5.10 ± 0.20 kcal/mol"),
        ("5 kcal/mol", 5.0, 0.3, "5 ± 0.3 kcal/mol"),
        ("< 0.10 kcal/mol", 0.1, None, "0.10 kcal/mol"),
        ("-5.10 kcal/mol", -0.2211569, 0.009, "-0.221 ± 0.009 kcal/mol"),  # it was converted since
        ("high", 5.0, 0.3, "5.0 ± 0.3 kcal/mol"),
    ],
)
def test_a_typed_number_keeps_its_digits(typed: str, value: float, uncertainty: float | None, text: str) -> None:
    assert value_text(value, uncertainty, "kcal/mol", typed) == text


@pytest.mark.parametrize("quantity", [Quantity(1e308, "hartree"), Quantity(1.0, "hartree", 1e308)])
def test_a_value_that_no_unit_can_hold_is_refused(quantity: Quantity) -> None:
    with pytest.raises(UnitError, match="check the number and its unit"):
        to_canonical(quantity, properties()["homo_lumo_gap"])


E_ISOMER = ComputedIsomer("C/C=C/C#N", "E", possible=2, different=2)
Z_ISOMER = ComputedIsomer("C/C=C\\C#N", "Z", possible=2, different=2)


def test_an_isomer_says_of_how_many_it_is_one() -> None:
    assert str(E_ISOMER) == "computed for E (C/C=C/C#N), one of 2 stereoisomers; others may have other values"
    assert E_ISOMER.share == "one isomer of 2"
    enantiomer = ComputedIsomer("CC[C@H](C)O", "", possible=2, different=1)
    assert str(enantiomer) == "computed for CC[C@H](C)O, one of 2 mirror images with equal values"
    assert not enantiomer.decides_value
    assert "up to 512" in str(ComputedIsomer("CC", "", possible=512, different=512, is_upper_bound=True))


def test_a_value_of_several_isomers_names_all() -> None:
    plain, of_e, of_z = (Quantity(1.0, "eV", isomer=isomer) for isomer in (None, E_ISOMER, Z_ISOMER))
    assert isomer_of_parts([of_e, plain, of_e]) == E_ISOMER
    both = isomer_of_parts([of_z, of_e])
    assert both is not None
    assert (both.smiles, both.label) == ("C/C=C/C#N and C/C=C\\C#N", "")
    assert isomer_of_parts([plain]) is None


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        (Quantity(10.21, "1", 0.2, near=(10.2,)), "10.21 ± 0.20"),
        (Quantity(10.21, "1", 1.0, near=(8.3, 10.2)), "10.21 ± 1.00"),
        (Quantity(9.6, "1", 1.0, near=(8.3, 10.2)), "10 ± 1"),
        (Quantity(10.51, "1", 1.0, near=(11.0,)), "10.5 ± 1.0"),  # 11 would hide that it lies below
        (Quantity(506.0, "eV", 20.0, near=(510.0,)), "506 ± 20 eV"),
        (Quantity(10.20004, "eV", near=(10.2,)), "10.20004 eV"),
        (Quantity(10.2, "eV", 0.5, near=(10.2,)), "10.2 ± 0.5 eV"),
        (Quantity(10.2 + 1e-13, "eV", 0.5, near=(10.2,)), "10.2 ± 0.5 eV"),  # equal but for rounding
        (Quantity(-0.04, "eV", 0.3, near=(0.0,)), "-0.04 ± 0.30 eV"),
    ],
)
def test_the_digits_tell_a_value_from_a_limit(quantity: Quantity, text: str) -> None:
    assert str(quantity) == text


def test_a_typed_uncertainty_is_not_widened_by_rounding() -> None:
    assert str(Quantity(3.3, "V", 0.05, as_typed="3.3")) == "3.3 ± 0.05 V"
    assert str(Quantity(3.3, "V", 0.15, as_typed="3.3")) == "3.3 ± 0.15 V"
    assert str(Quantity(-5.1, "kcal/mol", 0.2, as_typed="-5.10")) == "-5.10 ± 0.20 kcal/mol"
