"""Quantities: values with unit, standard uncertainty and censoring, and their conversion to canonical units."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sciagent.domain.properties_and_levels import Property
from sciagent.domain.units import factor_between, unit_words
from sciagent.errors import UnitError, did_you_mean

MOST_DIGITS = 12  # significant digits that a value gets at most so that it is told from a limit


class Censoring(StrEnum):
    """Whether a value is exact or a limit. `BELOW`: the true value lies below it, as with a limit of detection."""

    NONE = "none"
    BELOW = "below"
    ABOVE = "above"

    @property
    def sign(self) -> str:
        """The sign written before a censored value: `< ` or `> `; empty for an exact value."""
        return {"below": "< ", "above": "> "}.get(self, "")


@dataclass(frozen=True)
class ComputedIsomer:
    """The stereoisomer for which a value was computed, of a candidate that leaves its stereo partly undefined."""

    smiles: str
    """Isomeric SMILES, from the geometry; several with ` and ` between them where the parts of a value have several."""
    label: str
    """`E` or `Z` of the double bonds, where only double bonds were undefined; else empty."""
    possible: int
    """Number of stereoisomers that the candidate leaves open."""
    different: int
    """Their number with each pair of mirror images counted once, since the values of mirror images are equal."""
    is_upper_bound: bool = False
    """Whether there may be fewer than `possible`."""

    @property
    def decides_value(self) -> bool:
        """Whether another isomer may have another value."""
        return self.different > 1

    @property
    def share(self) -> str:
        """The words `one isomer of 2`."""
        bound = "up to " if self.is_upper_bound else ""
        return f"one isomer of {bound}{self.possible}"

    def __str__(self) -> str:
        if not self.decides_value:
            return f"computed for {self.smiles}, one of {self.possible} mirror images with equal values"
        structure = f"{self.label} ({self.smiles})" if self.label else self.smiles
        bound = "up to " if self.is_upper_bound else ""
        return f"computed for {structure}, one of {bound}{self.possible} stereoisomers; others may have other values"


@dataclass(frozen=True)
class Quantity:
    """A value with its unit and uncertainty.

    Raises ValueError for NaN, infinity, a negative uncertainty or n < 1.
    """

    value: float
    """Value in `unit`."""
    unit: str
    """One of the property's units."""
    uncertainty: float | None = None
    """Standard uncertainty, k = 1, in `unit`; None if unknown."""
    censoring: Censoring = Censoring.NONE
    """Whether the true value is `value`, or lies below or above it."""
    n: int = 1
    """Number of replicates that the value is pooled from."""
    as_typed: str | None = None
    """Digits and unit as a person or a file gave them."""
    uncertainty_kind: str | None = field(default=None, compare=False)
    """The origin of the uncertainty: `molecule` for the spread over conformers, seeds or replicates of this molecule,
    `class` for the usual spread of similar molecules, `fit` for one of the two together with the error of a
    calibration, `mean` or `weighted_mean` for a mean of several measurements; None if the evidence does not say. It is
    kept with the evidence's diagnostics, not with the value; that of a mean follows from the measurements."""
    isomer: ComputedIsomer | None = field(default=None, compare=False)
    """The stereoisomer to which value and uncertainty belong; None if the candidate leaves no stereo undefined, or if
    the value comes from no geometry. It is kept with the evidence's diagnostics, not with the value."""
    near: tuple[float, ...] = field(default=(), compare=False)
    """Limits, in `unit`, from which the text of the value tells it, however it would be rounded otherwise."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"value {self.value!r} is not finite")
        if self.uncertainty is not None and not (math.isfinite(self.uncertainty) and self.uncertainty >= 0):
            raise ValueError(f"uncertainty {self.uncertainty!r} is not a finite, non-negative number")
        if self.n < 1:
            raise ValueError(f"n = {self.n} replicates; at least 1")

    def __str__(self) -> str:
        return self.censoring.sign + value_text(self.value, self.uncertainty, self.unit, self.as_typed, self.near)


def isomer_of_parts(parts: Iterable[Quantity]) -> ComputedIsomer | None:
    """Returns the isomer of a value that was made from several; all SMILES where they differ, None without any."""
    known = [part.isomer for part in parts if part.isomer is not None]
    if not known:
        return None
    smiles = {isomer.smiles for isomer in known}
    labels = {isomer.label for isomer in known}
    label = labels.pop() if len(labels) == 1 else ""
    return replace(known[0], smiles=" and ".join(sorted(smiles)), label=label)


def named_value_text(name: str, value: object) -> str:
    """Returns a text such as `gap = 2.9 eV`, or `gap < 0.1 eV` where the value's text has a sign of its own."""
    text = str(value)
    return f"{name} {text}" if text.startswith(("<", ">")) else f"{name} = {text}"


