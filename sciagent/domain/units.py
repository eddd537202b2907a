"""Conversion between two units: by a factor if possible, else by functions that a property registers.

A factor is not enough for offset units (degC to K), logarithmic ones (dBm to mW) and reciprocal ones (nm to eV).
There a value and its standard uncertainty convert by different rules, so a property states both as a `Conversion`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from sciagent.errors import UnitError


@dataclass(frozen=True)
class Conversion:
    """The conversion of values in `unit` to the canonical unit of a property."""

    unit: str
    """A unit of the property other than the canonical unit."""
    value: Callable[[float], float]
    """Takes a value in `unit`. Returns it in the canonical unit. The function is monotonic over its whole range."""
    inverse: Callable[[float], float]
    """Takes a value in the canonical unit. Returns it in `unit`."""
    uncertainty: Callable[[float, float], float]
    """Takes a value and its standard uncertainty in `unit`. Returns the standard uncertainty in the canonical unit."""

    def __eq__(self, other: object) -> bool:
        """Whether both convert alike. Their functions are compared by what they return, since a function that comes
        from another process is another object."""
        if not isinstance(other, Conversion):
            return NotImplemented
        return self.unit == other.unit and self._samples() == other._samples()

    def __hash__(self) -> int:
        return hash(self.unit)

    def _samples(self) -> list[tuple[float, float, float]]:
        """Returns what the three functions give for a few values."""
        return [(self.value(x), self.inverse(x), self.uncertainty(x, 0.1)) for x in (0.5, 2.0, 300.0)]

    @property
    def is_falling(self) -> bool:
        """Whether a larger value in `unit` is a smaller one in the canonical unit, as for wavelength and energy."""
        return self.value(2.0) < self.value(1.0)


CELSIUS_TO_KELVIN = Conversion(
    unit="degC",
    value=lambda celsius: celsius + 273.15,
    inverse=lambda kelvin: kelvin - 273.15,
    uncertainty=lambda value, uncertainty: uncertainty,
)

HC = 1239.8419843320026
"""Planck constant times speed of light, in eV nm. Source: CODATA 2018, exact."""


def wavelength_of(unit: str) -> Conversion:
    """Returns the conversion from an energy in eV to a wavelength in nm, or back. unit: of the values, `eV` or `nm`."""

    def uncertainty(value: float, uncertainty_of_value: float) -> float:
        return HC / value**2 * uncertainty_of_value

    return Conversion(unit, value=_hc_over, inverse=_hc_over, uncertainty=uncertainty)


def _hc_over(value: float) -> float:
    return HC / value


def logarithm_of(unit: str, factor: float, sign: int) -> Conversion:
    """Returns the conversion to a decimal logarithm of an amount. factor: amount of one `unit` in the unit that the
    logarithm is of. sign: -1 for a property such as pIC50."""

    def value(amount: float) -> float:
        return sign * math.log10(amount * factor)

    def inverse(logarithm: float) -> float:
        return float(10 ** (sign * logarithm) / factor)

    def uncertainty(amount: float, uncertainty_of_amount: float) -> float:
        return uncertainty_of_amount / (amount * math.log(10))

    return Conversion(unit, value, inverse, uncertainty)


# pint's spelling of units that chemists write differently
_SPELLING = {
    "D": "debye",
    "e*angstrom": "elementary_charge * angstrom",
    "eV/atom": "eV",
    "meV/atom": "meV",
    "%": "percent",
    "cm^-1": "planck_constant * speed_of_light / centimeter",
    "1": "dimensionless",
}


def unit_words(unit: str) -> str:
    """Returns a unit as people write it, such as `°C` for degC; "no unit" for a plain number."""
    if unit == "1":
        return "no unit"
    if unit == "degC":
        return "°C"
    return re.sub(r"\bu(?=(?:mol|g|L|s|m)\b)", "µ", with_powers(unit))  # `umol` becomes `µmol`


def with_powers(text: str) -> str:
    """Returns a text in which powers of units stand as people write them: `Å²` for `angstrom**2`."""
    for unit, words in (("angstrom**2", "Å²"), ("angstrom**3", "Å³"), ("cm^-1", "cm⁻¹"), ("cm^3", "cm³")):
        text = text.replace(unit, words)
    return text


MASS_CONCENTRATIONS = ("g/L", "mg/mL", "mg/L", "ug/mL", "ug/L", "ng/mL")
"""Units of mass by volume. A property that is an amount by volume, or its logarithm, may be typed in them where the
molar mass is known."""
AMOUNT_CONCENTRATION = "mol/L"
"""The unit into which a mass by volume is converted."""


@lru_cache(maxsize=1024)
def factor_between(unit: str, canonical: str) -> float:
    """Returns the factor that converts a value in `unit` to `canonical`.

    Raises UnitError if the units differ in dimension or in zero point (°C and K), since no factor converts them.
    """
    if unit == canonical:
        return 1.0
    way_out = "register a Conversion with the property, or leave the unit out"
    try:
        at_zero = _converted(0.0, unit, canonical)
        at_one = _converted(1.0, unit, canonical)
        at_two = _converted(2.0, unit, canonical)
    except Exception as error:  # pint raises errors of many kinds for a text that is no unit
        raise UnitError(f'no factor converts "{unit}" to "{canonical}": {error}; {way_out}') from error
    # a factor leaves zero as it is, and doubles the result with the value
    if at_zero != 0.0 or not math.isclose(at_two, 2 * at_one) or not math.isfinite(at_one):
        raise UnitError(
            f'no factor converts "{unit}" to "{canonical}": a value and its uncertainty convert by different rules; '
            f"{way_out}"
        )
    return at_one


class InBaseUnits(NamedTuple):
    """A unit in base units of the SI."""

    factor: float
    """Value of one unit."""
    dimension: Any
    """Dimension, which can be multiplied, divided and compared."""


@lru_cache(maxsize=1024)
def in_base_units(unit: str) -> InBaseUnits:
    """Returns a unit in base units; an amount per mole becomes one per particle. Raises UnitError for a text that is no
    unit, and for a unit with another zero, such as degC."""
    try:
        registry = _pint()
        spelling = _SPELLING.get(unit, unit)
        zero = registry.Quantity(0.0, spelling)
        one = registry.Quantity(1.0, spelling)
        if "/mol" in unit:  # per mole to per particle
            zero = zero / registry.avogadro_constant
            one = one / registry.avogadro_constant
        zero = zero.to_base_units()
        one = one.to_base_units()
    except Exception as error:  # pint raises errors of many kinds for a text that is no unit
        raise UnitError(f'"{unit}" is no unit: {error}') from error
    if zero.magnitude != 0.0 or not math.isfinite(one.magnitude):
        raise UnitError(f'"{unit}" has another zero than its base unit; use K for temperatures')
    return InBaseUnits(float(one.magnitude), one.dimensionality)


def _converted(value: float, unit: str, canonical: str) -> float:
    """Returns the value in the unit `canonical`, as pint converts it."""
    registry = _pint()
    source = registry.Quantity(value, _SPELLING.get(unit, unit))
    target = _SPELLING.get(canonical, canonical)
    if "/mol" in unit and "/mol" not in canonical:  # per mole to per particle
        source = source / registry.avogadro_constant
    elif "/mol" in canonical and "/mol" not in unit:  # per particle to per mole
        source = source * registry.avogadro_constant
    return float(source.to(target).magnitude)


@lru_cache(maxsize=1)
def _pint() -> Any:
    import pint

    return pint.UnitRegistry()
