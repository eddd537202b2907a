"""The calibration of a rung on measured values: a straight line or an offset, with its leave-one-out error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import stdev

from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level, properties
from sciagent.domain.quantities import Quantity, from_canonical, to_canonical

FEWEST = 8
"""Smallest number of molecules for a fit."""
CLEAR_STANDARD_ERRORS = 2.0
"""A mean gain above this many of its standard errors is taken to be more than chance."""
LEAST_RELATIVE_SPREAD = 1e-12
"""Computed values are all alike if their sum of squared deviations, divided by their squared mean, is not larger."""
LEAST_SCALE = 1e-6
"""Least mean of computed values in that test; it replaces a smaller one."""
MAX_LEVERAGE = 1 - 1e-9
"""A molecule with a larger leverage decides the slope of a fit alone."""


class FitKind(StrEnum):
    """The form of a fit of measured on computed values."""

    OFFSET = "offset"
    """measured = computed + intercept"""
    LINEAR = "linear"
    """measured = slope * computed + intercept"""

    @property
    def words(self) -> str:
        return "linear fit" if self is FitKind.LINEAR else "offset"


@dataclass(frozen=True)
class CalibratedLevel(Level):
    """The level of a calibrated value. The ledger never holds it, since evidence stays as it was computed."""

    fit: str = ""
    """The fit in words, such as `linear fit, n = 19`."""

    @property
    def label(self) -> str:
        return labelled(super().label, self.fit)


def labelled(level: str, fit: str) -> str:
    """Returns the label of a calibrated level, such as `GFN2-xTB + linear fit, n = 19`."""
    return f"{level} + {fit}"


@dataclass(frozen=True)
class Fit:
    """A fit of measured on computed values of one property at one rung, in the property's canonical unit."""

    property: str
    """Name of the property."""
    kind: FitKind
    """The form of the fit."""
    measured_level: str
    """Label of the level of the measured values, such as `experiment`."""
    slope: float
    """1 for an offset."""
    intercept: float
    """Measured value where the computed one is 0."""
    n: int
    """Number of molecules; each has the same weight."""
    mean_absolute_error: float
    """Mean absolute error of the values predicted for each molecule from a fit to the others."""
    root_mean_square_error: float
    """Root mean square of the same errors."""
    error_without: float
    """Mean absolute error of the computed values themselves."""
    is_used: bool = True
    """Whether values are calibrated by this fit. Otherwise they stay as computed, since the fit would not help."""
    center: float = 0.0
    """Mean of the computed values."""
    squared_deviations: float = math.inf
    """Sum of the squared deviations of the computed values from their mean."""
    charges: str = "any"
    """Class of charge of the molecules: `neutral`, `ion`, or `any` for both."""

    def holds_for(self, charge: int) -> bool:
        """Returns whether the fit's error holds for molecules of this total charge: some of the fitted ones were of its
        class."""
        return self.charges == "any" or (self.charges == "neutral") == (charge == 0)

    def widening(self, computed: float) -> float:
        """Returns the standard error of a prediction from this computed value over that of the fitted molecules.

        It is the square root of (1 + h) / (1 + m), with the leverage h = 1 / n + (x - mean)**2 / S of the value and the
        mean leverage m = 2 / n of the fitted molecules, but at least 1; 1 for an offset. It is large far outside the
        fit.
        """
        if self.kind is FitKind.OFFSET:
            return 1.0
        leverage = 1 / self.n + (computed - self.center) ** 2 / self.squared_deviations
        return max(1.0, math.sqrt((1 + leverage) / (1 + 2 / self.n)))

    def words(self) -> str:
        """Text for levels: `linear fit, n = 19`."""
        return f"{self.kind.words}, n = {self.n}"

    def sentence(self, rung: str, unit: str | None = None) -> str:
        """Returns a sentence with the line and its leave-one-out error, or on why the fit is not used.

        rung: label of the rung. unit: the unit of the numbers in the sentence. The canonical unit replaces None and
        a unit that is no multiple of the canonical one.
        """
        prop = properties()[self.property]
        if unit is None or prop.conversion(unit) is not None:
            unit = prop.unit
        intercept = from_canonical(Quantity(self.intercept, prop.unit), prop, unit).value
        error = from_canonical(Quantity(self.mean_absolute_error, prop.unit), prop, unit).value
        without = from_canonical(Quantity(self.error_without, prop.unit), prop, unit).value
        tail = "" if unit == "1" else f" {unit}"
        if not self.is_used:
            gain = "would not help" if error >= without else "would gain no more than chance"
            return (
                f"{self.property} of {rung} stays as computed, since the {self.kind.words} to {self.measured_level} "
                f"{gain}: leave-one-out mean absolute error {error:.3g}{tail} against {without:.3g}{tail} without it, "
                f"n = {self.n} (calibrate with force: true uses it all the same)"
            )
        scaled = rung if self.kind is FitKind.OFFSET else f"{self.slope:.3g} × {rung}"
        sign = "-" if intercept < 0 else "+"
        line = f"{scaled} {sign} {abs(intercept):.3g}{tail}"
        return (
            f"{self.property} of {rung} is calibrated on {self.measured_level}: {line}, {self.words()}, leave-one-out "
            f"mean absolute error {error:.3g}{tail}, without the fit {without:.3g}{tail}"
        )

    def level_of(self, level: str) -> str:
        """Returns the label of the calibrated level. level: label of the computed values."""
        return labelled(level, self.words())

    def value(self, computed: float) -> float:
        """Returns the calibrated value, in the canonical unit."""
        return self.slope * computed + self.intercept

    def uncertainty(self, computed: float, repeatability: float | None) -> float:
        """Returns the standard uncertainty of a calibrated value, in the canonical unit.

        u**2 = (slope * repeatability)**2 + (w * e)**2, with the root mean square leave-one-out error e and the
        `widening` w. So u includes the method's error on molecules that are like the fitted ones. An unknown
        repeatability counts as 0. The result is slightly too large, since e includes the repeatability of the fitted
        molecules as well.

        computed: the value before the fit. repeatability: its standard uncertainty. Both are in the canonical unit.
        """
        return math.hypot(self.slope * (repeatability or 0.0), self.widening(computed) * self.root_mean_square_error)

    def calibrated_quantity(self, quantity: Quantity, charge: int | None = None) -> Quantity:
        """Returns the calibrated quantity, in the unit of the computed one. A bound stays a bound on its side.

        charge: total charge of the molecule; None if it plays no part. Where the fit's error does not hold for it, the
        uncertainty is the repeatability alone.
        """
        prop = properties()[self.property]
        computed = to_canonical(quantity, prop)
        calibrated = replace(computed, value=self.value(computed.value), as_typed=None)
        if charge is None or self.holds_for(charge):
            spread = self.uncertainty(computed.value, computed.uncertainty)
            calibrated = replace(calibrated, uncertainty=spread, uncertainty_kind="fit")
        elif computed.uncertainty is not None:
            calibrated = replace(calibrated, uncertainty=self.slope * computed.uncertainty)
        return from_canonical(calibrated, prop, quantity.unit)

    def calibrated_value(self, measured: Measured, charge: int | None = None) -> Measured:
        """Returns the calibrated value, whose level names the fit. charge: as in `calibrated_quantity`."""
        level = CalibratedLevel(**vars(measured.level), fit=self.words())
        return replace(measured, level=level, quantity=self.calibrated_quantity(measured.quantity, charge))


