"""Charts of objectives: a histogram with the limits, and two objectives against each other with a name per point."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import escape

from sciagent.domain.text import cut
from sciagent.report.parts.charts import COLOURS, Window, contexted, draw_limits, figure, svg

BINS = 24
KINDS = {
    "hit": ("hit", "hit", "", "^", 8.5),
    "verified": ("verified, no hit", "passed", "////", "o", 6.5),
    "settled": ("verified", "passed", "////", "o", 6.5),
    "open": ("not verified yet", "waiting", "----", "o", 6.0),
    "fallen": ("dropped", "failed", "....", "x", 4.5),
}
"""{kind of a candidate: (label, colour, hatch of its bars, marker, size of the marker)}. `settled` is what `verified`
is called where no objective has limits, so that there are no hits."""


class NamedPoint(NamedTuple):
    """A candidate in a plot of two objectives."""

    x: float
    y: float
    kind: str
    """`hit`, `verified`, `settled`, `open` or `fallen`."""
    name: str
    """Its name, or its structure as text."""


@contexted
def distribution(by_kind: Mapping[str, Sequence[float]], label: str, window: Window, salt: str) -> str:
    """Draws a stacked histogram of the values, with the limits. by_kind: {kind of the candidates: their values}."""
    import numpy as np

    chart, axes = figure(4.6, 2.9)
    kinds = [kind for kind in KINDS if by_kind.get(kind)]
    values = np.concatenate([by_kind[kind] for kind in kinds])
    edges = np.histogram_bin_edges(values, bins=min(BINS, max(6, 2 * int(len(values) ** 0.5))))
    bottom = np.zeros(len(edges) - 1)
    for kind in kinds:
        name, colour, hatch, _, _ = KINDS[kind]
        heights, _ = np.histogram(by_kind[kind], edges)
        look = {"facecolor": COLOURS[colour], "edgecolor": COLOURS["surface"], "hatch": hatch, "linewidth": 0.6}
        axes.bar(
            edges[:-1], heights, np.diff(edges), bottom, align="edge", label=f"{name}, {len(by_kind[kind])}", **look
        )
        bottom += heights
    draw_limits(axes, window, None)
    axes.set_xlabel(cut(label, 52), fontsize=9.5)
    axes.set_ylabel("candidates", fontsize=9.5)
    axes.yaxis.get_major_locator().set_params(integer=True)
    chart.legend(loc="outside upper left", ncols=2, fontsize=9, handlelength=1.4, columnspacing=1.2)
    return svg(chart, f"Distribution of {label}", salt)


@contexted
def pareto(
    points: Sequence[NamedPoint], labels: Sequence[str], windows: Sequence[Window], directions: Sequence[str], salt: str
) -> str:
    """Draws two objectives against each other; each point has its name as a title, which browsers show on hover.

    directions: of the two objectives. If both are maximised or minimised, a line joins the candidates that no other
    one beats in both.
    """
    chart, axes = figure(5.4, 4.4)
    drawn: dict[str, Any] = {}
    for i, point in reversed(list(enumerate(points))):  # the best come last, on top
        label, colour, _, marker, size = KINDS[point.kind]
        look = {"color": COLOURS[colour], "markersize": size, "clip_on": False, "gid": f"point-{i}"}
        look |= {"fillstyle": "none"} if point.kind == "open" else {}
        look |= {} if point.kind in ("open", "fallen") else {"markeredgecolor": COLOURS["surface"]}
        [drawn[label]] = axes.plot([point.x], [point.y], marker, linestyle="none", **look)
    if set(directions) <= {"maximise", "minimise"} and (line := front(points, directions)):
        axes.plot(*zip(*line, strict=True), color=COLOURS["ink"], linewidth=1.2, drawstyle="steps-post", zorder=1)
    draw_limits(axes, windows[0], windows[1])
    axes.set_xlabel(cut(labels[0], 52), fontsize=9.5)
    axes.set_ylabel(cut(labels[1], 52), fontsize=9.5)
    axes.grid(True)
    order = [label for label, *_ in KINDS.values() if label in drawn]
    chart.legend([drawn[label] for label in order], order, loc="outside upper left", ncols=2, fontsize=9)
    text = svg(chart, f"{labels[1]} against {labels[0]}", salt)
    return re.sub(r'<g id="point-(\d+)">', lambda m: _titled(points[int(m[1])]), text)


def _titled(point: NamedPoint) -> str:
    return f'<g class="point"><title>{escape(point.name)}: {point.x:.4g}, {point.y:.4g}</title>'


def front(points: Sequence[NamedPoint], directions: Sequence[str]) -> list[tuple[float, float]]:
    """Returns the points that no other one beats in both objectives, in the order of x."""
    signs = [1.0 if direction == "maximise" else -1.0 for direction in directions]
    best, kept = float("-inf"), []
    for point in sorted(points, key=lambda p: (-signs[0] * p.x, -signs[1] * p.y)):
        if signs[1] * point.y > best:
            best = signs[1] * point.y
            kept.append((point.x, point.y))
    return sorted(kept)
