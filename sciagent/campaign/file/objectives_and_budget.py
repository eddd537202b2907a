"""Objectives, gates, goal and budget of a campaign file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationInfo,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from sciagent.domain.cost_and_budget import RESOURCE_UNITS, WEEK
from sciagent.domain.objectives import Direction, Objective, Window
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.properties_and_levels import Property, properties
from sciagent.domain.quantities import conversion_factor, in_canonical_unit, spread_in_canonical_unit
from sciagent.errors import UnitError, UnknownNameError, UsageError
from sciagent.inputs.yaml_document import kind_of
from sciagent.inputs.yaml_validation import Faults, Part, fault

MAX_NUMBER = 1e100
"""The largest number in a campaign file. Its square, and its value in another unit, are still finite."""


def _two_numbers(value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise fault("takes a list of two numbers, as in [4.0, 4.6]")
    return value


def _not_too_large(value: float) -> float:
    if abs(value) > MAX_NUMBER:
        raise fault(f"{value:g} is too large", f"takes numbers up to {MAX_NUMBER:g}")
    return value


Finite = Annotated[float, Field(strict=True, allow_inf_nan=False), AfterValidator(_not_too_large)]
Positive = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0), AfterValidator(_not_too_large)]
NotNegative = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0), AfterValidator(_not_too_large)]
Count = Annotated[int, Field(strict=True, ge=1, le=10**12)]
Pair = Annotated[tuple[Finite, Finite], BeforeValidator(_two_numbers)]


def fault_of(error: UsageError) -> PydanticCustomError:
    """Returns an error as a fault; the part of its message that lists what is known or taken becomes the hint."""
    message_and_hint = re.split("; (?=known: |it takes: )", str(error), maxsplit=1)
    return fault(*message_and_hint)


def _rounded(value: float, converted: float) -> float:
    """Returns the converted value, rounded to 12 digits if it differs from the original value."""
    return value if converted == value else float(f"{converted:.12g}")


def check_unit(unit: str | None, prop: Property) -> None:
    """Raises a fault if the unit is not valid for the property, or if a needed unit is missing."""
    takes = f"{prop.name} takes: {', '.join(prop.units)}"
    if unit is None and prop.unit != "1":
        raise fault(f"{prop.name} needs a unit", takes)
    conversion = prop.conversion(unit or prop.unit)
    if conversion is not None:
        if conversion.is_falling:
            raise fault(f"limits of {prop.name} are not stated in {unit}: lower and upper would change places", takes)
        return
    try:
        conversion_factor(unit or prop.unit, prop)
    except UnitError as error:
        raise fault_of(error) from None


def window_fault(low: float | None, high: float | None, unit: str | None, prop: Property) -> str:
    """Returns why no value can lie between the limits, or an empty text."""
    window = canonical_window(low, high, unit, prop)
    low = window.low
    high = window.high
    if low is not None and high is not None and low > high:
        return f"the lower limit {low:g} lies above the upper limit {high:g}"
    too_high = low is not None and prop.high is not None and low > prop.high
    too_low = high is not None and prop.low is not None and high < prop.low
    if too_high or too_low:
        unit = "" if prop.unit == "1" else f" {prop.unit}"
        bounds = []
        if prop.low is not None:
            bounds.append(f"not below {prop.low:g}{unit}")
        if prop.high is not None:
            bounds.append(f"not above {prop.high:g}{unit}")
        return f"no value can lie here: {prop.name} is {' and '.join(bounds)}"
    return ""


class CalibrateSpec(Part):
    """A fit of a rung's values to imported, measured ones. Gates, verdicts and the law use the fitted values; the
    evidence keeps the computed ones."""

    source: Literal["measured"] = Field(alias="from", description="measured: the imported values of the property.")
    kind: Literal["offset", "linear"] = Field(
        description="offset: measured = computed + a; linear: measured = b * computed + a."
    )
    level: str | None = Field(
        None, description="Level of the measured values, such as experiment; needed if they have several."
    )
    force: bool = omitted_if_unset(
        False, description="Use the fit even if its leave-one-out error is not clearly below the error without it."
    )


class ObjectiveSpec(Part):
    """The wanted values of one property. Every number is in `unit`."""

    property: str = Field(description="A registered property, such as homo_lumo_gap.")
    unit: str | None = Field(
        None, validate_default=True, description="Unit of all numbers here; not needed for dimensionless properties."
    )
    window: Pair | None = Field(None, description="[low, high]: accepted inside.")
    maximise: Pair | None = Field(None, description="[worst, best]: desirability rises from 0 to 1 between them.")
    minimise: Pair | None = Field(None, description="[worst, best]: as maximise, with worst above best.")
    min: Finite | None = Field(None, description="Lower acceptance limit.")
    max: Finite | None = Field(None, description="Upper acceptance limit.")
    scale: Positive | None = Field(
        None,
        description="Distance outside the limits over which desirability falls to 1/e; default: half the width of the "
        "window, or 10 % of the one limit, or 1 in the canonical unit.",
    )
    weight: Positive = Field(1.0, description="Weight in the geometric mean of desirabilities.")
    calibrate: CalibrateSpec | None = omitted_if_unset(
        None,
        description="Calibrates the rung whose value counts: the highest one up to the terminal rung that measures it.",
    )

    @field_validator("property")
    @classmethod
    def _property_is_known(cls, value: str) -> str:
        try:
            return properties()[value].name
        except UnknownNameError as error:
            raise fault_of(error) from None

    @field_validator("unit")
    @classmethod
    def _unit_is_taken(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "property" in info.data:
            check_unit(value, properties()[info.data["property"]])
        return value

    @field_validator("window", "min", "max")
    @classmethod
    def _limits_are_possible(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None or "unit" not in info.data or "property" not in info.data:
            return value
        if info.field_name == "window":
            low, high = value
        elif info.field_name == "min":
            low = value
            high = None
        else:
            low = info.data.get("min")
            high = value
        prop = properties()[info.data["property"]]
        problem = window_fault(low, high, info.data["unit"], prop)
        if problem:
            raise fault(problem)
        return value

    @field_validator("maximise", "minimise")
    @classmethod
    def _ramp_is_ordered(cls, value: Pair | None, info: ValidationInfo) -> Pair | None:
        if value is None:
            return value
        worst, best = value
        if info.field_name == "maximise" and worst >= best:
            raise fault("takes [worst, best] with worst below best")
        if info.field_name == "minimise" and worst <= best:
            raise fault("takes [worst, best] with worst above best")
        return value

    @model_validator(mode="after")
    def _states_one_wish(self) -> ObjectiveSpec:
        pairs = [key for key in ("window", "maximise", "minimise") if getattr(self, key) is not None]
        limits = [key for key in ("min", "max") if getattr(self, key) is not None]
        with Faults() as faults:
            if len(pairs) > 1 or ("window" in pairs and limits):
                keys = [*pairs, *limits]
                message = f"{keys[0]} and {keys[1]} exclude each other; state one"
                faults.add((keys[1],), message, WISHES)
            if not pairs and not limits:
                faults.add((), "says nothing about what is wanted", WISHES)
            if self.scale is not None and (self.maximise or self.minimise):
                faults.add(("scale",), "has no effect here: the two numbers of maximise or minimise are the scale")
        return self

    def accept(self) -> Window | None:
        """Returns the acceptance limits in the property's canonical unit; None if there are none."""
        low, high = self.window or (self.min, self.max)
        if low is None and high is None:
            return None
        return canonical_window(low, high, self.unit, properties()[self.property])

    def domain(self) -> Objective:
        """Returns the objective in the property's canonical unit, with the default scale filled in."""
        prop = properties()[self.property]
        pair = self.maximise or self.minimise
        ramp = None
        if pair is not None:
            worst, best = pair
            ramp = (_canonical(worst, self.unit, prop), _canonical(best, self.unit, prop))
        accept = self.accept()
        scale = _default_scale(accept)
        if self.scale is not None:
            # in a unit that is no multiple of the canonical one, a distance depends on the value at which it begins
            limits = [limit for limit in (*(self.window or ()), self.min, self.max) if limit is not None]
            edge = limits[0] if limits else 0.0
            scale = _rounded(self.scale, spread_in_canonical_unit(edge, self.scale, self.unit or prop.unit, prop))
        direction = "limit"
        for key in ("window", "minimise", "maximise"):
            if getattr(self, key):
                direction = key
        return Objective(self.property, Direction(direction), accept, scale, ramp, self.weight)


