"""Quantities: a value with its standard uncertainty, unit and censoring, and conversion within an allow-list."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from sciagent.domain.properties import Property
from sciagent.errors import UnitError, did_you_mean


class Censoring(StrEnum):
    """`BELOW`: the true value lies below the stated limit (such as a limit of detection)."""

    NONE = "none"
    BELOW = "below"
    ABOVE = "above"


@dataclass(frozen=True)
class Quantity:
    """value: in `unit`. uncertainty: standard uncertainty, k = 1, same unit; None where nobody knows it.

    n: number of replicates behind the value. as_typed: the digits as a person or a file gave them.
    Raises ValueError for NaN, infinity, a negative uncertainty or n < 1.
    """

    value: float
    unit: str
    uncertainty: float | None = None
    censoring: Censoring = Censoring.NONE
    n: int = 1
    as_typed: str | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"value {self.value!r} is not finite")
        if self.uncertainty is not None and not (math.isfinite(self.uncertainty) and self.uncertainty >= 0):
            raise ValueError(f"uncertainty {self.uncertainty!r} is not a finite, non-negative number")
        if self.n < 1:
            raise ValueError(f"n = {self.n} replicates; at least 1")

    def __str__(self) -> str:
        sign = {Censoring.NONE: "", Censoring.BELOW: "< ", Censoring.ABOVE: "> "}[self.censoring]
        return sign + show(self.value, self.uncertainty, self.unit)


def show(value: float, uncertainty: float | None, unit: str) -> str:
    """`10.043 ± 0.001 eV`: the uncertainty to one digit, the value to the same place; four digits without one."""
    tail = "" if unit == "1" else f" {unit}"
    if not uncertainty:
        return f"{value:.4g}{tail}"
    places = -math.floor(math.log10(uncertainty))
    if places <= 0:
        return f"{round(value, places):.0f} ± {round(uncertainty, places):.0f}{tail}"
    return f"{value:.{places}f} ± {uncertainty:.{places}f}{tail}".replace(
        "-0." + "0" * places + " ", "0." + "0" * places + " "
    )


def convert(quantity: Quantity, prop: Property) -> Quantity:
    """The same quantity in the property's canonical unit; `as_typed` is kept.

    Raises UnitError for a unit outside the property's allow-list.
    """
    if quantity.unit == prop.unit:
        return quantity
    factor = conversion_factor(quantity.unit, prop)
    if factor == 1.0:
        return replace(quantity, unit=prop.unit)
    spread = None if quantity.uncertainty is None else quantity.uncertainty * factor
    return replace(quantity, value=quantity.value * factor, uncertainty=spread, unit=prop.unit)


@lru_cache(maxsize=1024)
def conversion_factor(unit: str, prop: Property) -> float:
    """Multiply a value in `unit` by this to have it in `prop.unit`. Raises UnitError."""
    if unit == prop.unit:
        return 1.0
    if unit not in prop.units:
        raise UnitError(
            f'{prop.name} is not given in "{unit}"{did_you_mean(_SHORT.get(unit.casefold(), unit), prop.units)}; '
            f"it takes: {', '.join(prop.units)}"
        )
    registry = _pint()
    source, target = registry.Quantity(1.0, _SPELLING.get(unit, unit)), _SPELLING.get(prop.unit, prop.unit)
    if "/mol" in unit and "/mol" not in prop.unit:  # per mole to per particle
        source = source / registry.avogadro_constant
    elif "/mol" in prop.unit and "/mol" not in unit:  # per particle to per mole
        source = source * registry.avogadro_constant
    return float(source.to(target).magnitude)


# pint's own spelling of the units that chemists write otherwise
_SPELLING = {"D": "debye", "e*angstrom": "elementary_charge * angstrom", "eV/atom": "eV", "meV/atom": "meV"} | {
    "%": "percent",
    "1": "dimensionless",
}


# names that people write for what is abbreviated here; offered in an error, never taken for it
_SHORT = {"debye": "D", "electronvolt": "eV", "electron volt": "eV", "ha": "hartree", "eh": "hartree", "dalton": "Da"}


@lru_cache(maxsize=1)
def _pint() -> Any:
    import pint

    return pint.UnitRegistry()
