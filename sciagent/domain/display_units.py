"""The units that a campaign's author chose; every answer shows values in them. The ledger keeps canonical units.

A `Column` states the unit of a column in a file with values that were measured or computed elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sciagent.domain.evidence import Measured
from sciagent.domain.objectives import Window
from sciagent.domain.properties import properties
from sciagent.domain.quantities import Quantity, express

Units = Mapping[str, str]
"""{property: unit} of the properties for which a campaign states another unit than the canonical one."""


def shown(measured: Measured, units: Units) -> Measured:
    """Returns a value of the ledger in the unit that the campaign chose; in the canonical unit without a choice."""
    quantity = shown_quantity(measured.property, measured.quantity, units)
    return measured if quantity is measured.quantity else replace(measured, quantity=quantity)


def shown_quantity(name: str, quantity: Quantity, units: Units) -> Quantity:
    """Returns a quantity of the property `name` in the unit that the campaign chose; as it is without a choice."""
    unit = units.get(name)
    return quantity if unit is None or unit == quantity.unit else express(quantity, properties()[name], unit)


def all_shown(values: Iterable[Measured], units: Units) -> list[Measured]:
    """Returns values of the ledger in the units that the campaign chose."""
    return [shown(measured, units) for measured in values]


def unit_of(name: str, units: Units) -> str:
    """Returns the unit in which values of the property are shown."""
    return units.get(name) or properties()[name].unit


def shown_limit(name: str, limit: float, units: Units) -> float:
    """Returns a limit, given in the canonical unit of the property, in the unit that the campaign chose."""
    quantity = Quantity(limit, properties()[name].unit)
    shown = shown_quantity(name, quantity, units)
    return limit if shown is quantity else _rounded(shown.value)


def _rounded(value: float) -> float:
    """Returns a converted number with ten digits, so that it reads as the author wrote it."""
    return float(f"{value:.10g}")


def show_window(name: str, window: Window, units: Units) -> str:
    """Returns the limits as text in the unit that the campaign chose, such as `1.3 ≤ homo_lumo_gap ≤ 2.8 eV`."""
    unit = unit_of(name, units)
    low = "" if window.low is None else f"{shown_limit(name, window.low, units):g} ≤ "
    high = "" if window.high is None else f" ≤ {shown_limit(name, window.high, units):g}"
    return f"{low}{name}{high}" + ("" if unit == "1" else f" {unit}")


def shown_spec(spec: Mapping[str, Any], units: Units) -> dict[str, Any]:
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
        limits = [limit for limit in objective.get("accept") or () if limit is not None]
        nearby_value = limits[0] if limits else 0.0
        # The scale is a difference, and its conversion may depend on the value: it is converted near the limit.
        scale = Quantity(nearby_value, properties()[name].unit, objective["scale"])
        shown["scale"] = _rounded(shown_quantity(name, scale, units).uncertainty or 0.0)
    return shown


def _shown_limits(name: str, limits: Sequence[float | None], units: Units) -> list[float | None]:
    return [None if limit is None else shown_limit(name, limit, units) for limit in limits]


def as_imported(measured: Measured) -> Measured:
    """Returns an imported value in the unit in which it was typed, if that is a unit of the property."""
    typed_unit = (measured.quantity.as_typed or "").rpartition(" ")[2]
    is_unit = typed_unit in properties()[measured.property].units
    chosen_units = {measured.property: typed_unit} if is_unit else {}
    return shown(measured, chosen_units)


@dataclass(frozen=True)
class Column:
    """A column of a file with values of one property."""

    name: str
    property: str
    unit: str | None = None
    """A unit, or the name of the column with the unit; None: the canonical unit."""
    uncertainty: str | None = None
    """A number, or the name of the column with the standard uncertainty; None: unknown."""
