"""The series of candidates, such as powder patterns and spectra: read from the artifacts, and drawn as charts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.safe_text_and_durations import cut
from sciagent.domain.series import MAX_BYTES, MEDIA_TYPE, CurveRole, Series, SeriesColumn, SeriesCurve, read_series
from sciagent.errors import SciagentError
from sciagent.report.parts.campaign_charts import COLOURS, LINES, figure, svg, with_chart_settings
from sciagent.store.database.ledger import ArtifactStore
from sciagent.store.views.report_candidates import EvidenceAnswer

Array = NDArray[np.float64]

DRAWN = 1200
"""Points of a curve above which only the lowest and highest of each stretch are drawn."""
WITH_MARKERS = 40
"""Largest number of points of a curve that has a marker at each."""
LINE = 26
"""Characters of a line of an axis's label, as many as the height of a panel takes."""
STYLES: dict[CurveRole, Any] = {
    CurveRole.MEASURED: {"color": COLOURS["ink"], "linewidth": 0.9},
    CurveRole.COMPUTED: {"color": COLOURS["failed"], "linewidth": 1.1, "linestyle": (0, (5, 1))},
    CurveRole.BACKGROUND: {"color": COLOURS["batch"], "linewidth": 1.0, "linestyle": (0, (1, 1.5))},
    CurveRole.DIFFERENCE: {"color": COLOURS["passed"], "linewidth": 0.8},
}


class StoredSeries(NamedTuple):
    """A series of a candidate, with the rung's answer that it came with."""

    answer: EvidenceAnswer
    name: str
    """Name of the artifact."""
    series: Series


class SeriesChart(NamedTuple):
    """A drawn series."""

    rung: str
    title: str
    chart: str
    """An `svg` element."""


def stored_series(artifacts: ArtifactStore, answers: Sequence[EvidenceAnswer]) -> Iterator[StoredSeries]:
    """Yields the series of these answers, the last answer first; files that are gone or invalid are left out."""
    for answer in reversed(answers):
        for name, sha256, size, media_type in answer.files:
            if media_type == MEDIA_TYPE and size <= MAX_BYTES:
                try:
                    yield StoredSeries(answer, name, read_series(artifacts.get(sha256)))
                except SciagentError:
                    continue


def series_chart(stored: StoredSeries) -> SeriesChart:
    """Returns the series drawn: a panel for each axis of values, one above the other."""
    salt = hashlib.sha256(f"{stored.answer.key}{stored.name}".encode()).hexdigest()[:12]
    return SeriesChart(stored.answer.rung, stored.series.title, drawn_series(stored.series, f"series-{salt}"))


@with_chart_settings
def drawn_series(series: Series, salt: str) -> str:
    """Returns the series as an `svg` element. salt: makes the ids unique on the page."""
    with_values = [curve for curve in series.curves if curve.y is not None]
    axes_of_values = list(dict.fromkeys(_value_column(series, curve).axis for curve in with_values))
    n_panels = max(1, len(axes_of_values))
    chart, only_panel = figure(width=4.4, height=0.8 + 1.9 * n_panels)
    panels = [only_panel]
    if n_panels > 1:
        chart.clear()
        panels = list(chart.subplots(n_panels, sharex=True))
    for name, axes in zip(axes_of_values, panels, strict=False):  # without values there is still one panel, for marks
        curves_of_axis = [curve for curve in with_values if _value_column(series, curve).axis == name]
        _draw_values(series, curves_of_axis, axes)
        axes.set_ylabel("\n".join(wrap(cut(series.axis(name).label, 60), LINE)), fontsize=9)
    for curve in series.curves:
        if curve.y is None:  # marks at places of the x axis, without values
            _draw_marks(series, curve, panels[-1])
    _finish(series, chart, panels)
    return svg(chart, series.title, salt)


def _value_column(series: Series, curve: SeriesCurve) -> SeriesColumn:
    """Returns the column with the values of a curve, which must not be a row of marks."""
    assert curve.y is not None
    return series.column(curve.y)


