"""How far a value lies from its limits, as text."""

from __future__ import annotations

import pytest

from sciagent.domain.answers.candidate_and_value_answers import LimitMargin, MethodFigures

FIGURES = MethodFigures(
    n=30, mean_error=0.1, mean_absolute_error=0.3, unit="eV", chemistry="organics", reference="experiment", source="a"
)


def margin(**changed: object) -> LimitMargin:
    fields = {"property": "adiabatic_ionization_energy", "rung": "xtb", "margin": 0.12, "unit": "eV"}
    fields |= {"repeatability": 0.03, "uncertainty_kind": "class", "isomer": None, "method": FIGURES}
    return LimitMargin.model_validate(fields | changed)


def test_both_numbers_are_named() -> None:
    assert str(margin()) == "clear of the limits by 0.1 ± 0.3 eV (method), ± 0.03 eV (repeatability of its class)"
    assert str(margin(uncertainty_kind="molecule")).endswith("± 0.03 eV (repeatability)")
    isomer = {"smiles": "C/C=C/C#N", "label": "E", "possible": 2, "different": 2, "is_upper_bound": False}
    assert str(margin(isomer=isomer)).endswith("± 0.03 eV (repeatability of its class of one isomer of 2)")
    assert str(margin(margin=-0.5)).startswith("outside the limits by 0.5 ± 0.3 eV (method)")


def test_without_the_methods_error_the_text_says_so() -> None:
    text = str(margin(method=None))
    assert text == "clear of the limits by 0.12 ± 0.03 eV (repeatability), the method's error is not known"
    assert margin(method=None).is_clear() is None and margin(method=None).cell() == "0.12"


@pytest.mark.parametrize(("distance", "clear"), [(0.12, False), (0.31, True), (-0.31, True), (-0.2, False)])
def test_a_value_is_clear_beyond_the_mean_absolute_error(distance: float, clear: bool) -> None:
    assert margin(margin=distance).is_clear() is clear


def test_an_error_that_begins_with_one_keeps_two_digits() -> None:
    figures = FIGURES.model_copy(update={"mean_absolute_error": 1.146, "unit": "kcal/mol"})
    text = str(margin(margin=0.38, unit="kcal/mol", method=figures))
    assert text.startswith("clear of the limits by 0.4 ± 1.1 kcal/mol (method)")
    assert margin(margin=0.38, unit="kcal/mol", method=figures).cell() == "0.4 ± 1.1 (method)"


def test_of_an_exact_value_nothing_is_uncertain() -> None:
    assert str(margin(repeatability=0.0, method=None)) == "clear of the limits by 0.12 eV"
