"""Texts that people type: right, or refused with the fix."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from sciagent.cli.lab import _pairs
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.quantities import Censoring, check_possible, to_canonical
from sciagent.errors import InputFileError, UnitError, UsageError
from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabAsked
from sciagent.lab.pages.csv_answer_sheets_and_vial_labels import read_sheet
from sciagent.lab.pages.posted_results import ResultIn, answer_and_texts
from sciagent.lab.pages.typed_form_and_attachments import TypedForm
from sciagent.lab.typed_answers import answer_in_words, mean_of, typed, typed_answer
from sciagent.web.problem_answers import FieldFaultError


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
    ("solubility", "about 3 mM", "write it as 12.3 mol/L"),
    ("pka", "-0.85-0.85", "is no number with a unit"),
    ("solubility", "12.3(5) mM", "is not given in"),
    ("solubility", "3", "the number has no unit; one of: mol/L"),
    ("mass_solubility", "3 mmol/L", 'is not given in "mmol/L"'),
    ("melting_point", "25 F", 'is not given in "F"'),
    ("pka", "7.4 pH", "is not given in"),
    ("density", "", "is no number with a unit"),
    ("solubility", "12,3±0,4 mM", "write a decimal point: 12.3±0.4 mM"),
    ("solubility", "1,234.5 mM", "without commas between the thousands: 1234.5 mM"),
    ("logp", "12E4711", '"12E4711" is too large; no quantity is above 1e\\+50'),
    ("logp", "1e400", "is too large"),
    ("logp", "9" * 400, "has 400 characters; a number has 200"),
]


@pytest.mark.parametrize(("name", "text", "value", "spread", "censoring"), CANONICAL)
def test_what_people_type_in_the_canonical_unit(
    name: str, text: str, value: float, spread: float | None, censoring: str
) -> None:
    found = to_canonical(typed(name, text), properties()[name])
    assert found.value == pytest.approx(value, rel=1e-5) and found.censoring == censoring
    assert found.uncertainty == (spread if spread is None else pytest.approx(spread, rel=1e-4))


@pytest.mark.parametrize(("name", "text", "hint"), REFUSED)
def test_what_cannot_be_read_is_refused_with_the_fix(name: str, text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        typed(name, text)


@pytest.mark.parametrize(
    ("readings", "fault"),
    [
        ("-1,61\n-1,58\n-1,66", 'the reading "-1,61" is no number; write a decimal point: -1.61'),
        ("300.1, 300.2, 300.9", 'the reading "300.1," is no number; put spaces, semicolons or lines between'),
        ("300.1,300.2 300.9", "put spaces, semicolons or lines between"),
        ("4.31eV 4.32eV", "write the readings without a unit"),
        ("4.31 eV\n4.32 eV", 'the reading "eV" is no number; write the readings without a unit'),
        ("4.31±0.1 4.32", 'the reading "4.31±0.1" is no number'),
        ("1e308 1e308 1e308", 'the reading "1e308" is too large'),
        ("4.31 <4.32", 'the reading "<4.32" is no number'),
        ("4.31", "1 reading; give 2 to 1000"),
    ],
)
def test_a_reading_that_is_no_number_is_explained(readings: str, fault: str) -> None:
    with pytest.raises(UsageError, match=f"logp: .*{fault}"):
        mean_of("logp", readings)


def test_the_mean_of_readings_keeps_their_digits() -> None:
    assert mean_of("logp", " \u22121.61; -1.58\n-1.66 ") == ("-1.617", "0.0233", 3)
    assert mean_of("logp", "1.2e-4 1.4e-4") == ("0.000130", "1e-05", 2)
    assert mean_of("logp", "2e-40 4e-40")[0] == "3.000000000e-40"
    assert mean_of("logp", "1 1 2")[:2] == ("1.33", "0.333")
    mean, error, n = mean_of("logp", "5 " * 45 + "6 " * 55)
    assert abs(float(mean) - 5.55) < 0.05 * float(error) and n == 100


def test_a_number_that_only_looks_like_0_is_refused() -> None:
    with pytest.raises(UsageError, match="too small to be told from 0"):
        typed("logp", "1e-400")
    assert typed("logp", "0e-400").value == 0


@pytest.mark.parametrize(("text", "limit"), [("<4.3", "above"), (">4.3", "below")])
def test_two_limits_that_contradict_each_other_are_refused(text: str, limit: str) -> None:
    with pytest.raises(UsageError, match="give one of the two"):
        typed("logp", text, limit=limit)


@pytest.mark.parametrize("spread", ["1e400", "nan", "inf", "0,5", "1_0", "0.1 eV", "1e-200", ""])
def test_an_uncertainty_is_a_finite_number(spread: str) -> None:
    with pytest.raises(UsageError, match="logp: the uncertainty"):
        typed("logp", "4.31", spread)


def test_a_number_alone_is_refused_where_the_campaign_states_a_unit() -> None:
    """It could be meant in that unit, or as the logarithm."""
    fault = r"log_molar_solubility: the number has no unit; one of: mmol/L, mol/L, .*, 1 \(the logarithm\)$"
    for text in ("0.9", "<0.9", "0.9 ± 0.1"):
        with pytest.raises(UsageError, match=fault):
            typed("log_molar_solubility", text, stated_unit="mmol/L")
    assert typed("log_molar_solubility", "0.9", stated_unit="1").unit == "1"
    assert typed("log_molar_solubility", "0.9").value == 0.9
    plain = typed("log_molar_solubility", "<0.9 ± 0.1 1", stated_unit="mmol/L")
    assert (plain.value, plain.unit, plain.uncertainty, plain.censoring) == (0.9, "1", 0.1, "below")
    with pytest.raises(UnitError, match='melting_point is not given in "1"'):
        typed("melting_point", "120 1")


@pytest.mark.parametrize("name", ["density", "volume_per_atom", "tpsa", "bulk_modulus", "homo", "melting_point"])
def test_each_unit_that_a_refusal_lists_is_taken(name: str) -> None:
    with pytest.raises(UsageError) as error:
        typed(name, "1.2 furlong")
    listed = str(error.value).rpartition("it takes: ")[2].split(", ")
    assert {typed(name, f"1.2 {words}").unit for words in listed} == set(properties()[name].typed_units)


def test_the_unit_of_another_quantity_has_no_nearest_one() -> None:
    with pytest.raises(UsageError) as error:
        typed("mass_solubility", "3 mmol/L")
    assert "did you mean" not in str(error.value), "the number of another unit would be wrong"


def test_an_uncertainty_is_given_once() -> None:
    with pytest.raises(UsageError, match="the uncertainty is given twice"):
        typed("pka", "7.4 ± 0.1", "0.2")


def test_a_reason_stands_for_a_value() -> None:
    said = {"values": {}, "uncertainties": {}, "limit": "", "not_obtained": "insoluble"}
    assert typed_answer(said).not_obtained is Reason.INSOLUBLE


ASKED = (LabAsked(property="logp", units=("1",)), LabAsked(property="homo_lumo_gap", units=("eV", "kJ/mol")))
NUMBERS = st.from_regex(
    r"[<>]?[-+\u2212]?[0-9]{1,5}[.,]?[0-9]{0,5}([eE][-+]?[0-9]{1,5})?( ?\u00b1 ?[0-9]{1,3})?", fullmatch=True
)
TEXTS = st.one_of(
    NUMBERS,
    st.text(max_size=60),
    st.lists(NUMBERS, max_size=5).map(" ".join),
    st.text("0123456789.,eE+-<>\u00b1\u00b2 ;\n\t%", max_size=40),
)
"""Texts as people type them where a number is asked for, or readings are."""


def _any_texts(test: Any) -> Any:
    """Runs a test with any value, uncertainty and readings, and with those that have failed."""
    for value, spread, readings in (
        ("12E4711", "", ""),
        ("1e400", "1", ""),
        ("9" * 400, "", ""),
        ("", "", "-1,61\n-1,58\n-1,66"),
        ("", "", "1e308 1e308 1e308"),
        ("1e300", "1e308", ""),
        ("\u00b2", "\u00b2", ""),
        ("", "", "4.3\u00b2 4.4"),
        ("1.5 eV", "1e-200", ""),
    ):
        test = example(value=value, spread=spread, readings=readings)(test)
    return given(value=TEXTS, spread=TEXTS, readings=TEXTS)(test)


def _read_or_refused(said: Mapping[str, Any]) -> None:
    """Reads an answer as it is read before it is recorded: it has finite values in canonical units, or is refused."""
    try:
        answer = typed_answer(said)
        found = [to_canonical(quantity, properties()[name]) for name, quantity in answer.values.items()]
        for name, quantity in zip(answer.values, found, strict=True):
            check_possible(quantity, properties()[name])
    except UsageError as error:
        assert str(error), "it is refused with a sentence"
        return
    for quantity in found:
        squares = quantity.value**2 + (quantity.uncertainty or 0.0) ** 2
        assert math.isfinite(squares) and str(quantity)
        assert not quantity.uncertainty or math.isfinite(1 / quantity.uncertainty**2), "the weight of a replicate"


@_any_texts
def test_any_text_in_the_form_is_a_finite_value_or_refused(value: str, spread: str, readings: str) -> None:
    fields = dict[str, str]()
    for asked in ASKED:
        texts = {"value": value, "spread": spread, "readings": readings, "unit": asked.units[0]}
        fields |= {f"{field}.{asked.property}": text for field, text in texts.items()}
    try:
        said = TypedForm(fields).answer_texts(ASKED)
    except UsageError as error:
        assert str(error)
        return
    _read_or_refused(said)


@_any_texts
def test_any_text_in_a_sheet_is_a_finite_value_or_refused(value: str, spread: str, readings: str) -> None:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["task", "value.logp", "spread.logp", "readings.logp"])
    writer.writerow(["1", value, spread, readings])
    for text in (out.getvalue(), f"task,value.logp\n1,{value}\n{readings}"):
        try:
            rows = read_sheet(text.encode("utf-8", "replace"), "sheet.csv").rows
        except InputFileError as error:
            assert str(error)
            continue
        for row in rows:
            try:
                said = TypedForm(row.cells).answer_texts(ASKED)
            except UsageError as error:
                assert str(error)
                continue
            _read_or_refused(said)


@_any_texts
def test_any_text_of_an_instrument_is_a_finite_value_or_refused(value: str, spread: str, readings: str) -> None:
    for logp in (value, {"value": value, "uncertainty": spread}):
        try:
            result = ResultIn.model_validate({"values": {"logp": logp, "homo_lumo_gap": readings}})
            _, said = answer_and_texts(result, ASKED)
        except (ValidationError, FieldFaultError) as error:
            assert str(error)
            continue
        _read_or_refused(said)


@_any_texts
def test_any_text_at_the_command_line_is_a_finite_value_or_refused(value: str, spread: str, readings: str) -> None:
    try:
        values = _pairs("--value", [f"logp={value}"] + [f"homo_lumo_gap={readings}"] * bool(readings))
        spreads = _pairs("--uncertainty", [f"logp={spread}"] * bool(spread))
    except UsageError as error:
        assert str(error)
        return
    for limit in ("", "below"):
        _read_or_refused({"values": values, "uncertainties": spreads, "limit": limit, "not_obtained": ""})


def test_an_answer_is_told_in_words() -> None:
    said = {"values": {"logp": "2.1", "pka": "<4"}, "uncertainties": {"logp": "0.1"}, "comment": "lamp B"}
    assert answer_in_words(said) == "logp 2.1 ± 0.1, pka <4 “lamp B”"
    meant = {"values": {"logp": "2.1", "pka": "4.1"}, "uncertainties": {"logp": "0.2", "pka": "0.1"}}
    meant |= {"means": {"logp": "interval_95", "pka": "standard"}, "readings": {"pka": "4.0 4.2"}}
    assert answer_in_words(meant) == "logp 2.1 ± 0.2 (95 % interval), pka 4.1 ± 0.1 (mean of 4.0 4.2)"
    assert answer_in_words({"not_obtained": "synthesis_failed"}) == "not obtained: synthesis failed"
    assert answer_in_words({"grades": {"expert_grade": "yes"}}) == "expert_grade: yes"