def _finish(series: Series, chart: Any, panels: Sequence[Any]) -> None:
    """Adds the grid, the label of the x axis, and one legend of all panels."""
    for axes in panels:
        axes.tick_params(labelsize=8.5)
        axes.grid(axis="x")
        axes.margins(x=0)
    panels[-1].set_xlabel(cut(series.x_axis.label, 60), fontsize=9)
    if series.x_axis.is_reversed:
        panels[-1].invert_xaxis()
    handles = list[Any]()
    labels = list[str]()
    for panel in panels:
        panel_handles, panel_labels = panel.get_legend_handles_labels()
        handles += panel_handles
        labels += panel_labels
    spacing = {"handlelength": 1.9, "columnspacing": 1.0, "handletextpad": 0.5}
    n_columns = min(3, len(labels))
    chart.legend(handles, labels, loc="outside upper left", ncols=n_columns, fontsize=8.5, **spacing)


def _draw_values(series: Series, curves: Sequence[SeriesCurve], axes: Any) -> None:
    """Draws the curves of one axis of values, with the differences below the others."""
    differences = [curve for curve in curves if curve.role is CurveRole.DIFFERENCE]
    others = [curve for curve in curves if curve not in differences]
    styles = iter(LINES)
    heights = list[float]()
    for curve in others:
        style = STYLES.get(curve.role)
        if style is None:
            colour, marker, dashes = next(styles)
            style = _style_without_role(colour, marker, dashes)
        _draw_line(series, curve, axes, style)
        heights += _value_column(series, curve).values
    for curve in differences:
        _draw_difference(series, curve, axes, min(heights, default=0.0), max(heights, default=0.0))


def _draw_difference(series: Series, curve: SeriesCurve, axes: Any, floor: float, top: float) -> None:
    """Draws a difference below the other curves, around a line that marks its 0.

    floor, top: lowest and highest value of the other curves. The axis has no ticks below them, since ticks would not
    hold for the difference.
    """
    height = top - floor
    level = 0.0
    if height:
        gap = 0.08 * height
        highest_difference = max(_value_column(series, curve).values, default=0.0)
        level = floor - gap - highest_difference
    axes.axhline(level, color=COLOURS["muted"], linewidth=0.5, zorder=1)
    _draw_line(series, curve, axes, STYLES[CurveRole.DIFFERENCE], level)
    if height:
        axes.set_yticks([tick for tick in axes.get_yticks() if min(floor, 0.0) <= tick <= top + 0.05 * height])


def _style_without_role(colour: str, marker: str, dashes: Any) -> Any:
    """Returns the style of a curve without a role."""
    return {"color": COLOURS[colour], "linewidth": 1.2, "linestyle": dashes, "marker": marker}


def _draw_line(series: Series, curve: SeriesCurve, axes: Any, style: Any, level: float = 0.0) -> None:
    """Draws a curve, moved up by `level`, with a band of its uncertainties; few points have markers."""
    x = np.array(series.column(curve.x).values)
    y = np.array(_value_column(series, curve).values) + level
    if not len(x):
        return
    if curve.error is not None:
        error = np.array(series.column(curve.error).values)
        axes.fill_between(x, y - error, y + error, color=COLOURS["band"], linewidth=0)
    line_style = {**style, "marker": None}
    if len(x) <= WITH_MARKERS:
        line_style |= {"marker": style.get("marker", "o"), "markersize": 3.5, "clip_on": False}
    shown_x, shown_y = thinned(x, y)
    axes.plot(shown_x, shown_y, label=_label(curve), **line_style)


def _draw_marks(series: Series, curve: SeriesCurve, axes: Any) -> None:
    """Draws ticks on the lower edge of a panel."""
    x = np.array(series.column(curve.x).values)
    low, high = axes.get_ylim()
    height = high - low
    tick_bottom = low - 0.09 * height
    tick_top = low - 0.03 * height
    axes.vlines(x, tick_bottom, tick_top, color=COLOURS["hit"], linewidth=0.8, label=_label(curve))
    axes.set_ylim(tick_bottom, high)


def _label(curve: SeriesCurve) -> str:
    """Returns the name of a curve in the legend. A name that begins with `_` gets a space before, else it is hidden."""
    name = f" {curve.name}" if curve.name.startswith("_") else curve.name
    return cut(name, 34)


def thinned(x: Array, y: Array) -> tuple[Array, Array]:
    """Returns at most DRAWN points of a curve, in order: the lowest and the highest point of each stretch."""
    if len(x) <= DRAWN:
        return x, y
    indices = []
    n_stretches = DRAWN // 2  # with two points each
    for stretch in np.array_split(np.arange(len(x)), n_stretches):
        lowest = int(stretch[y[stretch].argmin()])
        highest = int(stretch[y[stretch].argmax()])
        indices += sorted({lowest, highest})
    return x[indices], y[indices]
