"""The units that a campaign chose, and values in them."""

from __future__ import annotations

import pytest

from sciagent.domain.campaigns.chosen_units import as_imported, shown
from sciagent.domain.evidence import Measured
from sciagent.domain.properties import Level, properties
from sciagent.domain.quantities import Quantity, convert

LEVEL = Level("experiment")


def measured(value: float, unit: str, uncertainty: float | None = None, typed: str | None = None) -> Measured:
    prop = properties()["solvation_free_energy"]
    return Measured(prop.name, LEVEL, convert(Quantity(value, unit, uncertainty, as_typed=typed), prop))


def test_a_value_is_shown_in_the_chosen_unit_with_its_uncertainty() -> None:
    seen = shown(measured(-5.0, "kcal/mol", 0.2), {"solvation_free_energy": "kcal/mol"})
    assert str(seen.quantity) == "-5.0 ± 0.2 kcal/mol"
    assert seen.quantity.value == pytest.approx(-5.0, abs=1e-12)
    assert shown(measured(-0.2, "eV"), {}).quantity.unit == "eV"


def test_an_imported_value_keeps_the_unit_it_was_typed_in() -> None:
    assert as_imported(measured(-5.0, "kcal/mol", typed="-5.00 kcal/mol")).quantity.unit == "kcal/mol"
    assert as_imported(measured(-0.2, "eV", typed="-0.2")).quantity.unit == "eV"
