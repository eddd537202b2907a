"""The fields of the form, read as an answer: texts stay as they were typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sciagent.domain.answers.lab import LabAsked
from sciagent.errors import UsageError
from sciagent.lab.typed_answers import mean_of, read_number

LIMITS = {"": "=", "<": "<", ">": ">"}
KEPT = ("instrument", "measured_on", "comment")  # texts that are kept beside the values
LONGEST = 4000  # characters of a field
LONGEST_READINGS = 30_000


@dataclass(frozen=True)
class TypedForm:
    """The fields of a form as they came, for showing them again, and what they say."""

    fields: Mapping[str, str]

    def of(self, field: str, property_: str = "") -> str:
        """Returns the text of a field, such as `value` of a property; empty without one. A longer text is cut."""
        return self._text(field, property_)[: _longest(field)]

    def _whole(self, field: str, property_: str = "") -> str:
        """Returns the text of a field as `of` does. Raises UsageError if it is longer than what is kept."""
        text = self._text(field, property_)
        if len(text) > _longest(field):
            where = f"{property_}: the {field}" if property_ else f"the {field}"
            raise UsageError(f"{where} has {len(text):,} characters; {_longest(field):,} are the most")
        return text

    def _text(self, field: str, property_: str) -> str:
        return self.fields.get(f"{field}.{property_}" if property_ else field, "").strip()

    def with_units(self, said: Mapping[str, Any]) -> TypedForm:
        """Returns the form with the units of an answer. said: what `typed_answer` read."""
        found = {name: read_number(name, text) for name, text in said.get("values", {}).items()}
        units = {f"unit.{name}": number.unit or "1" for name, number in found.items()}
        return TypedForm(units | dict(self.fields))

    def said(self, asks: Sequence[LabAsked]) -> Mapping[str, Any]:
        """Returns what `typed_answer` reads. Raises UsageError for a text that is no number, or longer than is kept."""
        values, spreads, means, readings = {}, {}, {}, {}
        grades = {each.property: text for each in asks if each.grades and (text := self._whole("grade", each.property))}
        for asked in asks:
            name, spread = asked.property, self._whole("spread", asked.property)
            value = self._whole("value", name)
            if listed := self._whole("readings", name):
                if value or spread:
                    raise UsageError(f"{name}: give the readings, or a value with its ±; not both")
                value, spread, _ = mean_of(name, listed)
                readings[name] = listed
            if not value:
                continue
            values[name] = self._with_unit(name, value)
            if spread:
                spreads[name] = spread
                means[name] = "standard" if listed else self._whole("means", name)
        said: dict[str, Any] = {"values": values, "uncertainties": spreads, "limit": ""}
        said |= {"not_obtained": self._whole("not_obtained"), "means": means, "readings": readings}
        said |= {"grades": grades} if grades else {}
        return said | {name: text for name in KEPT if (text := self._whole(name))}

    def _with_unit(self, name: str, value: str) -> str:
        """Returns a value with the limit and the unit that were chosen beside it, unless the text has its own. Raises
        UsageError for a text that is no number."""
        number = read_number(name, value)
        limit = "" if number.sign else self.of("limit", name)
        unit = "" if number.unit else self.of("unit", name)
        return f"{limit if limit in LIMITS else ''}{value}{' ' + unit if unit and unit != '1' else ''}"


def _longest(field: str) -> int:
    return LONGEST_READINGS if field == "readings" else LONGEST
