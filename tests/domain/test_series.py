"""A series carries curves with units; nothing that a worker writes is trusted."""

from __future__ import annotations

import json

import pytest

from sciagent.domain.series import (
    MAX_BYTES,
    CurveRole,
    Series,
    SeriesAxis,
    SeriesColumn,
    SeriesCurve,
    curve_series,
    read_series,
)
from sciagent.errors import UsageError


def pressure() -> Series:
    """An observable against time with error bars, and the times of two events."""
    return Series(
        title="Pressure of a box",
        axes=[
            SeriesAxis(name="time", meaning="time", unit="ps"),
            SeriesAxis(name="pressure", meaning="pressure", unit="bar"),
        ],
        columns=[
            SeriesColumn(name="time", axis="time", values=[0.0, 0.5, 1.0]),
            SeriesColumn(name="pressure", axis="pressure", values=[1.0, -2.5, 3e-7]),
            SeriesColumn(name="error", axis="pressure", values=[0.1, 0.1, 0.2]),
            SeriesColumn(name="events", axis="time", values=[0.25, 0.75]),
        ],
        curves=[
            SeriesCurve(name="pressure", role=CurveRole.MEASURED, x="time", y="pressure", error="error"),
            SeriesCurve(name="events", role=CurveRole.MARKS, x="events"),
        ],
    )


def changed(**parts: object) -> bytes:
    """Returns the series as JSON with other parts at the top level."""
    return json.dumps({**json.loads(pressure().to_json()), **parts}).encode()


def test_a_series_comes_back_from_its_json() -> None:
    series = pressure()
    assert read_series(series.to_json()) == series
    assert series.x_axis.label == "time / ps"


def test_its_table_has_units_and_room_for_columns_of_other_lengths() -> None:
    rows = pressure().rows()
    assert rows[0] == ["time [ps]", "pressure [bar]", "error [bar]", "events [ps]"]
    assert rows[1:] == [["0.0", "1.0", "0.1", "0.25"], ["0.5", "-2.5", "0.1", "0.75"], ["1.0", "3e-07", "0.2", ""]]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "JSON"),
        (b"\xff\xfe{}", "JSON"),
        (b"[]", "valid series"),
        (b'{"title": "x"}', "axes"),
        (changed(more=1), "more"),
        (changed(version=2), "version"),
        (changed(title="a\x1b[31mb"), "control characters"),
        (changed(title="x" * 201), "200"),
        (changed(axes=[]), "axes"),
        (changed(columns=[{"name": "time", "axis": "time", "values": ["1"]}]), "values"),
        (changed(columns=[{"name": "time", "axis": "place", "values": [1.0]}]), "no axis"),
        (changed(columns=[{"name": "Time", "axis": "time", "values": [1.0]}]), "name"),
        (changed(curves=[{"name": "a", "x": "time", "y": "events"}]), "different lengths"),
        (changed(curves=[{"name": "a", "x": "pressure", "y": "time"}]), "neither rise nor fall"),
        (changed(curves=[{"name": "a", "x": "time"}]), "marks"),
        (changed(curves=[{"name": "a", "role": "marks", "x": "time", "y": "pressure"}]), "marks"),
        (changed(curves=[{"name": "a", "x": "time", "y": "place"}]), "no column"),
        (changed(curves=[{"name": "a", "role": "glow", "x": "time", "y": "pressure"}]), "role"),
        (changed(curves=[{"name": "a", "x": "time", "y": "error", "error": "pressure"}]), "negative"),
        (pressure().to_json().replace(b"-2.5", b"NaN"), "finite"),
        (pressure().to_json().replace(b"-2.5", b"1e999"), "finite"),
        (b"[" * 100_000, "JSON"),
        (b" " * (MAX_BYTES + 1), "at most"),
    ],
)
def test_whatever_else_a_worker_writes_is_refused(data: bytes, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        read_series(data)


def test_curves_with_positions_on_two_axes_are_no_series() -> None:
    curves = [{"name": "a", "x": "time", "y": "pressure"}, {"name": "b", "x": "error", "role": "marks"}]
    with pytest.raises(UsageError, match="several axes"):
        read_series(changed(curves=curves))


def test_a_series_that_is_too_large_is_not_written() -> None:
    values = [1 / 3] * 20_000
    columns = [SeriesColumn(name="time", axis="time", values=values)]
    curves = [SeriesCurve(name="times", role=CurveRole.MARKS, x="time")]
    series = Series(title="Long", axes=[SeriesAxis(name="time", meaning="time")], columns=columns, curves=curves)
    with pytest.raises(UsageError, match="thin it"):
        series.to_json()


def test_long_curves_are_thinned_and_rounded_with_their_errors() -> None:
    time = SeriesAxis(name="time", meaning="time", unit="ps")
    energy = SeriesAxis(name="energy", meaning="energy", unit="eV")
    x = [0.1 * step for step in range(1001)]
    columns = {"first_run": [1 / 3] * 1001, "second_run": [2.0] * 1001}
    made = curve_series("E" * 300, time, energy, x, columns, {"second_run": [0.5] * 1001})
    assert len(made.title) == 200 and len(made.column("time").values) == 334
    assert set(made.column("first_run").values) == {0.333333}
    assert [(curve.name, curve.error) for curve in made.curves] == [
        ("first run", None),
        ("second run", "second_run_error"),
    ]
