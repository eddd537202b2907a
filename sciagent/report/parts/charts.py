"""The charts of a report: outcomes of the candidates, cost by rung, progress against cost, rung against rung.

Matplotlib draws them; the page gets SVG with its own colours, real text, and ids unique on the page.
"""

from __future__ import annotations

import functools
import io
import random
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from sciagent.domain.text import cut
from sciagent.report.parts.agreement import Pair
from sciagent.report.parts.wording import cost_unit
from sciagent.store.views.progress import ProgressStep
from sciagent.store.views.queries import Passage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Placeholder colours for Matplotlib; the style sheet defines the real ones for the light and the dark theme.
COLOURS = {
    "ink": "#010101",
    "muted": "#020202",
    "grid": "#030303",
    "surface": "#040404",
    "passed": "#0a0001",
    "failed": "#0a0002",
    "refused": "#0a0003",
    "inconclusive": "#0a0004",
    "errors": "#0a0005",
    "waiting": "#0a0006",
    "hit": "#0a0007",
    "batch": "#0a0008",
    "band": "#0a0009",
}
_VARIABLES = {code: f"var(--c-{name})" for name, code in COLOURS.items()}
SETTINGS: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "sciagent", "font.family": "DejaVu Sans", "font.size": 10.5,
    "text.parse_math": False, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": COLOURS["muted"],
    "axes.labelcolor": COLOURS["ink"], "text.color": COLOURS["ink"], "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"], "xtick.labelcolor": COLOURS["ink"], "ytick.labelcolor": COLOURS["ink"],
    "axes.facecolor": "none", "figure.facecolor": "none", "savefig.facecolor": "none", "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.8, "hatch.linewidth": 0.8, "legend.frameon": False, "axes.axisbelow": True,
}  # fmt: skip
POINTS_PER_INCH = 72  # of every SVG file that Matplotlib writes
DRAWN = 1500  # points of a scatter
WITH_BARS = 150  # largest number of points that have error bars
# Hatches distinguish the parts in grey print and for colour-blind readers.
HATCHES = {"failed": "////", "refused": "....", "inconclusive": "xxxx", "errors": "++++", "waiting": "----"}
FATES = {
    "passed": "passed",
    "failed": "failed",
    "refused": "refused",
    "inconclusive": "inconclusive",
    "errors": "error",
    "waiting": "waiting, running or set aside",
    "batch": "fast batches, all verdicts",
}
"""{part of a bar, which is also the name of its colour: label}."""


def figure(width: float, height: float) -> tuple[Figure, Any]:
    """Returns an empty figure and its axes. width, height: in inches of 72 points."""
    from matplotlib.figure import Figure

    chart = Figure(figsize=(width, height), layout="constrained")
    return chart, chart.subplots()


def svg(chart: Figure, title: str, salt: str) -> str:
    """Returns the figure as an `svg` element. title: for screen readers. salt: makes the ids unique on the page.

    The layout is computed first and the figure is drawn once; `savefig` draws it a second time for its layout."""
    import matplotlib
    from markupsafe import escape
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    canvas: Any = FigureCanvasSVG(chart)
    buffer = io.StringIO()
    chart.dpi = POINTS_PER_INCH
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        if (layout := chart.get_layout_engine()) is not None:
            layout.execute(chart)
            chart.set_layout_engine("none")
        canvas.print_svg(buffer, metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text)
    text = re.sub(r"#[0-9a-f]{6}\b", lambda m: _VARIABLES.get(m.group(), m.group()), text)
    text = re.sub(r"font-family:[^;\"]*", "font-family: inherit", text)
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
    head = f'role="img"><title>{escape(title)}</title>'
    return re.sub(r'^<svg[^>]*(viewBox="[^"]+")[^>]*>', lambda whole: f'<svg class="chart" {whole[1]} {head}', text)


def contexted(draw: Callable[..., str]) -> Callable[..., str]:
    """Decorates a drawing function so that it uses the settings of this module, not the machine's matplotlibrc."""

    @functools.wraps(draw)
    def inner(*args: Any, **more: Any) -> str:
        import matplotlib

        with matplotlib.rc_context(SETTINGS):
            return draw(*args, **more)

    return inner


@contexted
def funnel(passages: Sequence[Passage]) -> str:
    """Draws one bar per rung, all of the same length, with the share and number of candidates by outcome.

    Returns an empty text if no candidate came."""
    if not any(passage.came for passage in passages):
        return ""
    chart, axes = figure(7.4, 0.95 + 0.58 * len(passages))
    box = {"boxstyle": "round,pad=0.18", "facecolor": COLOURS["surface"], "edgecolor": "none"}
    look = {"ha": "center", "va": "center", "fontweight": "bold", "fontsize": 10, "bbox": box}
    bars = []
    for i, passage in enumerate(passages):
        parts = {name: getattr(passage, name) for name in ("passed", "failed", "refused", "inconclusive", "errors")}
        parts["waiting"] = passage.waiting + passage.running + passage.set_aside
        bars.append({name: n / (passage.came or 1) for name, n in parts.items()})
        left = 0.0
        for n, width in zip(parts.values(), bars[-1].values(), strict=True):
            if width > 0.016 + 0.014 * len(str(n)):
                axes.text(left + width / 2, i, str(n), **look)
            left += width
        if not passage.came:
            axes.text(0.01, i, "nothing came here yet", va="center", color=COLOURS["muted"], style="italic")
    _bars(chart, axes, bars)
    _rung_axis(axes, [f"{cut(p.rung.name, 22)}\nn = {p.came}" for p in passages])
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    return svg(chart, "What became of the candidates at each rung", "funnel")