def value_text(
    value: float, uncertainty: float | None, unit: str, as_typed: str | None = None, near: Sequence[float] = ()
) -> str:
    """Returns a text such as `10.043 ± 0.001 eV`: the uncertainty has one digit; without it the value has four.

    as_typed: a number that a person typed in this unit keeps its digits, such as `-5.10 ± 0.20 kcal/mol`. near: limits
    in this unit. The value has as many digits as tell on which side of them it lies: 10.21 beside the limit 10.2.
    """
    tail = "" if unit == "1" else f" {unit}"
    digits = _typed_digits(as_typed, value)
    if digits and uncertainty:
        return f"{digits} ± {_to_places_of(digits, uncertainty)}{tail}"
    if digits:
        return f"{digits}{tail}"
    if not uncertainty:
        significant = 4
        while hides_side(float(f"{value:.{significant}g}"), value, near) and significant < MOST_DIGITS:
            significant += 1
        return f"{value:.{significant}g}{tail}"
    own_places = -math.floor(math.log10(uncertainty))  # decimal places of the uncertainty's first digit
    places = own_places
    while hides_side(round(value, places), value, near) and places < own_places + MOST_DIGITS:
        places += 1
    if places <= 0:
        return f"{round(value, places):.0f} ± {round(uncertainty, own_places):.0f}{tail}"
    zero = "0." + "0" * places
    text = f"{value:.{places}f} ± {uncertainty:.{places}f}{tail}"
    return text.replace(f"-{zero} ", f"{zero} ")  # a value that rounds to zero has no sign


def hides_side(shown: float, value: float, limits: Sequence[float]) -> bool:
    """Whether a rounded value does not lie on the same side of a limit as the value itself."""
    for limit in limits:
        if math.isclose(value, limit, rel_tol=1e-9, abs_tol=1e-12):
            continue
        if (shown > limit) != (value > limit) or (shown < limit) != (value < limit):
            return True
    return False


def _typed_digits(as_typed: str | None, value: float) -> str:
    """Returns the digits of a typed number; empty if nothing was typed, or the value is in another unit by now."""
    digits, _, _ = (as_typed or "").lstrip("<> ").partition(" ")
    try:
        typed_value = float(digits)
    except ValueError:
        return ""
    return digits if math.isclose(typed_value, value, rel_tol=1e-9, abs_tol=1e-12) else ""


def _to_places_of(digits: str, uncertainty: float) -> str:
    """Returns the uncertainty to the decimal places of a typed number, with two significant digits if that would change
    it by more than a twentieth."""
    has_exponent = not digits.lstrip("+-").replace(".", "", 1).isdigit()
    _, _, decimals = digits.partition(".")
    places = 0 if has_exponent else len(decimals)
    text = f"{uncertainty:.{places}f}"
    is_close = abs(float(text) - uncertainty) <= uncertainty / 20
    return text if is_close else f"{uncertainty:.2g}"


def to_canonical(quantity: Quantity, prop: Property) -> Quantity:
    """Returns the quantity in the property's canonical unit; `as_typed` is kept.

    Raises UnitError for a unit that the property does not take, and for a value that cannot be converted.
    """
    if quantity.unit == prop.unit:
        return quantity
    conversion = prop.conversion(quantity.unit)
    value = in_canonical_unit(quantity.value, quantity.unit, prop)
    spread = quantity.uncertainty
    censoring = quantity.censoring
    if spread is not None:
        spread = spread_in_canonical_unit(quantity.value, spread, quantity.unit, prop)
    if conversion is not None and conversion.is_falling:
        censoring = _OPPOSITE[censoring]
    return replace(quantity, value=value, uncertainty=spread, unit=prop.unit, censoring=censoring)


