"""Derived properties: values that a campaign computes from other values of the same candidate, by a formula."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sciagent.domain.campaigns.formulas import Formula
from sciagent.domain.evidence import CLASS, MOLECULE, Measured, content_hash
from sciagent.domain.ladder import Position
from sciagent.domain.properties import BUILT_IN, Level, Property, properties
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.units import in_base_units

VERIFIER, VERSION = "derived.formula", "1"
"""The verifier of derived values, and the version of the rules in this module."""
PROVIDER = "a campaign's file"

Part = tuple[Position, str]
"""Position of a rung, and a property that it measures."""


@dataclass(frozen=True)
class DerivedProperty:
    """A derived property of a campaign, with the rungs that measure its parts."""

    definition: Property
    formula: Formula
    parts: Mapping[str, Part]
    """{name in the formula: the rung and the property that give its value}."""
    level: Level
    settings_hash: str
    """Hash of the formula and of the methods of its parts."""

    @property
    def rungs(self) -> set[Position]:
        """Positions of the rungs that measure its parts."""
        return {position for position, _ in self.parts.values()}

    @property
    def last(self) -> Position:
        """Position of the rung after which the value is known."""
        return max(self.rungs)

    def measured(self, values: Mapping[Part, Quantity]) -> Measured | None:
        """Returns the value; None if a part is missing, the formula divides by zero, or bounds on parts contradict.

        values: by part, in canonical units. The uncertainty is of first order. Values of different rungs err
        independently. Those of one rung come from the same evidence and may err together, so the absolute amounts that
        they contribute are added, which is the largest uncertainty that any correlation gives. One unknown uncertainty
        makes that of the result unknown.
        """
        held = {name: values[part] for name, part in self.parts.items() if part in values}
        if len(held) < len(self.parts):
            return None
        scale = {name: in_base_units(quantity.unit).factor for name, quantity in held.items()}
        try:
            result = self.formula.evaluate({name: held[name].value * scale[name] for name in held})
        except (ZeroDivisionError, OverflowError):
            return None
        to_unit = 1 / in_base_units(self.definition.unit).factor
        slopes: dict[Part, float] = {}
        for name, slope in result.slopes.items():
            slopes[self.parts[name]] = slopes.get(self.parts[name], 0.0) + slope * scale[name] * to_unit
        censoring = _censoring([(slope, values[part].censoring) for part, slope in slopes.items()])
        if censoring is None or not math.isfinite(result.value * to_unit):
            return None
        spread = _spread([(part[0], slope, values[part].uncertainty) for part, slope in slopes.items()])
        kind = _kind([values[part] for part, slope in slopes.items() if slope]) if spread else None
        quantity = Quantity(result.value * to_unit, self.definition.unit, spread, censoring, uncertainty_kind=kind)
        return Measured(self.definition.name, self.level, quantity)


def _spread(parts: Sequence[tuple[Position, float, float | None]]) -> float | None:
    """Returns the standard uncertainty. parts: (rung, slope, standard uncertainty)."""
    by_rung: dict[Position, float] = {}
    for rung, slope, uncertainty in parts:
        if uncertainty is None:
            return None
        by_rung[rung] = by_rung.get(rung, 0.0) + abs(slope * uncertainty)
    return math.hypot(*by_rung.values())


def _kind(parts: Sequence[Quantity]) -> str | None:
    """Returns whose spread the uncertainty of a derived value is: that of the class if that of any part is."""
    kinds = {quantity.uncertainty_kind for quantity in parts if quantity.uncertainty}
    return next(iter(kinds)) if len(kinds) == 1 else CLASS if kinds == {CLASS, MOLECULE} else None


def _censoring(parts: Sequence[tuple[float, Censoring]]) -> Censoring | None:
    """Returns on which side the true result lies; None if the bounds on the parts contradict each other."""
    opposite = {Censoring.BELOW: Censoring.ABOVE, Censoring.ABOVE: Censoring.BELOW}
    sides = {side if slope > 0 else opposite[side] for slope, side in parts if slope and side is not Censoring.NONE}
    return None if len(sides) > 1 else next(iter(sides), Censoring.NONE)


def level_of(levels: Sequence[Level]) -> Level:
    """Returns the level of a value that is derived from parts at these levels: their own if it is the same for all,
    else one that names each."""
    distinct = list(dict.fromkeys(levels))
    return distinct[0] if len(distinct) == 1 else Level(" and ".join(level.label for level in distinct))


def property_of(name: str, unit: str) -> Property:
    """Returns the definition of a derived property. It takes the units of the built-in properties that have this unit;
    the canonical unit is theirs, so that two campaigns that choose eV and kJ/mol define the same property."""
    alike = [prop.units for prop in BUILT_IN if unit in prop.units and not prop.conversions and unit != "1"]
    return Property(name, max(alike, key=len, default=(unit,)), "derived by the formula of its campaign")


def register(name: str, unit: str) -> Property:
    """Registers a derived property in this process. Raises UsageError if an installed package defines the name."""
    prop = property_of(name, unit)
    properties().add(prop, PROVIDER)
    return prop


def is_derived(name: str) -> bool:
    """Returns whether a campaign of this process derives a property of this name."""
    return name in properties() and properties().provider(name) == PROVIDER


def settings_hash(stated: Mapping[str, Any], identities: Mapping[str, Sequence[str]]) -> str:
    """Returns the hash that identifies the method of a derived value.

    stated: the derived property in the canonical form of a spec, whose `parts` hold label of the rung and property by
    name. identities: verifier, version and settings hash of each rung, by label.
    """
    parts = {name: [*identities[rung], prop] for name, (rung, prop) in stated["parts"].items()}
    return content_hash([stated["property"], stated["unit"], stated["formula"], parts])
