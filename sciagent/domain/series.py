"""Series: named curves over axes with units, such as a powder pattern, a spectrum, or an observable against time.

A verifier leaves a series as an artifact of the type MEDIA_TYPE. Its content comes from a worker, so `read_series`
checks all of it: size, number of curves and values, finite numbers, names that exist, text without control characters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import Annotated, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from sciagent.domain.safe_text_and_durations import shown
from sciagent.errors import UsageError

MEDIA_TYPE = "application/vnd.sciagent.series+json"
MAX_BYTES = 200_000
"""Largest series as JSON."""
MAX_VALUES = 50_000
"""Largest number of values of a column."""
MAX_POINTS = 400
"""Largest number of points of a curve that `curve_series` keeps."""
MAX_TITLE = 200
"""Longest title, in characters."""
DIGITS = 6
"""Significant digits of the values that `curve_series` keeps."""
NUMBER_RATIO = "1"
"""Unit of an axis without one."""

SeriesName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
SeriesText = Annotated[str, StringConstraints(max_length=200)]


class CurveRole(StrEnum):
    """The role of a curve, which decides the style of its line."""

    MEASURED = "measured"
    COMPUTED = "computed"
    DIFFERENCE = "difference"
    """Measured minus computed; drawn below the others."""
    BACKGROUND = "background"
    MARKS = "marks"
    """Positions on the x axis, such as those of reflections; drawn as ticks."""
    OTHER = "other"


class _SeriesPart(BaseModel):
    """A part of a series. Unknown keys and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @field_validator("*")
    @classmethod
    def _printable(cls, value: object) -> object:
        if isinstance(value, str) and not value.isprintable():
            raise ValueError("control characters")
        return value


class SeriesAxis(_SeriesPart):
    """An axis that columns lie on."""

    name: SeriesName
    """Name that columns refer to, such as `two_theta`."""
    meaning: SeriesText
    """The quantity on the axis, such as `diffraction angle 2θ`."""
    unit: Annotated[str, StringConstraints(min_length=1, max_length=40)] = NUMBER_RATIO
    """Unit of the values; `1` for a plain number."""
    is_reversed: bool = False
    """Whether values fall from left to right, as wavenumbers of infrared spectra do."""

    @property
    def label(self) -> str:
        """The meaning with the unit, for the axis of a plot."""
        return self.meaning if self.unit == NUMBER_RATIO else f"{self.meaning} / {self.unit}"


class SeriesColumn(_SeriesPart):
    """A list of values on an axis."""

    name: SeriesName
    """Name that curves refer to, such as `measured`."""
    axis: SeriesName
    """Name of the axis."""
    values: Annotated[list[FiniteFloat], Field(max_length=MAX_VALUES)]
    """The values, in the unit of the axis."""


class SeriesCurve(_SeriesPart):
    """A curve: a column of positions, and a column of values of the same length."""

    name: SeriesText
    """Name in the legend."""
    role: Annotated[CurveRole, Field(strict=False)] = CurveRole.OTHER
    """The role of the curve."""
    x: SeriesName
    """Column with the positions, in rising or falling order."""
    y: SeriesName | None = None
    """Column with the values; None for marks."""
    error: SeriesName | None = None
    """Column with the standard uncertainties of the values; None if unknown."""


