"""The body of a result: numbers as JSON or as text, read as those that people type, and refused with what is right."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import FormData

from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabAsked
from sciagent.lab.pages.posted_results import ResultIn, answer_and_texts, posted_result
from sciagent.web.problem_answers import FieldFaultError

SOLUBILITY = "log_molar_solubility"
ASKS = (
    LabAsked(property="homo_lumo_gap", units=("eV", "hartree")),
    LabAsked(property=SOLUBILITY, units=("1", "mol/L", "mmol/L")),
    LabAsked(property="expert_grade", units=("1",), grades=("no", "perhaps", "yes")),
)


def read(text: str) -> ResultIn:
    async def body() -> bytes:
        return text.encode()

    request = SimpleNamespace(headers={"content-type": "application/json"}, body=body)
    request.state = SimpleNamespace(form=FormData())
    return asyncio.run(posted_result(request)).result  # type: ignore[arg-type]


def texts(values: str) -> Any:
    return answer_and_texts(read(f'{{"values": {values}}}'), ASKS)[1]


@pytest.mark.parametrize(
    ("sent", "value", "uncertainty"),
    [
        ('"4.310 eV"', "4.310 eV", None),
        ('{"value": 4.310, "unit": "eV"}', "4.310 eV", None),
        ('{"value": 5, "unit": "eV", "uncertainty": 0.10}', "5 eV", "0.10"),
        ('{"value": "4.31", "unit": "eV", "limit": "<"}', "<4.31 eV", None),
        ('{"value": 1e-3, "unit": "hartree", "uncertainty": "2e-5"}', "0.001 hartree", "2e-5"),
    ],
)
def test_a_value_keeps_the_digits_with_which_it_was_sent(sent: str, value: str, uncertainty: str | None) -> None:
    said = texts(f'{{"homo_lumo_gap": {sent}}}')
    assert said["values"] == {"homo_lumo_gap": value}
    assert said["uncertainties"].get("homo_lumo_gap") == uncertainty


def test_a_number_alone_is_a_value_where_the_quantity_needs_no_unit() -> None:
    assert texts(f'{{"{SOLUBILITY}": -1.610}}')["values"] == {SOLUBILITY: "-1.610"}


def test_a_number_alone_is_refused_where_the_task_states_a_unit() -> None:
    asks = (LabAsked(property=SOLUBILITY, units=("mmol/L", "1", "mol/L"), unit="mmol/L"),)
    for value in ("0.5", '"0.5"', '{"value": 0.5}', '{"readings": [0.4, 0.6]}'):
        with pytest.raises(FieldFaultError, match="the number has no unit; one of: mmol/L, ") as caught:
            answer_and_texts(read(f'{{"values": {{"{SOLUBILITY}": {value}}}}}'), asks)
        assert caught.value.field == f"values.{SOLUBILITY}"
    sent = read(f'{{"values": {{"{SOLUBILITY}": {{"value": 0.50, "unit": "1"}}}}}}')
    answer, said = answer_and_texts(sent, asks)
    assert said["values"] == {SOLUBILITY: "0.50 1"} and answer.values[SOLUBILITY].unit == "1"


def test_the_quantity_is_the_one_that_the_text_and_the_object_say() -> None:
    as_text, _ = answer_and_texts(read('{"values": {"homo_lumo_gap": "4.31 ± 0.2 eV"}}'), ASKS)
    as_object, _ = answer_and_texts(
        read('{"values": {"homo_lumo_gap": {"value": 4.31, "unit": "eV", "uncertainty": 0.2}}}'), ASKS
    )
    assert as_text == as_object
    interval, _ = answer_and_texts(
        read(
            '{"values": {"homo_lumo_gap": {"value": 4, "unit": "eV", "uncertainty": 1.959964, "means": "interval_95"}}}'
        ),
        ASKS,
    )
    assert interval.values["homo_lumo_gap"].uncertainty == pytest.approx(1.0)  # 95 % of a normal law: 1.959964 sigma


def test_readings_become_their_mean_and_its_standard_error() -> None:
    answer, _ = answer_and_texts(read('{"values": {"homo_lumo_gap": {"readings": [4, 5, 6, 7], "unit": "eV"}}}'), ASKS)
    quantity = answer.values["homo_lumo_gap"]
    assert (quantity.value, quantity.n) == (5.5, 4)
    assert quantity.uncertainty == pytest.approx((5 / 3) ** 0.5 / 2, rel=1e-2)  # sample variance 5/3, four readings


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ('{"homo_lumo_gap": 4.31}', "values.homo_lumo_gap", "the number has no unit; one of: eV"),
        ('{"homo_lumo_gap": "4,31 eV"}', "values.homo_lumo_gap", "write a decimal point: 4.31 eV"),
        ('{"homo_lumo_gap": {"value": 4.31, "unit": "eVV"}}', "values.homo_lumo_gap", "it takes: eV"),
        ('{"homo_lumo_gap": {"value": "4.31 eV", "unit": "eV"}}', "values.homo_lumo_gap", "the unit is given twice"),
        (
            '{"homo_lumo_gap": {"value": "<4", "unit": "eV", "limit": "<"}}',
            "values.homo_lumo_gap",
            "limit is given twice",
        ),
        ('{"homo_lumo_gap": {"unit": "eV"}}', "values.homo_lumo_gap", "give a value, or readings"),
        (
            '{"homo_lumo_gap": {"value": 1, "readings": [1, 2], "unit": "eV"}}',
            "values.homo_lumo_gap",
            "give a value, or",
        ),
        ('{"homo_lumo_gap": {"readings": [1, 2], "uncertainty": 1}}', "values.homo_lumo_gap", "both follow from them"),
        ('{"homo_lumo_gap": {"value": 4, "unit": "eV", "uncertainty": -1}}', "values.homo_lumo_gap", "at least 0"),
        ('{"homo_lumo_gap": {"value": 1e400, "unit": "eV"}}', "values.homo_lumo_gap", "too large"),
        ('{"homo_gap": "4 eV"}', "values.homo_gap", 'did you mean "homo_lumo_gap"'),
        ('{"expert_grade": "probably"}', "values.expert_grade", 'such as {"grades": {"expert_grade": "yes"}}'),
        ('{"expert_grade": {"value": "yes"}}', "values.expert_grade", "it is judged, not measured; give one of no, "),
        ('{"expert_grade": 0.5}', "values.expert_grade", "it is judged, not measured"),
        ("{}", "values", "no value was given"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_place_and_what_would_be_right(
    values: str, field: str, words: str
) -> None:
    with pytest.raises(FieldFaultError) as caught:
        texts(values)
    assert caught.value.field == field and words in caught.value.detail


@pytest.mark.parametrize(
    ("body", "place", "words"),
    [
        ('{"values": {"homo_lumo_gap": true}}', "values.homo_lumo_gap", 'write it as "45.1 mmol/L"'),
        ('{"values": {"homo_lumo_gap": null}}', "values.homo_lumo_gap", 'write it as "45.1 mmol/L"'),
        ('{"values": {"homo_lumo_gap": {"value": []}}}', "values.homo_lumo_gap.value", 'write it as "45.1 mmol/L"'),
        ('{"values": {"homo_lumo_gap": {"valeu": 1}}}', "values.homo_lumo_gap.valeu", "not permitted"),
        ('{"values": {"homo_lumo_gap": NaN}}', "", "NaN is no JSON number"),
        ('{"values": {"homo_lumo_gap": 1e99999999999999999999}}', "", "too large"),
        (f'{{"seen": {"9" * 5000}}}', "", "a number has 5,000 digits; 200 are the most"),
        ('{"seen": 1.5}', "seen", "valid integer"),
        ('{"comment": 5}', "comment", "valid string"),
        ('{"not_obtained": "lost"}', "not_obtained", "'insoluble'"),
        ('{"measured_on": "yesterday"}', "measured_on", "valid date"),
        ('{"role": "admin"}', "role", "not permitted"),
        (json.dumps({"comment": "x" * 4001}), "comment", "at most 4000"),
        ("[" * 50_000, "", "nested too deeply"),
        ('{"values": {"homo_lumo_gap": 4.1}, "values": {"homo_lumo_gap": 4.2}}', "values", "this key is given twice"),
        ('{"values": {"homo_lumo_gap": 4.1, "homo_lumo_gap": 4.2}}', "homo_lumo_gap", "this key is given twice"),
        ('{"values": {"homo_lumo_gap": {"value": 1, "value": 2}}}', "value", "this key is given twice"),
    ],
)
def test_a_body_that_does_not_fit_is_refused_with_its_place(body: str, place: str, words: str) -> None:
    with pytest.raises(RequestValidationError) as caught:
        read(body)
    [fault, *_] = caught.value.errors()
    assert ".".join(map(str, fault["loc"][1:])) == place and words in fault["msg"]


def test_a_judgement_and_a_reason_are_read_as_on_the_pages() -> None:
    graded, _ = answer_and_texts(read('{"grades": {"expert_grade": "perhaps"}}'), ASKS)
    assert graded.grades == {"expert_grade": "perhaps"}
    missing, _ = answer_and_texts(read('{"not_obtained": "insoluble"}'), ASKS)
    assert missing.not_obtained == "insoluble"
    assert read('{"comment": "a\\u0000b"}').comment == "a\ufffdb", "as the ledger keeps it"
