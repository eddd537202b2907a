"""The body in which an instrument or a script posts a result (`ResultIn`), and what `typed_answer` reads of it.

The body is JSON. With files it is a form, whose part `result` is that JSON and whose parts `files` are the files.
Numbers keep the digits with which they were sent, and `read_number` reads them, as it reads what people type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal

from fastapi.exceptions import RequestValidationError
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    ValidationError,
    WithJsonSchema,
)
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from sciagent.domain.lab_messages_and_codes import NOT_OBTAINED, LabAnswer
from sciagent.domain.safe_text_and_durations import storable
from sciagent.errors import UsageError, did_you_mean
from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabAsked
from sciagent.lab.pages.typed_form_and_attachments import MAX_TEXT, TypedForm
from sciagent.lab.typed_answers import MAX_NUMBER_LENGTH, MAX_READINGS, MEANINGS, read_number, typed_answer
from sciagent.web.problem_answers import FieldFaultError

RESULT_PART = "result"
"""Name of the part of a form that has the result."""
MAX_RESULT = 200_000  # characters of a result
MAX_QUANTITIES = 50  # quantities of a result
NAMES_OF_KINDS = frozenset({"text", "number", "object"})
"""Kinds in which a value is sent; pydantic adds the kind to the place of a fault."""

ShortText = Annotated[str, Field(max_length=MAX_NUMBER_LENGTH)]
# as the ledger keeps it, so that a text that is sent again is the same
Text = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(storable)]
Name = Annotated[str, Field(max_length=100)]


def _checked_number(value: object) -> int | Decimal:
    """Returns a number of the JSON, which `_read` keeps as `int` or `Decimal`, so that its digits stay. Raises
    ValueError for anything else."""
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if not is_number:
        raise ValueError('write it as "45.1 mmol/L", or as {"value": 45.1, "unit": "mmol/L"}')
    assert isinstance(value, int | Decimal)
    return value


Number = Annotated[int | Decimal, PlainValidator(_checked_number), WithJsonSchema({"type": "number"})]


def _text_or_number(value: object) -> str:
    """Returns `text` or `number`; the latter refuses what is neither."""
    return "text" if isinstance(value, str) else "number"


TextOrNumber = Annotated[
    Annotated[ShortText, Tag("text")] | Annotated[Number, Tag("number")], Discriminator(_text_or_number)
]


class MeasuredIn(BaseModel):
    """A value with its unit and uncertainty, or the readings whose mean is the value."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    value: TextOrNumber | None = None
    """The value; left out beside `readings`."""
    unit: Annotated[str, Field(max_length=40)] = ""
    """Unit of value, uncertainty and readings; left out where the quantity has none. `1`: a plain number, such as the
    logarithm."""
    limit: Literal["", "<", ">"] = ""
    """`<` or `>` where the value is a limit: the true one lies below or above it."""
    uncertainty: TextOrNumber | None = None
    """Uncertainty, at least 0, in `unit`."""
    means: Literal[tuple(MEANINGS)] = "standard"  # type: ignore[valid-type]
    """Meaning of `uncertainty`: one standard deviation, a 95 % interval, or the tolerance of the instrument."""
    readings: Annotated[list[Number], Field(min_length=2, max_length=MAX_READINGS)] | None = None
    """Single readings in `unit`; their mean and its standard error are recorded."""


def _kind_of(value: object) -> str:
    """Returns in which kind a value was sent; one of `NAMES_OF_KINDS`."""
    return "object" if isinstance(value, dict | MeasuredIn) else _text_or_number(value)


Measured = Annotated[
    Annotated[ShortText, Tag("text")] | Annotated[Number, Tag("number")] | Annotated[MeasuredIn, Tag("object")],
    Discriminator(_kind_of),
]


