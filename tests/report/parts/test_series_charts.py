"""Charts of series: colours of the page, real text, differences below, and no more points than the eye can tell."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sciagent.domain.series import CurveRole, Series, SeriesAxis, SeriesColumn, SeriesCurve
from sciagent.report.parts.series_charts import DRAWN, drawn_series, thinned

X = np.linspace(10, 80, 4000)
PEAK = 1000 * np.exp(-(((X - 30) / 0.3) ** 2))


def pattern(n: int = len(X), *, is_reversed: bool = False) -> Series:
    """A measured and a computed pattern with their difference, a background, and marks."""
    columns = {"measured": PEAK + 50, "computed": 0.9 * PEAK + 50, "background": 0 * PEAK + 50, "difference": PEAK / 10}
    return Series(
        title="Pattern & <b>fit</b>",
        axes=[
            SeriesAxis(name="angle", meaning="angle 2θ", unit="degree", is_reversed=is_reversed),
            SeriesAxis(name="counts", meaning="counts"),
        ],
        columns=[
            SeriesColumn(name="x", axis="angle", values=X[:n].tolist()),
            SeriesColumn(name="marks", axis="angle", values=[30.0, 50.0]),
            *(SeriesColumn(name=name, axis="counts", values=y[:n].tolist()) for name, y in columns.items()),
        ],
        curves=[
            *(SeriesCurve(name=name, role=CurveRole(name), x="x", y=name) for name in columns),
            SeriesCurve(name="_reflections $x$", role=CurveRole.MARKS, x="marks"),
        ],
    )


def test_a_pattern_is_drawn_in_the_colours_of_the_page() -> None:
    chart = drawn_series(pattern(), "a")
    assert chart.startswith('<svg class="chart" viewBox=') and "Pattern &amp; &lt;b&gt;fit&lt;/b&gt;</title>" in chart
    for colour in ("--c-ink", "--c-failed", "--c-batch", "--c-passed", "--c-hit"):
        assert f"var({colour})" in chart
    for text in ("angle 2θ / degree", "measured", "difference", "_reflections $x$"):
        assert f">{text}<" in re.sub(r">\s+", ">", chart)
    assert not re.search(r"#[0-9a-f]{6}", chart) and len(chart) < 150_000


@pytest.mark.parametrize("n", [0, 1, 2, 5, 4000])
def test_any_number_of_points_is_drawn(n: int) -> None:
    assert "<svg" in drawn_series(pattern(n), "b")


def test_a_reversed_axis_falls_from_left_to_right() -> None:
    def places(chart: str) -> list[float]:
        marks = re.findall(r'd="M ([\d.]+) [\d.]+ \nL \1 [\d.]+ \n" [^>]*style="[^"]*c-hit', chart)
        return [float(x) for x in marks]

    rising, falling = places(drawn_series(pattern(), "c")), places(drawn_series(pattern(is_reversed=True), "d"))
    assert len(rising) == len(falling) >= 2
    assert (rising[0] < rising[1]) and (falling[0] > falling[1])


def test_thinning_keeps_the_extremes_and_the_order() -> None:
    y = np.random.default_rng(1).normal(size=len(X))
    x, kept = thinned(X, y)
    assert len(x) <= DRAWN and (np.diff(x) > 0).all()
    assert (kept.min(), kept.max()) == (y.min(), y.max())
