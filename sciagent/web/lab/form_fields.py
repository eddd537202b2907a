"""The fields of the form, read as an answer: texts stay as they were typed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sciagent.campaign.lab.typed_answers import NUMBER, SPELLED, mean_of
from sciagent.domain.answers.lab import LabAsked
from sciagent.errors import UsageError

LIMITS = {"": "=", "<": "<", ">": ">"}
KEPT = ("instrument", "measured_on", "comment")  # texts that are kept beside the values
LONGEST = 4000


@dataclass(frozen=True)
class TypedForm:
    """The fields of a form as they came, for showing them again, and what they say."""

    fields: Mapping[str, str]

    def of(self, field: str, property_: str = "") -> str:
        """Returns the text of a field, such as `value` of a property; empty without one."""
        return self.fields.get(f"{field}.{property_}" if property_ else field, "")[:LONGEST].strip()

    def with_units(self, said: Mapping[str, Any]) -> TypedForm:
        """Returns the form with the units of an answer. said: what `typed_answer` read."""
        found = {name: _number(text) for name, text in said.get("values", {}).items()}
        units = {f"unit.{name}": (each["unit"] or "1").strip() for name, each in found.items() if each}
        return TypedForm(units | dict(self.fields))

    def said(self, asks: Sequence[LabAsked]) -> Mapping[str, Any]:
        """Returns what `typed_answer` reads. Raises UsageError for a text that is no number."""
        values, spreads, means, readings = {}, {}, {}, {}
        grades = {each.property: text for each in asks if each.grades and (text := self.of("grade", each.property))}
        for asked in asks:
            name, spread = asked.property, self.of("spread", asked.property)
            value = self.of("value", name)
            if listed := self.of("readings", name):
                if value or spread:
                    raise UsageError(f"{name}: give the readings, or a value with its ±; not both")
                value, spread, _ = mean_of(name, listed)
                readings[name] = listed
            if not value:
                continue
            values[name] = self._with_unit(name, value)
            if spread:
                spreads[name] = spread
                means[name] = "standard" if listed else self.of("means", name)
        said: dict[str, Any] = {"values": values, "uncertainties": spreads, "limit": ""}
        said |= {"not_obtained": self.of("not_obtained"), "means": means, "readings": readings}
        said |= {"grades": grades} if grades else {}
        return said | {name: text for name in KEPT if (text := self.of(name))}

    def _with_unit(self, name: str, value: str) -> str:
        """Returns a value with the limit and the unit that were chosen beside it, unless the text has its own."""
        found = _number(value)
        if found is None:
            return value  # the answer is refused with the fix
        limit = "" if found["sign"] else self.of("limit", name)
        unit = "" if found["unit"] else self.of("unit", name)
        return f"{limit if limit in LIMITS else ''}{value}{' ' + unit if unit and unit != '1' else ''}"


def _number(text: str) -> re.Match[str] | None:
    return NUMBER.fullmatch("".join(SPELLED.get(letter, letter) for letter in text))