class ResultIn(BaseModel):
    """A measurement, or the reason why there is none."""

    model_config = ConfigDict(
        extra="forbid",
        use_attribute_docstrings=True,
        json_schema_extra={
            "examples": [
                {"values": {"log_molar_solubility": "45.1 ± 0.3 mmol/L"}, "instrument": "HPLC in room 3"},
                {"values": {"log_molar_solubility": {"value": 45.1, "unit": "mmol/L", "uncertainty": 0.3}}},
                {"not_obtained": "insoluble", "comment": "a yellow solid stayed after 24 h"},
                {"values": {"log_molar_solubility": "45.1 mmol/L"}, "reasons": {"melting_point": "decomposed"}},
            ]
        },
    )

    values: Annotated[dict[Name, Measured], Field(max_length=MAX_QUANTITIES)] = {}
    """{quantity that the task asks for: its value}. A value is a text such as `45.1 ± 0.3 mmol/L` or `<0.05 mmol/L`, an
    object, or, for a quantity without a unit, a number. Where the task states a `unit` for a quantity, its value has a
    unit, if only `1` for the logarithm."""
    grades: Annotated[dict[Name, Name], Field(max_length=MAX_QUANTITIES)] = {}
    """{quantity: one of its words}, where the task asks for a judgement."""
    not_obtained: Literal[("", *map(str, NOT_OBTAINED))] = ""  # type: ignore[valid-type]
    """Reason for which nothing could be measured; left out if there are values."""
    reasons: Annotated[dict[Name, Literal[tuple(map(str, NOT_OBTAINED))]], Field(max_length=MAX_QUANTITIES)] = {}  # type: ignore[valid-type]
    """{quantity that has no value: the reason}. A quantity with neither a value nor a reason stays as it was recorded,
    or open; the task then stays with the sender."""
    why: Text = ""
    """Reason of a correction, which the answer to an answered task needs."""
    sample: Annotated[str, Field(max_length=40)] = ""
    """Code of the vial that was measured. That of another compound is refused."""
    seen: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    """Number of the last answer of the task that the sender knows, 0 for none. If there is a later one, nothing is
    recorded. Left out: not compared."""
    instrument: Text = ""
    """Name of the instrument."""
    measured_on: date | None = None
    """Day of the measurement."""
    comment: Text = ""
    """Remark for those who read the answer."""
    confirmed: Annotated[bool, Field(strict=True)] = False
    """Whether the sender says that the result is right, however improbable: a value outside the usual range of its
    quantity, or far from what is known, a day that has not come yet. Without it such a result is refused (409), and
    `confirm` says why."""


@dataclass(frozen=True)
class PostedResult:
    """A result with the form in which its files came."""

    result: ResultIn
    form: FormData
    """Empty without files."""


async def posted_result(request: Request) -> PostedResult:
    """Returns the result that a request posts. Raises RequestValidationError."""
    form: FormData = request.state.form
    text: bytes | str
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        part = form.get(RESULT_PART, "")
        text = await part.read(MAX_RESULT + 1) if isinstance(part, UploadFile) else part
        if not text:
            raise _fault((RESULT_PART,), f"the form has no part `{RESULT_PART}` with the result as JSON")
    else:
        text = await request.body()
    return PostedResult(_read(text), form)


def _read(text: bytes | str) -> ResultIn:
    if len(text) > MAX_RESULT:
        raise _fault((), f"the result has more than {MAX_RESULT:,} characters")
    try:
        content = json.loads(
            text,
            parse_int=_whole,
            parse_float=_decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_with_each_key_once,
        )
    except ValueError as error:
        raise _fault((), f"the result is no JSON: {error}") from None
    except RecursionError:
        raise _fault((), "the result is no JSON: its brackets are nested too deeply") from None
    try:
        return ResultIn.model_validate(content)
    except ValidationError as error:
        faults: list[dict[str, Any]] = []
        for fault in error.errors(include_url=False, include_input=False, include_context=False):
            place = tuple(part for part in fault["loc"] if part not in NAMES_OF_KINDS)
            faults.append({"loc": ("body", *place), "msg": fault["msg"], "type": fault["type"]})
        raise RequestValidationError(faults) from None


def _fault(place: tuple[str, ...], message: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("body", *place), "msg": message, "type": "value_error"}])


