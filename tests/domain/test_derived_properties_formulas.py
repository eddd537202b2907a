"""Formulas: what is read, what is refused, units, and slopes against differences."""

from __future__ import annotations

import math

import pytest

from sciagent.domain.derived_properties import read_formula, with_names
from sciagent.domain.units import in_base_units
from sciagent.errors import UnitError, UsageError

EV = 1.602176634e-19
UNITS = {"a": "eV", "b": "kcal/mol", "x.c": "V", "d": "D"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a - b", 3 * EV - 2 * 4184 / 6.02214076e23),
        ("-(a + 4.44 eV) / 2", -(3 + 4.44) / 2 * EV),
        ("a / 1 e - 4.44 V - x.c", 3 - 4.44 - 0.5),
        ("2.5e-1 * a", 0.75 * EV),
        ("a*a/a", 3 * EV),
        ("a + 25 kJ/mol", 3 * EV + 25e3 / 6.02214076e23),
    ],
)
def test_the_value_is_that_of_the_same_sum_by_hand(text: str, expected: float) -> None:
    values = {name: v * in_base_units(UNITS[name]).factor for name, v in (("a", 3.0), ("b", 2.0), ("x.c", 0.5))}
    formula = read_formula(text)
    formula.dimension(UNITS)
    result = formula.evaluate(values)
    value, slopes = result.value, result.slopes
    assert value == pytest.approx(expected, rel=1e-9)
    for name in formula.parts:  # against central differences
        step = 1e-6 * values[name]
        low, high = (formula.evaluate(values | {name: values[name] + s}).value for s in (-step, step))
        assert slopes[name] == pytest.approx((high - low) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("text", ["a + d", "a - 3", "a * b - a", "1 / a + a"])
def test_a_sum_of_different_dimensions_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"(sum|difference) of"):
        read_formula(text).dimension(UNITS)


@pytest.mark.parametrize(
    "text",
    ["", "4", "a b", "a ** 2", "a // b", "f(a)", "a.b.c", "a[0]", "'a'", "a if b else d", "a; b", "(a", "a + 1e999",
     "__import__('os').system('x')", "a := 3", "not a", "~a", "a < b", "a" * 600, "-" * 499 + "a"],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    try:
        read_formula(text)
    except UsageError:
        return
    assert text == "-" * 499 + "a" and math.isclose(read_formula(text).evaluate({"a": 1.0}).value, -1.0)


def test_a_number_with_no_unit_of_the_field_is_refused() -> None:
    with pytest.raises(UnitError, match='"eW" is no unit'):
        read_formula("a - 4.44 eW")
    with pytest.raises(UnitError, match="another zero"):
        read_formula("a - 4.44 degC")


def test_names_are_replaced_and_units_are_not() -> None:
    assert with_names("eV - 4.4 eV * x.c", lambda name: f"<{name}>") == "<eV> - 4.4 eV * <x.c>"