WISHES = "one of: window [low, high]; min and/or max; maximise [worst, best]; minimise [worst, best]"


def _default_scale(accept: Window | None) -> float:
    """Returns half the width of the window, or a tenth of the one limit; 1 if there is none, or if it is 0."""
    if accept is None:
        return 1.0
    if accept.low is not None and accept.high is not None and accept.high > accept.low:
        return float(f"{(accept.high - accept.low) / 2:.12g}")
    limit = accept.low if accept.low is not None else accept.high
    return float(f"{abs(limit) / 10:.12g}") if limit else 1.0


class GateSpec(Part):
    """Limits that a rung's own result must meet, in the rung's own scale."""

    min: Finite | None = Field(None, description="Lower limit.")
    max: Finite | None = Field(None, description="Upper limit.")
    unit: str | None = Field(None, description="Unit of the limits; not needed for dimensionless properties.")

    @model_validator(mode="after")
    def _some_limit(self) -> GateSpec:
        if self.min is None and self.max is None:
            raise fault("needs min, max or both")
        return self


def canonical_window(low: float | None, high: float | None, unit: str | None, prop: Property) -> Window:
    """Returns the window in the canonical unit of the property."""
    canonical_low = None if low is None else _canonical(low, unit, prop)
    canonical_high = None if high is None else _canonical(high, unit, prop)
    return Window(canonical_low, canonical_high)


