"""The units that a campaign's author chose; every answer shows values in them. The ledger keeps canonical units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sciagent.domain.evidence import Measured
from sciagent.domain.properties import properties
from sciagent.domain.quantities import Quantity, express

Units = Mapping[str, str]
"""{property: unit} of the properties for which a campaign states another unit than the canonical one."""


def shown(measured: Measured, units: Units) -> Measured:
    """Returns a value of the ledger in the unit that the campaign chose; in the canonical unit without a choice."""
    unit = units.get(measured.property)
    if unit is None or unit == measured.quantity.unit:
        return measured
    return replace(measured, quantity=express(measured.quantity, properties()[measured.property], unit))


def all_shown(values: Iterable[Measured], units: Units) -> list[Measured]:
    """Returns values of the ledger in the units that the campaign chose."""
    return [shown(measured, units) for measured in values]


def as_imported(measured: Measured) -> Measured:
    """Returns an imported value in the unit in which it was typed, if that is a unit of the property."""
    unit = (measured.quantity.as_typed or "").rpartition(" ")[2]
    return shown(measured, {measured.property: unit} if unit in properties()[measured.property].units else {})


def typed_text(quantity: Quantity) -> str:
    """Returns the digits and the unit as they were typed; for a value that was not typed, its text with uncertainty."""
    return quantity.as_typed or str(quantity)