def check_possible(quantity: Quantity, prop: Property) -> None:
    """Raises UnitError for a value, in the canonical unit, that the property cannot have."""
    is_too_low = prop.low is not None and quantity.value < prop.low
    is_too_high = prop.high is not None and quantity.value > prop.high
    if is_too_low or is_too_high:
        unit = "" if prop.unit == "1" else f" {prop.unit}"
        given = str(quantity)
        if quantity.as_typed and not _typed_digits(quantity.as_typed, quantity.value):  # typed in another unit
            given = f"{quantity.as_typed}, which is {given},"
        raise UnitError(
            f"{given} is outside what {prop.name} can be ({prop.low} to {prop.high}{unit}); look at the unit"
        )


def from_canonical(quantity: Quantity, prop: Property, unit: str) -> Quantity:
    """Converts a quantity from the property's canonical unit to another of its units; the inverse of `to_canonical`.

    A value without counterpart in that unit (the wavelength of an energy of 0) is returned as it is. Raises UnitError
    for a unit that the property does not take.
    """
    if unit == quantity.unit:
        return quantity
    conversion = prop.conversion(unit)
    spread = quantity.uncertainty
    censoring = quantity.censoring
    if conversion is None:
        factor = conversion_factor(unit, prop)
        if spread is not None:
            spread /= factor
        return replace(quantity, value=quantity.value / factor, uncertainty=spread, unit=unit)
    try:
        value = _applied(conversion.inverse, (quantity.value,), unit, prop)
        slope = _applied(conversion.uncertainty, (value, 1.0), unit, prop)  # canonical units for one `unit`
    except UnitError:
        return quantity
    if conversion.is_falling:
        censoring = _OPPOSITE[censoring]
    if spread:  # an uncertainty of 0 stays 0 for any slope
        spread /= slope
    return replace(quantity, value=value, uncertainty=spread, unit=unit, censoring=censoring)


def in_canonical_unit(value: float, unit: str, prop: Property) -> float:
    """Returns the value in `prop.unit`. Raises UnitError as `to_canonical` does."""
    conversion = prop.conversion(unit)
    if conversion is None:
        factor = conversion_factor(unit, prop)
        return _applied(lambda number: number * factor, (value,), unit, prop)
    return _applied(conversion.value, (value,), unit, prop)


def spread_in_canonical_unit(value: float, spread: float, unit: str, prop: Property) -> float:
    """Returns a small difference at a value, such as its standard uncertainty, in `prop.unit`. Raises UnitError."""
    conversion = prop.conversion(unit)
    if conversion is None:
        factor = conversion_factor(unit, prop)
        return _applied(lambda _, small: small * factor, (value, spread), unit, prop)
    return _applied(conversion.uncertainty, (value, spread), unit, prop)


def conversion_factor(unit: str, prop: Property) -> float:
    """Returns the factor from `unit` to `prop.unit`. Raises UnitError if there is none or `prop` has no such unit."""
    if unit not in prop.units:
        symbol = _SYMBOLS.get(unit.casefold(), unit)
        hint = did_you_mean(symbol, prop.units)
        raise UnitError(f'{prop.name} is not given in "{unit}"{hint}; it takes: {", ".join(prop.units)}')
    return factor_between(unit, prop.unit)


def _applied(function: Callable[..., float], numbers: tuple[float, ...], unit: str, prop: Property) -> float:
    """Returns the function's value for the numbers. Raises UnitError if it is not finite."""
    try:
        converted = float(function(*numbers))
    except (ArithmeticError, ValueError):
        converted = math.nan
    if not math.isfinite(converted):
        shown = " ± ".join(f"{number:g}" for number in numbers)
        raise UnitError(f"{prop.name} cannot be {shown} {unit_words(unit)}; check the number and its unit")
    return converted


_OPPOSITE = {Censoring.NONE: Censoring.NONE, Censoring.BELOW: Censoring.ABOVE, Censoring.ABOVE: Censoring.BELOW}


# Names that people write instead of the symbol. An error message suggests the symbol; the names are not accepted.
_SYMBOLS = {"debye": "D", "electronvolt": "eV", "electron volt": "eV", "ha": "hartree", "eh": "hartree", "dalton": "Da"}
