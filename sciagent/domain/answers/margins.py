"""The distance of a value from the limits of its objective, with two measures of its certainty.

The repeatability is the spread of this molecule's value when the protocol is run again. The method's error is the
distance of the method's values from experiment for other molecules. They are never added, and neither replaces the
other.
"""

from __future__ import annotations

import math

from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.quantities import show

MEASURED = "measured values in this ledger"
"""The source of errors that come from imported values, not from a benchmark."""
REPEATABILITIES = {"class": "repeatability of its class", "fit": "with the error of the fit"}
"""The words for an uncertainty, by its kind, where they are not simply `repeatability`."""


class MethodFigures(AnswerModel):
    """The error of a rung's method against experiment, for one property; computed minus measured."""

    n: int
    """Number of molecules."""
    mean_error: float
    """Mean of computed minus measured, in `unit`."""
    mean_absolute_error: float
    """Mean of the absolute differences, in `unit`."""
    unit: str
    """The unit of both."""
    chemistry: str
    """The molecules in a few words."""
    reference: str
    """The source of the reference values: `experiment`, or the name of a better theory."""
    source: str
    """`measured values in this ledger`, or the file of the benchmark."""

    def __str__(self) -> str:
        tail = "" if self.unit == "1" else f" {self.unit}"
        figures = f"mean absolute error {self.mean_absolute_error:.2g}{tail}, mean error {self.mean_error:+.2g}{tail}"
        return f"{figures} against {self.reference} (n = {self.n}, {self.chemistry})"


class LimitMargin(AnswerModel):
    """The distance of a value from the nearest limit of its objective."""

    property: str
    """Name of the property."""
    rung: str
    """Label of the rung that measured the value."""
    margin: float
    """Distance from the nearest limit in `unit`; negative outside the limits."""
    unit: str
    """Unit of the value, of the margin and of the repeatability."""
    repeatability: float | None
    """Standard uncertainty (k = 1) of the value; null where it is unknown."""
    uncertainty_kind: str | None
    """`molecule` for the repeatability of this molecule, `class` for the usual one of such molecules, `fit` for either
    with the error of a calibration; null where the evidence does not say."""
    method: MethodFigures | None
    """The method's error in `unit`; null where neither measured values nor a benchmark give it."""

    def is_clear(self) -> bool | None:
        """Returns whether the distance exceeds the method's mean absolute error; None where that is unknown."""
        return None if self.method is None else abs(self.margin) > self.method.mean_absolute_error

    def cell(self) -> str:
        """Returns the distance in the unit of the value, with the method's error where it is known."""
        if self.method is not None:
            return f"{_beside(self.margin, self.method.mean_absolute_error, '1')} (method)"
        return _beside(self.margin, self.repeatability, "1").partition(" ±")[0]

    def __str__(self) -> str:
        where = "clear of the limits by" if self.margin >= 0 else "outside the limits by"
        size, spread = abs(self.margin), self.repeatability
        if self.method is None:
            text = f"{where} {_beside(size, spread, self.unit)}{' (repeatability)' if spread else ''}"
            # a descriptor of the structure is exact: its repeatability is 0
            return text if spread == 0 else f"{text}, the method's error is not known"
        text = f"{where} {_beside(size, self.method.mean_absolute_error, self.unit)} (method)"
        whose = REPEATABILITIES.get(self.uncertainty_kind or "", "repeatability")
        return f"{text}, ±{show(0.0, spread, self.unit).partition('±')[2]} ({whose})" if spread else text


def _beside(value: float, uncertainty: float | None, unit: str) -> str:
    """Returns a text such as `0.4 ± 1.1 eV`: the uncertainty has two digits if the first is 1, else one."""
    if not uncertainty:
        return show(value, uncertainty, unit)
    exponent = math.floor(math.log10(uncertainty))
    places = max(0, (1 if uncertainty < 2 * 10**exponent else 0) - exponent)
    tail = "" if unit == "1" else f" {unit}"
    return f"{round(value, places) + 0.0:.{places}f} ± {uncertainty:.{places}f}{tail}"