@contexted
def costs(by_rung: Mapping[str, Mapping[str, float]]) -> str:
    """Draws one bar per rung; its length is the cost. by_rung: {rung: {fate: core-seconds}}. Empty without a cost."""
    if not (total := sum(sum(parts.values()) for parts in by_rung.values())):
        return ""
    unit, factor = cost_unit(total)
    chart, axes = figure(6.0, 1.25 + 0.56 * len(by_rung))
    bars = [{name.replace("no_answer", "errors"): n / factor for name, n in b.items()} for b in by_rung.values()]
    _bars(chart, axes, bars, columns=3)
    lengths = [sum(parts.values()) for parts in bars]
    for i, cost in enumerate(lengths):
        text = f"{cost:.3g} · {cost * factor / total:.0%}"
        axes.text(cost + max(lengths) * 0.012, i, text, va="center", fontsize=9.5)
    _rung_axis(axes, [cut(name, 22) for name in by_rung])
    axes.set(xlim=(0, max(lengths) * 1.24), xlabel=f"{unit} booked")
    axes.grid(axis="x")
    return svg(chart, f"Where the cost went, in {unit}, by rung and by what came of it", "costs")


def _bars(chart: Any, axes: Any, bars: Sequence[Mapping[str, float]], columns: int = 6) -> None:
    """Draws a stacked bar for each mapping of fates to lengths, from the top down, with a legend."""
    from matplotlib.patches import Patch

    styles: dict[str, Any] = {
        name: {"facecolor": COLOURS[name], "edgecolor": COLOURS["surface"], "hatch": HATCHES.get(name, "")}
        for name in FATES
    }
    for i, parts in enumerate(bars):
        left = 0.0
        for name in (name for name in FATES if parts.get(name)):
            axes.barh(i, parts[name], left=left, height=0.62, linewidth=0.8, **styles[name])
            left += parts[name]
    patches = [Patch(label=FATES[name], **styles[name]) for name in FATES if any(parts.get(name) for parts in bars)]
    look = {"fontsize": 9.5, "handlelength": 1.4, "handleheight": 1.1, "columnspacing": 1.2}
    if patches:
        chart.legend(handles=patches, loc="outside upper left", ncols=min(len(patches), columns), **look)


def _rung_axis(axes: Any, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


# Styles of the lines: (colour, marker, dashes).
LINES = (
    ("passed", "o", "-"),
    ("failed", "s", (0, (6, 2))),
    ("refused", "D", (0, (1, 1))),
    ("inconclusive", "v", (0, (4, 1, 1, 1))),
    ("errors", "P", (0, (8, 2, 2, 2))),
    ("waiting", "X", (0, (2, 2))),
)


@contexted
def progress(lines: Mapping[str, Sequence[ProgressStep]], counts_hits: bool) -> str:
    """Draws hits, or the best utility so far, against the booked cost, for the campaign or for at most six proposers.

    lines: {proposer, or an empty text for the campaign: steps}. Returns an empty text if nothing was reached."""
    cost = max((steps[-1].core_seconds for steps in lines.values()), default=0.0)
    if not cost or not any(steps[-1].hits or steps[-1].utility is not None for steps in lines.values()):
        return ""
    by_proposer = "" not in lines
    what, label, top = ("hits", "hits", 1.0) if counts_hits else ("best utility", "best utility so far", 0.01)
    whose, by, height = (" for the proposer", ", by proposer", 3.3) if by_proposer else (", all rungs", "", 3.0)
    unit, factor = cost_unit(cost)
    chart, axes = figure(6.0, height)
    for (name, steps), style in zip(lines.items(), LINES, strict=False):
        if points := _reached(steps, counts_hits, factor):
            _line(axes, points, style if name else ("hit", "^", "-"), name, drawstyle="steps-post")
            top = max(top, *(y for _, y in points))
    axes.set(xlim=(0, cost / factor * 1.02), ylim=(0, top * 1.12), xlabel=f"{unit} booked{whose}", ylabel=label)
    if counts_hits:
        axes.yaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y")
    if by_proposer:
        _key(chart, axes)
    return svg(chart, f"{what.capitalize()} against {unit}{by}", f"progress-{by_proposer}")


def _reached(steps: Sequence[ProgressStep], counts_hits: bool, factor: float) -> list[tuple[float, float]]:
    """Returns the points (booked cost in the axis's unit, hits or best utility): the changes and both ends."""
    reached = [(step.core_seconds / factor, step.hits if counts_hits else step.utility) for step in steps]
    known = [(x, float(y)) for x, y in reached if y is not None]
    return [point for i, point in enumerate(known) if i in (0, len(known) - 1) or point[1] != known[i - 1][1]]


@contexted
def learning(lines: Mapping[str, Sequence[tuple[float, float]]], label: str, salt: str) -> str:
    """Draws the mean prediction score over the episodes of each proposer; 0 is best."""
    chart, axes = figure(6.0, 3.0)
    for (name, points), style in zip(lines.items(), LINES, strict=False):
        _line(axes, points, style, name)
    highest = max(y for _, y in chain.from_iterable(lines.values()))
    axes.set_ylim(0, highest * 1.15 or 1.0)
    axes.set_xlabel("episode")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(label)
    axes.grid(axis="y")
    _key(chart, axes)
    return svg(chart, f"{label} by episode", f"learning-{salt}")


def _line(axes: Any, points: Sequence[tuple[float, float]], style: Any, name: str, drawstyle: str = "default") -> None:
    """Draws a line with at most about twenty markers."""
    colour, marker, dashes = style
    look = {"color": COLOURS[colour], "linestyle": dashes, "linewidth": 2.0, "drawstyle": drawstyle, "clip_on": False}
    look |= {"marker": marker, "markersize": 6, "markeredgecolor": COLOURS["surface"]}
    label = cut(name if not name.startswith("_") else f" {name}", 34)  # matplotlib hides labels that begin with _
    axes.plot(*zip(*points, strict=True), label=label, markevery=max(1, len(points) // 20), **look)


def _key(chart: Any, axes: Any) -> None:
    handles, _ = axes.get_legend_handles_labels()
    chart.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), 3), fontsize=9.5, handlelength=3.2)