def _with_each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of the JSON. Raises RequestValidationError for a key that is given twice, of which one value
    would be lost."""
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise _fault((key[:MAX_NUMBER_LENGTH],), "this key is given twice in one object; give it once")
        content[key] = value
    return content


def _whole(text: str) -> int:
    """Returns a whole number. Raises ValueError for one with too many digits."""
    return int(_bounded(text))


def _decimal(text: str) -> Decimal:
    """Returns a number with the digits that it has. Raises ValueError for one with too many, or too large."""
    try:
        return Decimal(_bounded(text))
    except InvalidOperation:
        raise ValueError(f"{text} is too large, or too small to be told from 0") from None


def _bounded(text: str) -> str:
    """Returns the text of a number. Raises ValueError if it is longer than a number that a person may type."""
    if len(text) > MAX_NUMBER_LENGTH:
        raise ValueError(f"a number has {len(text):,} digits; {MAX_NUMBER_LENGTH} are the most")
    return text


def _refuse_constant(text: str) -> float:
    """Raises ValueError, since `NaN` and `Infinity` are no JSON."""
    raise ValueError(f"{text} is no JSON number")


def answer_and_texts(result: ResultIn, asks: Sequence[LabAsked]) -> tuple[LabAnswer, Mapping[str, Any]]:
    """Returns (answer, its texts, the same as from the form of a page). asks: what the task asks for.

    Raises FieldFaultError for a quantity that is not asked for, for a value where a grade is asked for, and for what
    `typed_answer` refuses.
    """
    _refuse_unasked(result, [asked.property for asked in asks])
    _refuse_values_of_judgements(result, asks)
    fields = {"not_obtained": result.not_obtained, "comment": result.comment, "instrument": result.instrument}
    if result.measured_on is not None:
        fields["measured_on"] = result.measured_on.isoformat()
    for name, grade in result.grades.items():
        fields[f"grade.{name}"] = grade
    for name, reason in result.reasons.items():
        fields[f"reason.{name}"] = reason
    try:
        for name, value in result.values.items():
            fields |= _fields_of_form(name, value)
        texts = TypedForm(fields).answer_texts(asks)
        return typed_answer(texts, {each.property: each.unit for each in asks if each.unit}), texts
    except UsageError as error:
        # a message on a quantity begins with its name
        parts = (("values", result.values), ("grades", result.grades))
        named = [f"{part}.{name}" for part, entries in parts for name in entries if error.text.startswith(name)]
        field = max(named, key=len) if named else "values"
        raise FieldFaultError(400, error.text, field) from None


def _refuse_unasked(result: ResultIn, asked_names: Sequence[str]) -> None:
    """Raises FieldFaultError for a quantity that the task does not ask for."""
    for place, named in (("values", result.values), ("grades", result.grades), ("reasons", result.reasons)):
        for name in named:
            if name not in asked_names:
                hint = did_you_mean(name, asked_names) or f"; it asks for {', '.join(asked_names)}"
                raise FieldFaultError(400, f"the task does not ask for {name}{hint}", f"{place}.{name}")


def _refuse_values_of_judgements(result: ResultIn, asks: Sequence[LabAsked]) -> None:
    """Raises FieldFaultError for a value of a quantity that is judged, with the grades that it takes."""
    for asked in asks:
        name = asked.property
        if asked.grades and name in result.values:
            example = json.dumps({"grades": {name: asked.grades[-1]}}, ensure_ascii=False)
            fault = f"{name}: it is judged, not measured; give one of {', '.join(asked.grades)}, such as {example}"
            raise FieldFaultError(400, fault, f"values.{name}")


def _fields_of_form(name: str, value: object) -> dict[str, str]:
    """Returns the fields of a form that say the same as a value. Raises UsageError for a value without a number, or one
    that says its unit twice."""
    if not isinstance(value, MeasuredIn):
        return {f"value.{name}": str(value)}
    if (value.value is None) == (value.readings is None):
        raise UsageError(f"{name}: give a value, or readings")
    fields = {f"unit.{name}": value.unit, f"limit.{name}": value.limit, f"means.{name}": value.means}
    if value.readings is not None:
        if value.uncertainty is not None or value.limit:
            raise UsageError(f"{name}: readings have neither a limit nor an uncertainty; both follow from them")
        fields[f"readings.{name}"] = " ".join(map(str, value.readings))
        return fields
    number = read_number(name, str(value.value))
    if number.unit and value.unit:
        raise UsageError(f"{name}: the unit is given twice, as {number.unit} and as {value.unit}; give one of the two")
    if number.sign and value.limit:
        raise UsageError(
            f"{name}: the limit is given twice, as {number.sign} and as {value.limit}; give one of the two"
        )
    fields[f"value.{name}"] = str(value.value)
    if value.uncertainty is not None:
        fields[f"spread.{name}"] = str(value.uncertainty)
    return fields