Fits = Mapping[str, Fit]
"""The fits of one rung, by property."""


def in_use(fits: Fits) -> dict[str, Fit]:
    """Returns the fits by which values are calibrated."""
    return {name: fit for name, fit in fits.items() if fit.is_used}


def calibrated(values: Iterable[Measured], fits: Fits, charge: int | None = None) -> tuple[Measured, ...]:
    """Returns the values of a rung, calibrated where there is a fit of the property. charge: of the molecule, as in
    `Fit.calibrated_quantity`."""
    calibrated_values = []
    for value in values:
        fit = fits.get(value.property)
        calibrated_values.append(value if fit is None else fit.calibrated_value(value, charge))
    return tuple(calibrated_values)


def calibrated_quantities(values: Mapping[str, Quantity], fits: Fits) -> dict[str, Quantity]:
    """Returns the values of a rung by property, calibrated where there is a fit of the property."""
    quantities = {}
    for name, quantity in values.items():
        fit = fits.get(name)
        quantities[name] = quantity if fit is None else fit.calibrated_quantity(quantity)
    return quantities


def fitted(
    property_name: str, kind: FitKind, measured_level: str, computed: Sequence[float], measured: Sequence[float]
) -> Fit:
    """Returns the fit by least squares with equal weights.

    computed, measured: (n,) values of the same molecules, in the canonical unit. The leave-one-out error of a molecule
    is its residual divided by 1 - h, with its leverage h. The fit is used if it lowers the mean absolute error by more
    than `CLEAR_STANDARD_ERRORS` standard errors of this gain. A fit that gains less may well do harm on other molecules
    (`benchmarks/calibration`).

    Raises ValueError for fewer than `FEWEST` molecules, for computed values without spread, and for a slope that is not
    positive.
    """
    n = len(computed)
    if n < FEWEST:
        raise ValueError(f"{n} molecules; a fit needs {FEWEST}")
    mean_computed = math.fsum(computed) / n
    mean_measured = math.fsum(measured) / n
    slope = 1.0
    squared_deviations = math.fsum((c - mean_computed) ** 2 for c in computed)
    if kind is FitKind.LINEAR:
        scale = max(abs(mean_computed), LEAST_SCALE)
        if not squared_deviations > LEAST_RELATIVE_SPREAD * scale**2:
            raise ValueError("the computed values are all alike")
        products = [(c - mean_computed) * (m - mean_measured) for c, m in zip(computed, measured, strict=True)]
        slope = math.fsum(products) / squared_deviations
        if slope <= 0:
            raise ValueError(f"the measured values fall as the computed ones rise (slope {slope:.3g})")
    intercept = mean_measured - slope * mean_computed
    errors = []  # leave-one-out errors, by molecule
    for c, m in zip(computed, measured, strict=True):
        leverage = 1 / n
        if kind is FitKind.LINEAR:
            leverage += (c - mean_computed) ** 2 / squared_deviations
        if leverage > MAX_LEVERAGE:
            raise ValueError("a single molecule decides the slope")
        errors.append((m - slope * c - intercept) / (1 - leverage))
    mean_absolute_error = math.fsum(map(abs, errors)) / n
    root_mean_square_error = math.sqrt(math.fsum(error * error for error in errors) / n)
    errors_without = [abs(m - c) for c, m in zip(computed, measured, strict=True)]
    gains = [before - abs(after) for before, after in zip(errors_without, errors, strict=True)]
    standard_error_of_gain = stdev(gains) / math.sqrt(n)
    return Fit(
        property=property_name,
        kind=kind,
        measured_level=measured_level,
        slope=slope,
        intercept=intercept,
        n=n,
        mean_absolute_error=mean_absolute_error,
        root_mean_square_error=root_mean_square_error,
        error_without=math.fsum(errors_without) / n,
        is_used=math.fsum(gains) / n > CLEAR_STANDARD_ERRORS * standard_error_of_gain,
        center=mean_computed,
        squared_deviations=squared_deviations,
    )