Window = tuple[float | None, float | None] | None


@contexted
def scatter(
    pairs: Sequence[Pair], x_label: str, y_label: str, x_window: Window, y_window: Window, salt: str, shared: bool
) -> str:
    """Draws a property at two levels, a point per candidate. Triangles are hits, dashed lines are limits.

    shared: whether the levels share a scale; a dotted line then marks equal values.
    """
    chart, axes = figure(4.3, 3.9)
    drawn = pairs if len(pairs) <= DRAWN else random.Random(1).sample(pairs, DRAWN)
    edges = {"markeredgecolor": COLOURS["surface"] if len(drawn) < 400 else "none", "markeredgewidth": 0.7}
    for hit, marker, size, colour, label in ((False, "o", 6.5, "passed", "not a hit"), (True, "^", 9, "hit", "hit")):
        if not (group := [pair for pair in drawn if pair.hit is hit]):
            continue
        x, x_errors, y, y_errors, _ = zip(*group, strict=True)
        if len(drawn) <= WITH_BARS:
            bars = {"xerr": [error or 0.0 for error in x_errors], "yerr": [error or 0.0 for error in y_errors]}
            axes.errorbar(x, y, **bars, fmt="none", ecolor=COLOURS["muted"], elinewidth=0.8)
        axes.plot(x, y, marker, color=COLOURS[colour], markersize=size, label=label, **edges)
    if shared:
        _draw_equal_values(axes)
    draw_limits(axes, x_window, y_window)
    axes.set_xlabel(cut(x_label, 52), fontsize=9.5)
    axes.set_ylabel(cut(y_label, 52), fontsize=9.5)
    axes.grid(True)
    if any(pair.hit for pair in drawn):
        axes.legend(fontsize=9, loc="best", handletextpad=0.2)
    return svg(chart, f"{y_label} against {x_label}", salt)


def _draw_equal_values(axes: Any) -> None:
    """Draws a dotted line through equal values of both axes, which keep their ranges."""
    (left, right) = axes.get_xlim()
    (low, high) = axes.get_ylim()
    ends = [max(left, low), min(right, high)]
    axes.plot(ends, ends, ":", color=COLOURS["muted"], linewidth=1.2, zorder=0.6, scalex=False, scaley=False)


def draw_limits(axes: Any, x_window: Window, y_window: Window) -> None:
    """Draws the limits as dashed lines, over bars and under points, and shades the area inside both windows; the axes
    keep their ranges."""
    if all(limit is None for limit in (*(x_window or ()), *(y_window or ()))):
        return
    corners = []
    for window, limits, line in ((x_window, axes.get_xlim(), axes.axvline), (y_window, axes.get_ylim(), axes.axhline)):
        edges = [limits[i] if edge is None else edge for i, edge in enumerate(window or (None, None))]
        for edge in edges:
            if limits[0] < edge < limits[1]:
                line(edge, color=COLOURS["ink"], linewidth=1.2, linestyle=(0, (4, 3)), zorder=1.5)
        corners.append((max(edges[0], limits[0]), min(edges[1], limits[1]), limits))
    (left, right, x_limits), (low, high, y_limits) = corners
    if left < right and low < high:
        axes.fill([left, right, right, left], [low, low, high, high], color=COLOURS["band"], linewidth=0, zorder=0)
    axes.set(xlim=x_limits, ylim=y_limits)