def _canonical(limit: float, unit: str | None, prop: Property) -> float:
    return _rounded(limit, in_canonical_unit(limit, unit or prop.unit, prop))


class GoalSpec(Part):
    """The purpose of the campaign, and when it is done."""

    kind: Literal["hits", "best", "graded"] = Field(
        description="hits: find hits; best: find the best; graded: by utility."
    )
    count: Count | None = Field(
        None,
        description="Number of compounds after whose hits to stop (tautomers with one InChIKey count once), or of best "
        "candidates wanted.",
    )


class AmountSpec(Part):
    """An amount, either for the whole campaign or per week."""

    amount: NotNegative = Field(description="Amount in the unit of the resource.")
    per: Literal["campaign", "week"] = Field(
        description="campaign: for the whole campaign, like a plain number; week: for any seven days."
    )


_NUMBER: TypeAdapter[float] = TypeAdapter(NotNegative)


def _stock_or_rate(value: Any, _: Any) -> float | AmountSpec:
    """Returns an amount for the whole campaign as a number, also if it is written as a mapping with `per: campaign`;
    returns a weekly rate as an AmountSpec."""
    if isinstance(value, Mapping):
        value = AmountSpec.model_validate(value)
    if isinstance(value, AmountSpec):
        return value.amount if value.per == "campaign" else value
    if isinstance(value, str | bool | list | tuple):
        raise fault(f"must be a number or a mapping, not {kind_of(value)}", "such as 5, or {amount: 5, per: week}")
    return _NUMBER.validate_python(value)


Limit = Annotated[NotNegative | AmountSpec, WrapValidator(_stock_or_rate)]


class BudgetSpec(Part):
    """The limits of the campaign's spending; at least one. A resource takes a number, for the whole campaign, or a
    rate."""

    core_seconds: Limit | None = Field(
        None, description="CPU time of all verifications and of scripts that propose, in seconds."
    )
    gpu_seconds: Limit | None = Field(None, description="GPU time, in seconds.")
    llm_tokens: Limit | None = Field(None, description="Tokens of language models.")
    money: Limit | None = Field(None, description="Money, in EUR.")
    lab_slots: Limit | None = Field(None, description="Slots in the laboratory.")
    person_hours: Limit | None = omitted_if_unset(None, description="Working time of people, in hours.")
    licences: Limit | None = Field(None, description="Uses of licensed programs.")
    wall_minutes: Positive | None = Field(None, description="Elapsed minutes, over all runs of the campaign.")
    until: date | None = omitted_if_unset(
        None,
        description='Last day of the weekly limits, a date in quotes, such as "2026-12-31". The scheduler plans with '
        "what they allow until then.",
    )
    proposals: Count | None = Field(None, description="Number of proposals.")
    verifications: Count | None = omitted_if_unset(
        None,
        description="Number of candidates that the terminal rung is asked about, paid, inline or from known evidence; "
        "seeds do not count. Rollouts end after the step that reaches it.",
    )
    rungs: dict[str, Annotated[int, Field(strict=True, ge=0, le=10**12)]] = Field(
        default_factory=dict, description="Number of evidence rows to pay for, by rung label."
    )

    @model_validator(mode="after")
    def _some_entry(self) -> BudgetSpec:
        if not self.model_dump(exclude_defaults=True):
            raise fault("is empty; state at least one limit", f"budget takes: {', '.join(type(self).model_fields)}")
        with Faults() as faults:
            if self.until is not None and not self.rates():
                faults.add(("until",), "is the end of weekly limits, and there are none")
        return self

    def weeks(self, since: datetime) -> float | None:
        """Returns for how many weeks the weekly limits hold; None if they have no end. since: the campaign's start."""
        if self.until is None:
            return None
        end = datetime.combine(self.until, time.max, UTC)
        return max(0.0, (end - since).total_seconds() / WEEK)

    def stocks(self) -> dict[str, float]:
        """Returns the limits for the whole campaign, by resource of `domain.cost.RESOURCE_UNITS`."""
        stocks = {}
        for resource in RESOURCE_UNITS:
            limit = getattr(self, resource)
            if isinstance(limit, int | float):
                stocks[resource] = float(limit)
        return stocks

    def rates(self) -> dict[str, float]:
        """Returns the limits for any seven days, by resource."""
        rates = {}
        for resource in RESOURCE_UNITS:
            limit = getattr(self, resource)
            if isinstance(limit, AmountSpec):
                rates[resource] = limit.amount
        return rates
