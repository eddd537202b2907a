"""Texts that people typed, read as an answer. A decimal comma or a unit that does not fit is refused with the fix."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from sciagent.domain.jobs.lab import NOT_OBTAINED, LabAnswer
from sciagent.domain.outcomes import Reason
from sciagent.domain.properties import properties
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.errors import UnknownNameError, UsageError, did_you_mean

NUMBER = re.compile(r"([<>]?)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*)")


def typed_answer(said: Mapping[str, Any]) -> LabAnswer:
    """Returns the answer. said: `values` and `uncertainties` by property, `limit`, `not_obtained`.

    Raises UsageError with the fix for a text that is no number, and for values beside `not_obtained`."""
    if text := said.get("not_obtained"):
        if said["values"]:
            raise UsageError("there are values, and a reason why there are none; give one of the two")
        if text not in NOT_OBTAINED:
            raise UsageError(
                f'"{text}" is no reason{did_you_mean(text, NOT_OBTAINED)}; one of: {", ".join(NOT_OBTAINED)}'
            )
        return LabAnswer(not_obtained=Reason(text))
    if not said["values"]:
        raise UsageError("no value was given, and no reason why it was not obtained")
    spreads = said["uncertainties"]
    for name in spreads:
        if name not in said["values"]:
            raise UsageError(f"an uncertainty of {name}, but no value")
    return LabAnswer(
        {name: typed(name, text, spreads.get(name), said["limit"]) for name, text in said["values"].items()}
    )


def typed(name: str, text: str, spread: str | None = None, limit: str = "") -> Quantity:
    """Returns a quantity as it was typed, such as `12.3 mg/L` or `<0.05 mM`. Raises UsageError."""
    known = properties()
    if name not in known:
        raise UnknownNameError("property", name, known)
    found = NUMBER.fullmatch(text.strip())
    if found is None:
        hint = "; write a point: " + text.replace(",", ".") if "," in text else ""
        raise UsageError(f'{name}: "{text}" is no number with a unit{hint}')
    sign, digits, unit = found.groups()
    unit = unit.strip() or ("1" if "1" in known[name].units else "")
    if not unit:
        raise UsageError(f"{name}: {digits} has no unit; one of: {', '.join(known[name].units)}")
    censoring = {"<": Censoring.BELOW, ">": Censoring.ABOVE}.get(sign, Censoring(limit or "none"))
    return Quantity(float(digits), unit, _number(name, spread), censoring, as_typed=f"{sign}{digits} {unit}".strip())


def _number(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f'{name}: the uncertainty "{text}" is no number, at least 0')
    return value
