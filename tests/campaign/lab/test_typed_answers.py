"""Texts that people type: right, or refused with the fix."""

from __future__ import annotations

import pytest

from sciagent.campaign.lab.typed_answers import typed, typed_answer
from sciagent.domain.outcomes import Reason
from sciagent.domain.properties import properties
from sciagent.domain.quantities import Censoring, convert
from sciagent.errors import UsageError


def test_a_value_keeps_its_digits_and_its_unit() -> None:
    found = typed("homo_lumo_gap", "4.310 eV", "0.02")
    assert (found.value, found.unit, found.uncertainty, found.as_typed) == (4.31, "eV", 0.02, "4.310 eV")
    assert typed("homo_lumo_gap", "<0.5 eV").censoring is Censoring.BELOW
    assert typed("homo_lumo_gap", "0.5 eV", limit="above").censoring is Censoring.ABOVE
    assert typed("logp", "2.1").unit == "1", "a number without a unit"


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"values": {"homo_lumo_gap": "n.d."}}, '"n.d." is no number with a unit'),
        ({"values": {"homo_lumo_gap": "4.3"}}, "the number has no unit; one of: eV"),
        ({"values": {"gap": "4.3 eV"}}, 'unknown property "gap"'),
        ({"values": {}, "not_obtained": ""}, "no value was given, and no reason"),
        ({"values": {"homo_lumo_gap": "4 eV"}, "not_obtained": "decomposed"}, "give one of the two"),
        ({"values": {}, "not_obtained": "lost"}, '"lost" is no reason'),
        ({"values": {"homo_lumo_gap": "4 eV"}, "uncertainties": {"dipole": "1"}}, "an uncertainty of dipole"),
        ({"values": {"homo_lumo_gap": "4 eV"}, "uncertainties": {"homo_lumo_gap": "-1"}}, "no number, at least 0"),
    ],
)
def test_what_cannot_be_read_is_refused(said: dict[str, object], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        typed_answer({"values": {}, "uncertainties": {}, "limit": "", "not_obtained": ""} | said)


CANONICAL: list[tuple[str, str, float, float | None, str]] = [
    ("melting_point", "25 °C", 298.15, None, "none"),
    ("melting_point", "-20 °C", 253.15, None, "none"),
    ("melting_point", "\u221220 °C", 253.15, None, "none"),
    ("melting_point", "25.0 ± 0.5 °C", 298.15, 0.5, "none"),
    ("melting_point", "25.0+/-0.5 degC", 298.15, 0.5, "none"),
    ("melting_point", "<25 °C", 298.15, None, "below"),
    ("melting_point", "300 K", 300, None, "none"),
    ("pka", "7.4", 7.4, None, "none"),
    ("pka", "\u22121.5", -1.5, None, "none"),
    ("optical_gap", "400 nm", 3.0996, None, "none"),
    ("optical_gap", "400 ± 4 nm", 3.0996, 0.030996, "none"),
    ("optical_gap", ">400 nm", 3.0996, None, "below"),
    ("absorption_maximum", "3.1 eV", 399.949, None, "none"),
    ("pic50", "10 nM", 8, None, "none"),
    ("pic50", "10 nmol/L", 8, None, "none"),
    ("pic50", "10 ± 1 nM", 8, 0.043429, "none"),
    ("pic50", ">100 \u00b5M", 4, None, "below"),
    ("pic50", "6.2", 6.2, None, "none"),
    ("log_molar_solubility", "1 mM", -3, None, "none"),
    ("log_molar_solubility", "<1 mM", -3, None, "below"),
    ("solubility", "12.3 mM", 0.0123, None, "none"),
    ("solubility", "12.30\u00a0mM", 0.0123, None, "none"),
    ("solubility", "1e-3 mol/L", 0.001, None, "none"),
    ("solubility", "1E-3 M", 0.001, None, "none"),
    ("solubility", "<0.05 \u03bcM", 5e-8, None, "below"),
    ("mass_solubility", "2 mg/mL", 2, None, "none"),
    ("mass_solubility", "2mg/L", 0.002, None, "none"),
    ("homo_lumo_gap", "100 kcal/mol", 4.33641, None, "none"),
    ("quantum_yield", "45 %", 0.45, None, "none"),
    ("quantum_yield", "45%", 0.45, None, "none"),
    ("quantum_yield", ".45", 0.45, None, "none"),
    ("density", "998 kg/m^3", 0.998, None, "none"),
    ("vapour_pressure", "760 mmHg", 101325, None, "none"),
    ("purity", "98.5 %", 98.5, None, "none"),
]
REFUSED: list[tuple[str, str, str]] = [
    ("solubility", "1,5 mM", "write a decimal point: 1.5 mM"),
    ("solubility", "n.d.", "where there is no value, say why"),
    ("solubility", "about 3 mM", "write it as 12.3 mg/L"),
    ("pka", "-0.85-0.85", "is no number with a unit"),
    ("solubility", "12.3(5) mM", "is not given in"),
    ("solubility", "3", "the number has no unit; one of: mol/L"),
    ("solubility", "3 mg/L", 'is not given in "mg/L"'),
    ("melting_point", "25 F", 'is not given in "F"'),
    ("pka", "7.4 pH", "is not given in"),
    ("density", "", "is no number with a unit"),
]


@pytest.mark.parametrize(("name", "text", "value", "spread", "censoring"), CANONICAL)
def test_what_people_type_in_the_canonical_unit(
    name: str, text: str, value: float, spread: float | None, censoring: str
) -> None:
    found = convert(typed(name, text), properties()[name])
    assert found.value == pytest.approx(value, rel=1e-5) and found.censoring == censoring
    assert found.uncertainty == (spread if spread is None else pytest.approx(spread, rel=1e-4))


@pytest.mark.parametrize(("name", "text", "hint"), REFUSED)
def test_what_cannot_be_read_is_refused_with_the_fix(name: str, text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        typed(name, text)


def test_an_uncertainty_is_given_once() -> None:
    with pytest.raises(UsageError, match="the uncertainty is given twice"):
        typed("pka", "7.4 ± 0.1", "0.2")


def test_a_reason_stands_for_a_value() -> None:
    said = {"values": {}, "uncertainties": {}, "limit": "", "not_obtained": "insoluble"}
    assert typed_answer(said).not_obtained is Reason.INSOLUBLE
