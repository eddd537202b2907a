"""The charts of a report: fate of the candidates, cost by rung, progress against cost, rung against rung."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from sciagent.report.parts.agreement import Pair
from sciagent.report.parts.drawing import COLOURS, contexted, cost_unit, figure, shorten, svg
from sciagent.store.views.report_progress import ProgressStep
from sciagent.store.views.report_queries import Passage

DRAWN = 1500  # points of a scatter
WITH_BARS = 150  # up to so many points have their uncertainties drawn
# hatches tell the parts apart where colours do not: in grey print, to a colour-blind reader
FATES = (
    ("passed", "passed", ""),
    ("failed", "failed", "////"),
    ("refused", "refused", "...."),
    ("inconclusive", "inconclusive", "xxxx"),
    ("errors", "error", "++++"),
    ("waiting", "waiting, running or set aside", "----"),
)
COSTS = (
    ("passed", "passed", "passed", ""),
    ("failed", "failed", "failed", "////"),
    ("refused", "refused", "refused", "...."),
    ("inconclusive", "inconclusive", "inconclusive", "xxxx"),
    ("no_answer", "no answer", "errors", "++++"),
    ("batch", "fast batches, all verdicts", "batch", ""),
)


@contexted
def funnel(passages: Sequence[Passage]) -> str:
    """One bar per rung, all of the same length, with the share and number of candidates by outcome."""
    made, axes = figure(7.4, 0.95 + 0.58 * len(passages))
    parts = [_parts(p) for p in passages]
    for i, (passage, shares) in enumerate(zip(passages, parts, strict=True)):
        left = 0.0
        for name, _, hatch in FATES:
            width = shares[name] / passage.came if passage.came else 0.0
            if width:
                _bar(axes, i, left, width, name, hatch)
                if width > 0.016 + 0.014 * len(str(shares[name])):
                    _label(axes, left + width / 2, i, f"{shares[name]}")
            left += width
        if not passage.came:
            axes.text(0.01, i, "nothing came here yet", va="center", color=COLOURS["muted"], style="italic")
    _rung_axis(axes, [f"{shorten(p.rung.name, 22)}\nn = {p.came}" for p in passages])
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    used = [(name, label, name, hatch) for name, label, hatch in FATES if any(s[name] for s in parts)]
    _legend(made, used)
    return svg(made, "What became of the candidates at each rung", "funnel")


def _parts(p: Passage) -> dict[str, int]:
    return {
        "passed": p.passed,
        "failed": p.failed,
        "refused": p.refused,
        "inconclusive": p.inconclusive,
        "errors": p.errors,
        "waiting": p.waiting + p.running + p.set_aside,
    }


@contexted
def costs(rows: Sequence[tuple[str, dict[str, float]]]) -> str:
    """One bar per rung; its length is the cost. rows: (rung, {fate: core-seconds})."""
    total = sum(sum(parts.values()) for _, parts in rows)
    unit, factor = cost_unit(total)
    made, axes = figure(6.0, 1.25 + 0.56 * len(rows))
    longest = max([sum(parts.values()) for _, parts in rows] or [0.0]) / factor or 1.0
    for i, (_, parts) in enumerate(rows):
        left = 0.0
        for name, _, colour, hatch in COSTS:
            width = parts.get(name, 0.0) / factor
            if width:
                _bar(axes, i, left, width, colour, hatch)
            left += width
        share = sum(parts.values()) / total if total else 0.0
        axes.text(left + longest * 0.012, i, f"{left:.3g} · {share:.0%}", va="center", fontsize=9.5)
    _rung_axis(axes, [shorten(name, 22) for name, _ in rows])
    axes.set_xlim(0, longest * 1.24)
    axes.set_xlabel(f"{unit} booked")
    axes.grid(axis="x")
    used = [cost for cost in COSTS if any(parts.get(cost[0]) for _, parts in rows)]
    _legend(made, used, columns=3)
    return svg(made, f"Where the cost went, in {unit}, by rung and by what came of it", "costs")


def _bar(axes: Any, y: float, left: float, width: float, colour: str, hatch: str) -> None:
    axes.barh(
        y,
        width,
        left=left,
        height=0.62,
        color=COLOURS[colour],
        edgecolor=COLOURS["surface"],
        hatch=hatch,
        linewidth=0.8,
    )


def _label(axes: Any, x: float, y: float, text: str) -> None:
    axes.text(
        x,
        y,
        text,
        ha="center",
        va="center",
        fontsize=10,
        color=COLOURS["ink"],
        fontweight="bold",
        bbox={"boxstyle": "round,pad=0.18", "facecolor": COLOURS["surface"], "edgecolor": "none"},
    )


def _rung_axis(axes: Any, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _legend(made: Any, used: Sequence[tuple[str, str, str, str]], columns: int = 6) -> None:
    from matplotlib.patches import Patch

    patches = [
        Patch(facecolor=COLOURS[colour], edgecolor=COLOURS["surface"], hatch=hatch, label=label)
        for _, label, colour, hatch in used
    ]
    if patches:
        made.legend(
            handles=patches,
            loc="outside upper left",
            ncols=min(len(patches), columns),
            fontsize=9.5,
            handlelength=1.4,
            handleheight=1.1,
            columnspacing=1.2,
        )


@contexted
def progress(steps: Sequence[ProgressStep], counts_hits: bool) -> str:
    """Hits, or the best utility so far, against the cost booked by then."""
    unit, factor = cost_unit(steps[-1].core_seconds)
    made, axes = figure(6.0, 3.0)
    x, y = _reached(steps, counts_hits, factor)
    axes.step(x, y, where="post", color=COLOURS["hit"], linewidth=2.2)
    if len(x) < 80:
        marked = [i for i in range(len(y)) if i and y[i] != y[i - 1]] or ([0] if x and not counts_hits else [])
        axes.plot(
            [x[i] for i in marked],
            [y[i] for i in marked],
            "^",
            color=COLOURS["hit"],
            markersize=7,
            markeredgecolor=COLOURS["surface"],
        )
    axes.set_xlim(0, steps[-1].core_seconds / factor * 1.02 or 1.0)
    axes.set_xlabel(f"{unit} booked, all rungs")
    axes.set_ylabel("hits" if counts_hits else "best utility so far")
    if counts_hits:
        _whole(axes.yaxis)
    axes.set_ylim(0, max([*y, 1 if counts_hits else 0.01]) * 1.12)
    axes.grid(axis="y")
    return svg(made, f"{'Hits' if counts_hits else 'Best utility'} against {unit}", "progress")


def _reached(steps: Sequence[ProgressStep], counts_hits: bool, factor: float) -> tuple[list[float], list[float]]:
    """Booked cost in the unit of the axis, and hits or best utility; steps without a utility are left out."""
    reached = [(s.core_seconds / factor, s.hits if counts_hits else s.utility) for s in steps]
    known = [(x, float(y)) for x, y in reached if y is not None]
    return [x for x, _ in known], [y for _, y in known]


# one line each, distinguished by colour, marker and dashes
LINES = (
    ("passed", "o", "-"),
    ("failed", "s", (0, (6, 2))),
    ("refused", "D", (0, (1, 1))),
    ("inconclusive", "v", (0, (4, 1, 1, 1))),
    ("errors", "P", (0, (8, 2, 2, 2))),
    ("waiting", "X", (0, (2, 2))),
)


@contexted
def by_proposer(lines: Mapping[str, Sequence[ProgressStep]], counts_hits: bool) -> str:
    """Hits, or the best utility so far, of each proposer against the cost booked for it; at most six lines."""
    unit, factor = cost_unit(max(steps[-1].core_seconds for steps in lines.values()))
    made, axes = figure(6.0, 3.3)
    top = 1.0 if counts_hits else 0.01
    for (name, steps), style in zip(lines.items(), LINES, strict=False):
        if points := list(zip(*_reached(steps, counts_hits, factor), strict=True)):
            _line(axes, points, style, name, drawstyle="steps-post")
            top = max(top, max(y for _, y in points))
    axes.set_xlim(0, max(steps[-1].core_seconds for steps in lines.values()) / factor * 1.02 or 1.0)
    axes.set_ylim(0, top * 1.12)
    axes.set_xlabel(f"{unit} booked for the proposer")
    axes.set_ylabel("hits" if counts_hits else "best utility so far")
    if counts_hits:
        _whole(axes.yaxis)
    axes.grid(axis="y")
    _key(made, axes)
    return svg(made, f"{'Hits' if counts_hits else 'Best utility'} against {unit}, by proposer", "by-proposer")


@contexted
def learning(lines: Mapping[str, Sequence[tuple[float, float]]], label: str, salt: str) -> str:
    """The mean prediction score over the episodes of each proposer; 0 is best."""
    made, axes = figure(6.0, 3.0)
    for (name, points), style in zip(lines.items(), LINES, strict=False):
        _line(axes, points, style, name)
    axes.set_ylim(0, max(y for points in lines.values() for _, y in points) * 1.15 or 1.0)
    axes.set_xlabel("episode")
    _whole(axes.xaxis)
    axes.set_ylabel(label)
    axes.grid(axis="y")
    _key(made, axes)
    return svg(made, f"{label} by episode", f"learning-{salt}")


def _line(axes: Any, points: Sequence[tuple[float, float]], style: Any, name: str, drawstyle: str = "default") -> None:
    """Draw a line, with a marker at each point if there are few, else with about twenty."""
    colour, marker, dashes = style
    every = max(1, len(points) // 20)
    label = shorten(name if not name.startswith("_") else f" {name}", 34)  # matplotlib leaves out what begins with _
    axes.plot(
        [x for x, _ in points],
        [y for _, y in points],
        color=COLOURS[colour],
        linestyle=dashes,
        linewidth=2.0,
        drawstyle=drawstyle,
        marker=marker,
        markevery=every,
        markersize=6,
        markeredgecolor=COLOURS["surface"],
        label=label,
        clip_on=False,
    )


def _whole(axis: Any) -> None:
    """Ticks at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def _key(made: Any, axes: Any) -> None:
    handles, _ = axes.get_legend_handles_labels()
    made.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), 3), fontsize=9.5, handlelength=3.2)


