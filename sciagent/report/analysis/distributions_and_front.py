"""Charts of the objectives: the distribution of each one with its limits, and the first two against each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from markupsafe import escape
from sqlalchemy.engine import Connection

from sciagent.domain.display_units import chosen_unit_of
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.safe_text_and_durations import cut
from sciagent.report.analysis.rung_spending_comparisons_and_worth import limits
from sciagent.report.parts.campaign_charts import COLOURS, Window, draw_limits, figure, svg, with_chart_settings
from sciagent.report.parts.wording import with_unit, words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.views.progress_and_comparisons import ObjectiveValues, objective_values
from sciagent.store.views.report_candidates import campaign_members

BINS = 24  # largest number of bars of a histogram
MIN_BINS = 6
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


@with_chart_settings
def distribution(by_kind: Mapping[str, Sequence[float]], label: str, window: Window, salt: str) -> str:
    """Draws a stacked histogram of the values, with the limits. by_kind: {kind of the candidates: their values}. salt:
    as in `svg`."""
    import numpy as np

    chart, axes = figure(4.6, 2.9)
    kinds = [kind for kind in KINDS if by_kind.get(kind)]
    values = np.concatenate([by_kind[kind] for kind in kinds])
    # the number of bars grows with the square root of the number of values
    n_bins = min(BINS, max(MIN_BINS, 2 * int(len(values) ** 0.5)))
    edges = np.histogram_bin_edges(values, bins=n_bins)
    bottom = np.zeros(len(edges) - 1)
    for kind in kinds:
        name, colour, hatch, _, _ = KINDS[kind]
        heights, _ = np.histogram(by_kind[kind], edges)
        bar_style = {"facecolor": COLOURS[colour], "edgecolor": COLOURS["surface"], "hatch": hatch, "linewidth": 0.6}
        axes.bar(
            edges[:-1],
            heights,
            width=np.diff(edges),
            bottom=bottom,
            align="edge",
            label=f"{name}, {len(by_kind[kind])}",
            **bar_style,
        )
        bottom += heights
    draw_limits(axes, x_window=window, y_window=None)
    axes.set_xlabel(cut(label, 52), fontsize=9.5)
    axes.set_ylabel("candidates", fontsize=9.5)
    axes.yaxis.get_major_locator().set_params(integer=True)
    chart.legend(loc="outside upper left", ncols=2, fontsize=9, handlelength=1.4, columnspacing=1.2)
    return svg(chart, f"Distribution of {label}", salt=salt)


@with_chart_settings
def pareto(
    points: Sequence[NamedPoint], labels: Sequence[str], windows: Sequence[Window], directions: Sequence[str], salt: str
) -> str:
    """Draws two objectives against each other; each point has its name as a title, which browsers show on hover.

    points: the best candidate first. directions: of the two objectives. If both are maximised or minimised, a line
    joins the candidates that no other one beats in both. salt: as in `svg`.
    """
    chart, axes = figure(5.4, 4.4)
    handles: dict[str, Any] = {}  # for the legend, by label
    for i, point in reversed(list(enumerate(points))):  # the best points are drawn last, on top of the others
        label, colour, _, marker, size = KINDS[point.kind]
        look = {"color": COLOURS[colour], "markersize": size, "clip_on": False, "gid": f"point-{i}"}
        if point.kind == "open":
            look["fillstyle"] = "none"
        elif point.kind != "fallen":
            look["markeredgecolor"] = COLOURS["surface"]
        (handle,) = axes.plot([point.x], [point.y], marker, linestyle="none", **look)
        handles[label] = handle
    # other directions, such as a target, do not say which of two values is better
    line = front(points, directions) if set(directions) <= {"maximise", "minimise"} else []
    if line:
        xs = [x for x, _ in line]
        ys = [y for _, y in line]
        axes.plot(xs, ys, color=COLOURS["ink"], linewidth=1.2, drawstyle="steps-post", zorder=1)
    draw_limits(axes, x_window=windows[0], y_window=windows[1])
    axes.set_xlabel(cut(labels[0], 52), fontsize=9.5)
    axes.set_ylabel(cut(labels[1], 52), fontsize=9.5)
    axes.grid(True)
    order = [label for label, *_ in KINDS.values() if label in handles]
    chart.legend([handles[label] for label in order], order, loc="outside upper left", ncols=2, fontsize=9)
    text = svg(chart, f"{labels[1]} against {labels[0]}", salt=salt)
    # each point gets its title in place of the id by which it is found
    return re.sub(r'<g id="point-(\d+)">', lambda m: _titled(points[int(m[1])]), text)


def _titled(point: NamedPoint) -> str:
    return f'<g class="point"><title>{escape(point.name)}: {point.x:.4g}, {point.y:.4g}</title>'


def front(points: Sequence[NamedPoint], directions: Sequence[str]) -> list[tuple[float, float]]:
    """Returns the points that no other one beats in both objectives, in the order of x."""
    signs = [1.0 if direction == "maximise" else -1.0 for direction in directions]
    best_y = float("-inf")  # the larger, the better
    unbeaten = []
    for point in sorted(points, key=lambda p: (-signs[0] * p.x, -signs[1] * p.y)):  # the best x first
        if signs[1] * point.y > best_y:
            best_y = signs[1] * point.y
            unbeaten.append((point.x, point.y))
    return sorted(unbeaten)


SHOWN_RUNGS = 2  # the terminal rung and the one below it that measured an objective
FEWEST = 2  # smallest number of values for a chart
POINTS = 600  # largest number of points of a Pareto plot


@dataclass(frozen=True)
class ObjectiveChart:
    """A chart with its caption."""

    title: str
    rung: str
    n: int
    """Number of candidates."""
    chart: str
    """SVG."""
    drawn: int = 0
    """Number of points of a plot of two objectives, if it shows points."""
    limited: bool = True
    """Whether the chart shows limits."""


@dataclass(frozen=True)
class ObjectiveCharts:
    """The charts of the objectives; the charts of the terminal rung come first."""

    distributions: list[ObjectiveChart]
    fronts: list[ObjectiveChart]
    """The first two objectives against each other."""


def objective_charts(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> ObjectiveCharts:
    """Returns the charts of the terminal rung, and of the next rung below it that measured an objective."""
    objectives = [o for o in row.spec.get("objectives", ()) if o["property"] in properties()]
    names = [o["property"] for o in objectives]
    terminal_position = next(rung.position for rung in ladder if rung.name == row.spec["terminal"])
    distributions: list[ObjectiveChart] = []
    fronts: list[ObjectiveChart] = []
    rungs_shown = 0
    for rung in reversed(ladder[: terminal_position + 1]):
        candidates = _with_kinds(objective_values(connection, row, rung, names), objectives)
        if not candidates or rungs_shown == SHOWN_RUNGS:
            continue
        rungs_shown += 1
        for objective in objectives:
            distributions += _distribution(row, rung, objective, candidates)
        if len(objectives) > 1:
            fronts += _front(connection, row, rung, objectives[:2], candidates)
    return ObjectiveCharts(distributions, fronts)


def _with_kinds(
    candidates: Sequence[ObjectiveValues], objectives: Sequence[Mapping[str, Any]]
) -> Sequence[ObjectiveValues]:
    """Returns the candidates; where no objective has limits, the kind `verified` is replaced by `settled`."""
    for objective in objectives:
        edges = objective.get("accept") or ()
        if any(edge is not None for edge in edges):
            return candidates
    renamed = []
    for candidate in candidates:
        renamed.append(replace(candidate, kind="settled") if candidate.kind == "verified" else candidate)
    return renamed


def _distribution(
    row: CampaignRow, rung: RungRow, objective: Mapping[str, Any], candidates: Sequence[ObjectiveValues]
) -> list[ObjectiveChart]:
    """Returns the distribution of one objective at a rung; empty with too few values."""
    name = objective["property"]
    by_kind: dict[str, list[float]] = {}
    for candidate in candidates:
        if name in candidate.values:
            by_kind.setdefault(candidate.kind, []).append(candidate.values[name])
    n = sum(len(values) for values in by_kind.values())
    if n < FEWEST:
        return []
    label = f"{with_unit(name, chosen_unit_of(name, row.units))} at {rung.name}"
    window = limits(row, rung, name)
    chart = distribution(by_kind, label, window, salt=f"spread-{rung.position}-{name}")
    is_limited = any(edge is not None for edge in window or ())
    return [ObjectiveChart(words(name), rung.name, n, chart, limited=is_limited)]


def _front(
    connection: Connection,
    row: CampaignRow,
    rung: RungRow,
    objectives: Sequence[Mapping[str, Any]],
    candidates: Sequence[ObjectiveValues],
) -> list[ObjectiveChart]:
    """Returns a plot of two objectives against each other; empty with too few candidates that have both values."""
    x_name, y_name = (objective["property"] for objective in objectives)
    with_both = [candidate for candidate in candidates if x_name in candidate.values and y_name in candidate.values]
    plotted = thinned(with_both, POINTS)
    if len(plotted) < FEWEST:
        return []
    members = campaign_members(connection, row, [candidate.candidate_id for candidate in plotted])
    points = []
    for candidate in plotted:
        values = candidate.values
        label = members[candidate.candidate_id].label
        points.append(NamedPoint(values[x_name], values[y_name], candidate.kind, label))
    chart = pareto(
        points,
        labels=[f"{with_unit(name, chosen_unit_of(name, row.units))} at {rung.name}" for name in (x_name, y_name)],
        windows=[limits(row, rung, name) for name in (x_name, y_name)],
        directions=[objective["direction"] for objective in objectives],
        salt=f"pareto-{rung.position}",
    )
    title = f"{words(x_name)} and {words(y_name)}"
    return [ObjectiveChart(title, rung.name, n=len(with_both), chart=chart, drawn=len(plotted))]


def thinned(candidates: Sequence[ObjectiveValues], most: int) -> Sequence[ObjectiveValues]:
    """Returns all candidates if there are at most `most`, else `most` of them, in the same order.

    candidates: the best first. The first sixth of `most` are the best candidates; the others are taken at equal
    distances in the order.
    """
    if len(candidates) <= most:
        return candidates
    n_best = most // 6
    n_others = most - n_best
    step = (len(candidates) - n_best) / n_others
    others = [candidates[n_best + int(i * step)] for i in range(n_others)]
    return [*candidates[:n_best], *others]