class Series(_SeriesPart):
    """Curves with their axes. Raises pydantic's ValidationError if its parts do not fit together."""

    version: Literal[1] = 1
    """Version of the format."""
    title: SeriesText
    """A title of one line."""
    axes: Annotated[list[SeriesAxis], Field(min_length=1, max_length=8)]
    """The axes; their names are unique."""
    columns: Annotated[list[SeriesColumn], Field(min_length=1, max_length=32)]
    """The columns; their names are unique."""
    curves: Annotated[list[SeriesCurve], Field(min_length=1, max_length=16)]
    """The curves, in the order of the legend; all have their positions on one axis."""

    @model_validator(mode="after")
    def _consistent(self) -> Series:
        _check_unique([axis.name for axis in self.axes], "axes")
        _check_unique([column.name for column in self.columns], "columns")
        for column in self.columns:
            self.axis(column.axis)
        for curve in self.curves:
            self._check_curve(curve)
        if len({self.column(curve.x).axis for curve in self.curves}) > 1:
            raise ValueError("the curves have their positions on several axes")
        return self

    def _check_curve(self, curve: SeriesCurve) -> None:
        if (curve.y is None) != (curve.role is CurveRole.MARKS):
            raise ValueError(f"curve {shown(curve.name)}: marks, and only they, have no column y")
        positions = self.column(curve.x).values
        if not (positions == sorted(positions) or positions == sorted(positions, reverse=True)):
            raise ValueError(f"curve {shown(curve.name)}: its positions neither rise nor fall")
        for name in (curve.y, curve.error):
            if name is not None and len(self.column(name).values) != len(positions):
                raise ValueError(f"curve {shown(curve.name)}: its columns have different lengths")
        if curve.error is not None and min(self.column(curve.error).values, default=0.0) < 0:
            raise ValueError(f"curve {shown(curve.name)}: a negative uncertainty")

    def axis(self, name: str) -> SeriesAxis:
        """Returns the axis of this name. Raises ValueError."""
        return _named(self.axes, name, "axis")

    def column(self, name: str) -> SeriesColumn:
        """Returns the column of this name. Raises ValueError."""
        return _named(self.columns, name, "column")

    @property
    def x_axis(self) -> SeriesAxis:
        """The axis on which the curves have their positions."""
        return self.axis(self.column(self.curves[0].x).axis)

    def to_json(self) -> bytes:
        """Returns the series as JSON. Raises UsageError if it is larger than MAX_BYTES."""
        data = self.model_dump_json(exclude_none=True).encode()
        if len(data) > MAX_BYTES:
            raise UsageError(f"the series has {len(data):,} bytes; at most {MAX_BYTES:,}: thin it, or round its values")
        return data

    def rows(self) -> list[list[str]]:
        """Returns the columns as a table of texts: a line of headings with units, then the values; shorter columns end
        with empty cells."""
        units = [self.axis(column.axis).unit for column in self.columns]
        names = [column.name for column in self.columns]
        headings = [
            name if unit == NUMBER_RATIO else f"{name} [{unit}]" for name, unit in zip(names, units, strict=True)
        ]
        table = [headings]
        for values in zip_longest(*(column.values for column in self.columns)):
            table.append(["" if value is None else repr(value) for value in values])
        return table


def read_series(data: bytes) -> Series:
    """Returns the series of an artifact. Raises UsageError for anything but a valid series."""
    if len(data) > MAX_BYTES:
        raise UsageError(f"a series of {len(data):,} bytes; at most {MAX_BYTES:,}")
    try:
        return Series.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"no valid series: {shown(where)}: {shown(first['msg'], 200)}") from None


def curve_series(
    title: str,
    x_axis: SeriesAxis,
    y_axis: SeriesAxis,
    x: Sequence[float],
    columns: Mapping[str, Sequence[float]],
    errors: Mapping[str, Sequence[float]] | None = None,
    legend: Mapping[str, str] | None = None,
) -> Series:
    """Returns curves over one column of positions, which may be arrays; of longer ones each second, third, ... point.

    title: is cut to MAX_TITLE characters. columns: the values by name. errors: standard uncertainties of some of them.
    legend: names of curves by column; default: the name of the column.
    """
    step = max(1, math.ceil(len(x) / MAX_POINTS))
    errors = errors or {}
    legend = legend or {}
    listed = [SeriesColumn(name=x_axis.name, axis=x_axis.name, values=_rounded(x[::step]))]
    curves = []
    for name, values in columns.items():
        listed.append(SeriesColumn(name=name, axis=y_axis.name, values=_rounded(values[::step])))
        error = None
        if name in errors:
            error = f"{name}_error"
            listed.append(SeriesColumn(name=error, axis=y_axis.name, values=_rounded(errors[name][::step])))
        called = legend.get(name, name.replace("_", " "))
        curves.append(SeriesCurve(name=called, x=x_axis.name, y=name, error=error))
    return Series(title=title[:MAX_TITLE], axes=[x_axis, y_axis], columns=listed, curves=curves)


def _rounded(values: Sequence[float]) -> list[float]:
    """Returns values with `DIGITS` significant digits."""
    return [float(f"{value:.{DIGITS}g}") for value in values]


_Part = TypeVar("_Part", SeriesAxis, SeriesColumn)


def _check_unique(names: list[str], what: str) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"two {what} have one name")


def _named(parts: list[_Part], name: str, what: str) -> _Part:
    for part in parts:
        if part.name == name:
            return part
    raise ValueError(f"there is no {what} {shown(name)}")