Window = tuple[float | None, float | None] | None


@contexted
def scatter(pairs: Sequence[Pair], x_label: str, y_label: str, x_window: Window, y_window: Window, salt: str) -> str:
    """One property at two levels, a point per molecule. Triangles are hits, dashed lines are the limits."""
    made, axes = figure(4.3, 3.9)
    drawn = pairs if len(pairs) <= DRAWN else random.Random(1).sample(pairs, DRAWN)
    for hit, marker, size, colour, label in ((False, "o", 6.5, "passed", "not a hit"), (True, "^", 9, "hit", "hit")):
        some = [pair for pair in drawn if pair.hit is hit]
        if not some:
            continue
        x, y = [pair.x for pair in some], [pair.y for pair in some]
        if len(drawn) <= WITH_BARS:
            bars = [
                [u or 0.0 for u in us] for us in zip(*((p.x_uncertainty, p.y_uncertainty) for p in some), strict=True)
            ]
            axes.errorbar(x, y, xerr=bars[0], yerr=bars[1], fmt="none", ecolor=COLOURS["muted"], elinewidth=0.8)
        edge = COLOURS["surface"] if len(drawn) < 400 else "none"
        edges = {"markeredgecolor": edge, "markeredgewidth": 0.7}
        axes.plot(x, y, marker, color=COLOURS[colour], markersize=size, label=label, **edges)
    _limits(axes, x_window, y_window)
    axes.set_xlabel(shorten(x_label, 52), fontsize=9.5)
    axes.set_ylabel(shorten(y_label, 52), fontsize=9.5)
    axes.grid(True)
    if any(pair.hit for pair in drawn):
        axes.legend(fontsize=9, loc="best", handletextpad=0.2)
    return svg(made, f"{y_label} against {x_label}", salt)


def _limits(axes: Any, x_window: Window, y_window: Window) -> None:
    """Draw the limits of gate or objective as dashed lines and shade what passes both; the axes keep their ranges."""
    if not any(edge is not None for window in (x_window, y_window) for edge in window or ()):
        return
    corners = []
    for window, limits, line in ((x_window, axes.get_xlim(), axes.axvline), (y_window, axes.get_ylim(), axes.axhline)):
        edges = [limits[i] if edge is None else edge for i, edge in enumerate(window or (None, None))]
        for edge in edges:
            if limits[0] < edge < limits[1]:
                line(edge, color=COLOURS["muted"], linewidth=1.0, linestyle=(0, (4, 3)), zorder=0.5)
        corners.append((max(edges[0], limits[0]), min(edges[1], limits[1]), limits))
    (left, right, x_limits), (low, high, y_limits) = corners
    if left < right and low < high:
        axes.fill([left, right, right, left], [low, low, high, high], color=COLOURS["band"], linewidth=0, zorder=0)
    axes.set_xlim(*x_limits)
    axes.set_ylim(*y_limits)
