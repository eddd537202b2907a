"""The units that a campaign's author chose; every answer shows values in them. The ledger keeps canonical units.

A `Column` states the unit of a column in a file with values that were measured or computed elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.objectives import Window
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.quantities import Quantity, from_canonical

Units = Mapping[str, str]
"""{property: unit} of the properties for which a campaign states another unit than the canonical one."""


def in_chosen_unit(measured: Measured, units: Units) -> Measured:
    """Returns a value of the ledger in the unit that the campaign chose; in the canonical unit without a choice."""
    quantity = quantity_in_chosen_unit(measured.property, measured.quantity, units)
    return measured if quantity is measured.quantity else replace(measured, quantity=quantity)


def quantity_in_chosen_unit(name: str, quantity: Quantity, units: Units) -> Quantity:
    """Returns a quantity of the property `name` in the unit that the campaign chose; as it is without a choice."""
    unit = units.get(name)
    if unit is None or unit == quantity.unit:
        return quantity
    return from_canonical(quantity, properties()[name], unit)


def in_chosen_units(values: Iterable[Measured], units: Units) -> list[Measured]:
    """Returns values of the ledger in the units that the campaign chose."""
    return [in_chosen_unit(measured, units) for measured in values]


def beside_limits(measured: Measured, limits: Mapping[str, tuple[float, ...]]) -> Measured:
    """Returns a value whose text has the digits that tell it from limits. limits: by property, in the value's unit."""
    near = limits.get(measured.property)
    return replace(measured, quantity=replace(measured.quantity, near=near)) if near else measured


def chosen_unit_of(name: str, units: Units) -> str:
    """Returns the unit in which values of the property are shown; empty for one that a function in another process
    defines, if the campaign chose none."""
    if name in units or name in properties():
        return units.get(name) or properties()[name].unit
    return ""


def limit_in_chosen_unit(name: str, limit: float, units: Units) -> float:
    """Returns a limit, given in the canonical unit of the property, in the unit that the campaign chose.

    The limit of a property that a function in another process defines is returned as it is."""
    if name not in properties():
        return limit
    quantity = Quantity(limit, properties()[name].unit)
    converted = quantity_in_chosen_unit(name, quantity, units)
    if converted is quantity:  # no other unit was chosen
        return limit
    return _rounded(converted.value)


def _rounded(value: float) -> float:
    """Returns a converted number with ten digits, so that it reads as the author wrote it."""
    return float(f"{value:.10g}")


def window_text(name: str, window: Window, units: Units) -> str:
    """Returns the limits as text in the unit that the campaign chose, such as `1.3 ≤ homo_lumo_gap ≤ 2.8 eV`."""
    unit = chosen_unit_of(name, units)
    low = "" if window.low is None else f"{limit_in_chosen_unit(name, window.low, units):g} ≤ "
    high = "" if window.high is None else f" ≤ {limit_in_chosen_unit(name, window.high, units):g}"
    tail = "" if unit in ("", "1") else f" {unit}"
    return f"{low}{name}{high}{tail}"


def spec_in_chosen_units(spec: Mapping[str, Any], units: Units) -> dict[str, Any]:
    """Returns the canonical form of a spec with the numbers of its objectives and gates in the chosen units.

    Only people read it: hashes, laws and verdicts are made from the canonical form.
    """
    return {
        **spec,
        "objectives": [_shown_objective(objective, units) for objective in spec.get("objectives", ())],
        "ladder": [_shown_rung(rung, units) for rung in spec.get("ladder", ())],
    }


def _shown_rung(rung: Mapping[str, Any], units: Units) -> Mapping[str, Any]:
    """Returns the rung, which then always has a gate; `accept` only if the rung has it."""
    shown = {**rung, "gate": _shown_gate(rung.get("gate", {}), units)}
    if "accept" in rung:
        shown["accept"] = _shown_gate(rung["accept"], units)
    return shown


def _shown_gate(gate: Mapping[str, Any], units: Units) -> Mapping[str, Any]:
    return {name: _shown_limits(name, limits, units) for name, limits in gate.items()}


def _shown_objective(objective: Mapping[str, Any], units: Units) -> Mapping[str, Any]:
    name = objective["property"]
    if name not in units:
        return objective
    shown = {**objective, "unit": units[name]}
    for key in ("accept", "ramp"):
        if objective.get(key):
            shown[key] = _shown_limits(name, objective[key], units)
    if "scale" in objective:
        # the scale is a difference, and its conversion may depend on the value: it is converted near the limit
        limits = [limit for limit in objective.get("accept") or () if limit is not None]
        nearby_value = limits[0] if limits else 0.0
        scale = Quantity(nearby_value, properties()[name].unit, objective["scale"])
        shown["scale"] = _rounded(quantity_in_chosen_unit(name, scale, units).uncertainty or 0.0)
    return shown


def _shown_limits(name: str, limits: Sequence[float | None], units: Units) -> list[float | None]:
    return [None if limit is None else limit_in_chosen_unit(name, limit, units) for limit in limits]


def as_imported(measured: Measured) -> Measured:
    """Returns an imported value in the unit in which it was typed, if that is a unit of the property."""
    _, _, typed_unit = (measured.quantity.as_typed or "").rpartition(" ")
    is_unit = typed_unit in properties()[measured.property].units
    chosen_units = {measured.property: typed_unit} if is_unit else {}
    return in_chosen_unit(measured, chosen_units)


@dataclass(frozen=True)
class Column:
    """A column of a file with values of one property."""

    name: str
    property: str
    unit: str | None = None
    """A unit, or the name of the column with the unit; None: the canonical unit."""
    uncertainty: str | None = None
    """A number, or the name of the column with the standard uncertainty; None: unknown."""
