"""The units that a campaign chose, and values in them."""

from __future__ import annotations

import pytest

from sciagent.domain.display_units import as_imported, in_chosen_unit, spec_in_chosen_units, window_text
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.objectives import Window
from sciagent.domain.properties_and_levels import Level, properties
from sciagent.domain.quantities import Quantity, to_canonical

LEVEL = Level("experiment")


def measured(value: float, unit: str, uncertainty: float | None = None, typed: str | None = None) -> Measured:
    prop = properties()["solvation_free_energy"]
    return Measured(prop.name, LEVEL, to_canonical(Quantity(value, unit, uncertainty, as_typed=typed), prop))


def test_a_value_is_shown_in_the_chosen_unit_with_its_uncertainty() -> None:
    seen = in_chosen_unit(measured(-5.0, "kcal/mol", 0.2), {"solvation_free_energy": "kcal/mol"})
    assert str(seen.quantity) == "-5.0 ± 0.2 kcal/mol"
    assert seen.quantity.value == pytest.approx(-5.0, abs=1e-12)
    assert in_chosen_unit(measured(-0.2, "eV"), {}).quantity.unit == "eV"


def test_an_imported_value_keeps_the_unit_it_was_typed_in() -> None:
    assert as_imported(measured(-5.0, "kcal/mol", typed="-5.00 kcal/mol")).quantity.unit == "kcal/mol"
    assert as_imported(measured(-0.2, "eV", typed="-0.2")).quantity.unit == "eV"


UNITS = {"solvation_free_energy": "kcal/mol"}


def test_limits_read_as_they_were_written() -> None:
    low = to_canonical(Quantity(-8.1, "kcal/mol"), properties()["solvation_free_energy"]).value
    assert window_text("solvation_free_energy", Window(low, None), UNITS) == "-8.1 ≤ solvation_free_energy kcal/mol"
    assert window_text("solvation_free_energy", Window(None, 0.5), {}) == "solvation_free_energy ≤ 0.5 eV"


def test_a_spec_is_shown_with_all_its_numbers_in_the_chosen_unit() -> None:
    factor = 4.184 / 96.48533212331  # eV for one kcal/mol
    objective = {"property": "solvation_free_energy", "unit": "eV", "accept": [-8 * factor, None], "scale": 2 * factor}
    other = {"property": "dipole", "unit": "D", "accept": [None, 3.0], "scale": 1.0}
    spec = {
        "campaign": "desk",
        "objectives": [objective, other],
        "ladder": [{"rung": "alpb", "gate": {"solvation_free_energy": [None, factor], "dipole": [0.0, 3.0]}}],
    }
    shown_form = spec_in_chosen_units(spec, UNITS)
    stated = {"unit": "kcal/mol", "accept": [-8.0, None], "scale": 2.0}
    assert shown_form["objectives"] == [objective | stated, other]
    assert shown_form["ladder"][0]["gate"] == {"solvation_free_energy": [None, 1.0], "dipole": [0.0, 3.0]}
    assert shown_form["campaign"] == "desk" and objective["unit"] == "eV"


def test_the_limit_of_a_property_that_another_process_defines_is_told_as_it_is() -> None:
    assert window_text("of_a_notebook", Window(low=0.2), {}) == "0.2 ≤ of_a_notebook"
    assert window_text("of_a_notebook", Window(high=3.0), {"of_a_notebook": "V"}) == "of_a_notebook ≤ 3 V"
