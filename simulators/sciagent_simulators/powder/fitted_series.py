"""A fitted powder pattern as a series: measured, computed, background, difference, and where the reflections are."""

from __future__ import annotations

from itertools import count

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.series import MAX_BYTES, CurveRole, Series, SeriesAxis, SeriesColumn, SeriesCurve
from sciagent.domain.text import escaped
from sciagent_simulators.powder.background import PreparedPattern
from sciagent_simulators.powder.powder_fit import PowderFit

Array = NDArray[np.float64]
DIGITS = 5
"""Significant digits of intensities."""
MARKS = 1000
"""Largest number of reflections that are marked, the strongest first."""


def fitted_series(measured: PreparedPattern, fitted: PowderFit, title: str) -> Series:
    """Returns the series; of a pattern that is too large for one, every second point, or every third, …"""
    for every in count(1):
        series = _every(every, measured, fitted, title)
        if len(series.model_dump_json()) < MAX_BYTES:
            return series
    raise AssertionError


def _every(every: int, measured: PreparedPattern, fitted: PowderFit, title: str) -> Series:
    computed = fitted.computed + measured.background
    columns = {
        "measured": measured.intensity,
        "computed": computed,
        "background": measured.background,
        "difference": measured.intensity - computed,
    }
    angles = {"two_theta": measured.two_theta[::every], "reflections": np.sort(fitted.centres[:MARKS])}
    return Series(
        title=escaped(title)[:200],
        axes=[
            SeriesAxis(name="two_theta", meaning="diffraction angle 2θ", unit="degree"),
            SeriesAxis(name="intensity", meaning="intensity as measured"),
        ],
        columns=[
            *(SeriesColumn(name=name, axis="two_theta", values=np.round(x, 4).tolist()) for name, x in angles.items()),
            *(SeriesColumn(name=name, axis="intensity", values=_rounded(y[::every])) for name, y in columns.items()),
        ],
        curves=[
            *(SeriesCurve(name=name, role=CurveRole(name), x="two_theta", y=name) for name in columns),
            SeriesCurve(name="reflections", role=CurveRole.MARKS, x="reflections"),
        ],
    )


def _rounded(values: Array) -> list[float]:
    """Returns the values with DIGITS significant digits; powers of ten from 1 up are exact, so texts stay short."""
    with np.errstate(divide="ignore"):
        places = DIGITS - 1 - np.floor(np.log10(np.abs(values)))
    places = np.where(np.isfinite(places), np.clip(places, -22, 22), 0.0)
    up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
    rounded: list[float] = (np.rint(values * up / down) * down / up).tolist()
    return rounded
