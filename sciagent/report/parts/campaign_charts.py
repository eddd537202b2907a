"""The charts of a report: outcomes of the candidates (`funnel`), cost by rung (`costs`), the figures of a campaign
(`drawn_figure`), the score of predictions (`learning`), and rung against rung (`scatter`).

Matplotlib draws them with `figure`, `svg` and `with_chart_settings`, which the other charts of reports use, too. The
page gets SVG with the colours of its style sheet, real text, and ids that are unique on the page.
"""

from __future__ import annotations

import functools
import io
import random
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, cycle
from typing import TYPE_CHECKING, Any

from sciagent.domain.answers.figures import Figure, FigureAxis
from sciagent.domain.safe_text_and_durations import cut
from sciagent.report.parts.rung_and_judge_agreement import Pair
from sciagent.report.parts.wording import resource_unit, resource_words, time_unit
from sciagent.store.views.report_queries import Passage

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

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
_CSS_VARIABLES = {code: f"var(--c-{name})" for name, code in COLOURS.items()}
SETTINGS: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "sciagent", "font.family": "DejaVu Sans", "font.size": 10.5,
    "text.parse_math": False, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": COLOURS["muted"],
    "axes.labelcolor": COLOURS["ink"], "text.color": COLOURS["ink"], "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"], "xtick.labelcolor": COLOURS["ink"], "ytick.labelcolor": COLOURS["ink"],
    "axes.facecolor": "none", "figure.facecolor": "none", "savefig.facecolor": "none", "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.8, "hatch.linewidth": 0.8, "legend.frameon": False, "axes.axisbelow": True,
}  # fmt: skip
POINTS_PER_INCH = 72  # of every SVG file that Matplotlib writes
MAX_POINTS = 1500  # points of a scatter
MAX_WITH_ERROR_BARS = 150  # points of a scatter that has error bars
MAX_WITH_EDGES = 400  # points of a scatter whose markers have an edge
# Hatches distinguish the parts in grey print and for colour-blind readers.
HATCHES = {"failed": "////", "refused": "....", "inconclusive": "xxxx", "errors": "++++", "waiting": "----"}
FATE_LABELS = {
    "passed": "passed",
    "failed": "failed",
    "refused": "refused",
    "inconclusive": "inconclusive",
    "errors": "error",
    "waiting": "waiting, running or set aside",
    "batch": "fast batches, all verdicts",
    "muted": "proposing",
}
"""{part of a bar, which is also the name of its colour: label}."""
PARTS_OF_FATES = {"no_answer": "errors", "proposing": "muted", "running": "waiting"}
"""{fate of a cost: part of a bar} where the names differ."""


def figure(width: float, height: float) -> tuple[Drawing, Any]:
    """Returns an empty figure and its axes. width, height: in inches of 72 points."""
    from matplotlib.figure import Figure as Drawing

    chart = Drawing(figsize=(width, height), layout="constrained")
    return chart, chart.subplots()


def svg(chart: Drawing, title: str, salt: str) -> str:
    """Returns the figure as an `svg` element. title: for screen readers. salt: makes the ids unique on the page.

    The layout is computed first and the figure is drawn once; `savefig` draws it a second time for its layout."""
    import matplotlib
    from markupsafe import escape
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    canvas: Any = FigureCanvasSVG(chart)
    buffer = io.StringIO()
    chart.dpi = POINTS_PER_INCH
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        layout = chart.get_layout_engine()
        if layout is not None:
            layout.execute(chart)
            chart.set_layout_engine("none")
        canvas.print_svg(buffer, metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
    text = buffer.getvalue()
    # removed are parts that the page has itself or does not need: declaration, styles, comments, ids and fonts
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text)
    text = re.sub(r"#[0-9a-f]{6}\b", _css_colour, text)
    text = re.sub(r"font-family:[^;\"]*", "font-family: inherit", text)
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
    head = f'role="img"><title>{escape(title)}</title>'
    return re.sub(r'^<svg[^>]*(viewBox="[^"]+")[^>]*>', lambda whole: f'<svg class="chart" {whole[1]} {head}', text)


def _css_colour(code: re.Match[str]) -> str:
    """Returns the variable of the style sheet for a colour of COLOURS; any other colour as it is."""
    return _CSS_VARIABLES.get(code.group(), code.group())


def with_chart_settings(draw: Callable[..., str]) -> Callable[..., str]:
    """Decorates a drawing function so that it uses the settings of this module, not the machine's matplotlibrc."""

    @functools.wraps(draw)
    def inner(*args: Any, **more: Any) -> str:
        import matplotlib

        with matplotlib.rc_context(SETTINGS):
            return draw(*args, **more)

    return inner


@with_chart_settings
def funnel(passages: Sequence[Passage]) -> str:
    """Draws one bar per rung, all of the same length, with the share and number of candidates by outcome.

    Returns an empty text if no candidate came."""
    if not any(passage.came for passage in passages):
        return ""
    chart, axes = figure(7.4, 0.95 + 0.58 * len(passages))
    bars = []
    for place, passage in enumerate(passages):
        counts = {name: getattr(passage, name) for name in ("passed", "failed", "refused", "inconclusive", "errors")}
        counts["waiting"] = passage.waiting + passage.running + passage.set_aside
        whole = max(passage.came, 1)
        shares = {name: n / whole for name, n in counts.items()}
        bars.append(shares)
        _write_counts(axes, place, list(counts.values()), list(shares.values()))
        if not passage.came:
            axes.text(0.01, place, "nothing came here yet", va="center", color=COLOURS["muted"], style="italic")
    _bars(chart, axes, bars)
    _rung_axis(axes, [f"{cut(passage.rung.name, 22)}\nn = {passage.came}" for passage in passages])
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    return svg(chart, "What became of the candidates at each rung", salt="funnel")


def _write_counts(axes: Any, place: int, counts: Sequence[int], widths: Sequence[float]) -> None:
    """Writes the numbers of candidates onto the parts of a bar that are wide enough. widths: shares of the bar."""
    box = {"boxstyle": "round,pad=0.18", "facecolor": COLOURS["surface"], "edgecolor": "none"}
    look = {"ha": "center", "va": "center", "fontweight": "bold", "fontsize": 10, "bbox": box}
    left = 0.0
    for n, width in zip(counts, widths, strict=True):
        text = str(n)
        # estimated for bold digits of the font size above, with the margins of the box
        width_of_text = 0.016 + 0.014 * len(text)
        if width > width_of_text:
            axes.text(left + width / 2, place, text, **look)
        left += width


@with_chart_settings
def costs(resource: str, by_rung: Mapping[str, Mapping[str, float]]) -> str:
    """Draws one bar per rung; its length is the amount of a resource. by_rung: {rung: {fate: amount}}.

    Returns an empty text without a cost."""
    total = sum(sum(costs_by_fate.values()) for costs_by_fate in by_rung.values())
    if not total:
        return ""
    unit, factor = resource_unit(resource, total)
    chart, axes = figure(6.0, 1.25 + 0.56 * len(by_rung))
    bars = []
    for costs_by_fate in by_rung.values():
        bars.append({PARTS_OF_FATES.get(fate, fate): cost / factor for fate, cost in costs_by_fate.items()})
    _bars(chart, axes, bars, columns=3)
    lengths = [sum(parts.values()) for parts in bars]
    for place, length in enumerate(lengths):
        text = f"{length:.3g} · {length * factor / total:.0%}"
        axes.text(length + max(lengths) * 0.012, place, text, va="center", fontsize=9.5)
    _rung_axis(axes, [cut(name, 22) for name in by_rung])
    axes.set(xlim=(0, max(lengths) * 1.24), xlabel=f"{unit} booked")
    axes.grid(axis="x")
    return svg(chart, f"Where the cost went, in {unit}, by rung and by what came of it", salt=f"costs-{resource}")


def _bars(chart: Any, axes: Any, bars: Sequence[Mapping[str, float]], columns: int = 6) -> None:
    """Draws a stacked bar for each mapping of fates to lengths, from the top down, with a legend.

    columns: largest number of columns of the legend."""
    from matplotlib.patches import Patch

    styles: dict[str, Any] = {
        name: {"facecolor": COLOURS[name], "edgecolor": COLOURS["surface"], "hatch": HATCHES.get(name, "")}
        for name in FATE_LABELS
    }
    drawn_fates = set()
    for place, parts in enumerate(bars):
        left = 0.0
        for name, style in styles.items():
            length = parts.get(name)
            if length:
                axes.barh(place, length, left=left, height=0.62, linewidth=0.8, **style)
                left += length
                drawn_fates.add(name)
    patches = [Patch(label=FATE_LABELS[name], **style) for name, style in styles.items() if name in drawn_fates]
    look = {"fontsize": 9.5, "handlelength": 1.4, "handleheight": 1.1, "columnspacing": 1.2}
    if patches:
        chart.legend(handles=patches, loc="outside upper left", ncols=min(len(patches), columns), **look)


def _rung_axis(axes: Any, labels: Sequence[str]) -> None:
    """Labels the bars, the first one at the top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


CAMPAIGN_LINE = ("hit", "^", "-")
"""(colour, marker, dashes) of the line of a whole campaign."""
# Styles of other lines: (colour, marker, dashes).
LINES = (
    ("passed", "o", "-"),
    ("failed", "s", (0, (6, 2))),
    ("refused", "D", (0, (1, 1))),
    ("inconclusive", "v", (0, (4, 1, 1, 1))),
    ("errors", "P", (0, (8, 2, 2, 2))),
    ("waiting", "X", (0, (2, 2))),
)


@with_chart_settings
def drawn_figure(shown: Figure) -> str:
    """Draws a figure of a campaign: its lines as steps, or what they add up to."""
    has_legend = len(shown.series) > 1 or shown.shape == "stacked"
    chart, axes = figure(6.0, 3.3 if has_legend else 3.0)
    x_label, x_lines = _labelled(shown.x_axis, [line.x for line in shown.series])
    y_label, y_lines = _labelled(shown.y_axis, [line.y for line in shown.series])
    names = [line.name for line in shown.series]
    draw = _draw_stack if shown.shape == "stacked" else _draw_steps
    top = draw(axes, names, x_lines, y_lines)
    right = max(chain.from_iterable(x_lines), default=0.0)
    axes.set(xlim=(0, right * 1.02 or 1.0), ylim=(0, top * 1.12 or 1.0), xlabel=x_label, ylabel=y_label)
    axes.grid(axis="y")
    for axis, shown_axis in ((axes.xaxis, shown.x_axis), (axes.yaxis, shown.y_axis)):
        if shown_axis.name in WHOLE_NUMBERS:
            axis.get_major_locator().set_params(integer=True)
    title = f"{y_label[0].upper()}{y_label[1:]} against {x_label}"
    if has_legend:
        _legend_above(chart, axes)
        title = f"{title}, {'by rung' if shown.shape == 'stacked' else 'by proposer'}"
    return svg(chart, title, salt=f"{shown.name}-{len(shown.series)}")


WHOLE_NUMBERS = ("hits", "lab_slots")
"""Names of axes with whole numbers alone."""
STACK_HATCHES = ("", "////", "xxxx", "----", "++++", "\\\\\\\\")


def _labelled(axis: FigureAxis, lines: Sequence[Sequence[float]]) -> tuple[str, list[list[float]]]:
    """Returns the label of an axis and the lines' numbers, both in a unit that suits the largest number."""
    label, factor = _label_and_factor(axis, lines)
    return label, [[number / factor for number in line] for line in lines]


def _label_and_factor(axis: FigureAxis, lines: Sequence[Sequence[float]]) -> tuple[str, float]:
    """Returns the label of an axis in a unit that suits its largest number, and that unit in units of the axis."""
    largest = max(chain.from_iterable(lines), default=0.0)
    if axis.unit == "s":
        unit, factor = time_unit(largest)
        return f"{unit} {axis.words.removeprefix('time ')}", factor
    if axis.unit.endswith("-seconds"):
        unit, factor = resource_unit(axis.name, largest)
        return axis.words.replace(resource_words(axis.name), unit, 1), factor
    if axis.unit in ("1", "h"):  # the words name what is counted; hours are those of people
        return axis.words, 1.0
    return f"{axis.words} / {axis.unit}", 1.0


def _draw_steps(
    axes: Any, names: Sequence[str], x_lines: Sequence[Sequence[float]], y_lines: Sequence[Sequence[float]]
) -> float:
    """Draws lines as steps, and returns the largest height."""
    styles = (CAMPAIGN_LINE,) if len(names) == 1 else LINES
    for name, places, heights, style in zip(names, x_lines, y_lines, styles, strict=False):
        if places:
            points = list(zip(places, heights, strict=True))
            _line(axes, points, style, name, drawstyle="steps-post")
    return max(chain.from_iterable(y_lines), default=0.0)


def _draw_stack(
    axes: Any, names: Sequence[str], x_lines: Sequence[Sequence[float]], y_lines: Sequence[Sequence[float]]
) -> float:
    """Draws lines with the same places on top of each other, and returns the largest sum."""
    places = x_lines[0]
    floor = [0.0] * len(places)
    for name, heights, style, hatch in zip(names, y_lines, cycle(LINES), cycle(STACK_HATCHES), strict=False):
        top = [below + height for below, height in zip(floor, heights, strict=True)]
        look = {"facecolor": COLOURS[style[0]], "edgecolor": COLOURS["surface"], "linewidth": 0.6, "hatch": hatch}
        axes.fill_between(places, floor, top, step="post", label=cut(f" {name}", 34), **look)
        floor = top
    return max(floor, default=0.0)


@with_chart_settings
def learning(lines: Mapping[str, Sequence[tuple[float, float]]], label: str, salt: str) -> str:
    """Draws the mean prediction score over the episodes of each proposer; 0 is best.

    lines: {proposer: points (episode, score)}. label: of the y axis. salt: as in `svg`."""
    chart, axes = figure(6.0, 3.0)
    for (name, points), style in zip(lines.items(), LINES, strict=False):
        _line(axes, points, style, name)
    highest = max(y for _, y in chain.from_iterable(lines.values()))
    top = highest * 1.15 if highest else 1.0
    axes.set_ylim(0, top)
    axes.set_xlabel("episode")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(label)
    axes.grid(axis="y")
    _legend_above(chart, axes)
    return svg(chart, f"{label} by episode", salt=f"learning-{salt}")


def _line(axes: Any, points: Sequence[tuple[float, float]], style: Any, name: str, drawstyle: str = "default") -> None:
    """Draws a line with at most about twenty markers."""
    colour, marker, dashes = style
    look = {"color": COLOURS[colour], "linestyle": dashes, "linewidth": 2.0, "drawstyle": drawstyle, "clip_on": False}
    look |= {"marker": marker, "markersize": 6, "markeredgecolor": COLOURS["surface"]}
    visible_name = f" {name}" if name.startswith("_") else name  # matplotlib hides labels that begin with _
    x = [point[0] for point in points]
    y = [point[1] for point in points]
    points_per_marker = max(1, len(points) // 20)
    axes.plot(x, y, label=cut(visible_name, 34), markevery=points_per_marker, **look)


def _legend_above(chart: Any, axes: Any) -> None:
    handles, _ = axes.get_legend_handles_labels()
    chart.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), 3), fontsize=9.5, handlelength=3.2)


Window = tuple[float | None, float | None] | None
"""(low, high) in the unit of an axis; None for an edge or a window that is not given."""


@with_chart_settings
def scatter(
    pairs: Sequence[Pair], x_label: str, y_label: str, x_window: Window, y_window: Window, salt: str, shared: bool
) -> str:
    """Draws a property at two levels, a point per candidate. Triangles are hits, dashed lines are limits.

    shared: whether the levels share a scale; a dotted line then marks equal values. salt: as in `svg`.
    """
    chart, axes = figure(4.3, 3.9)
    # a fixed seed, so that the same report has the same points
    drawn = pairs if len(pairs) <= MAX_POINTS else random.Random(1).sample(pairs, MAX_POINTS)
    edge_colour = COLOURS["surface"] if len(drawn) < MAX_WITH_EDGES else "none"
    look = {"markeredgecolor": edge_colour, "markeredgewidth": 0.7}
    # (whether hits, marker, its size, colour, label)
    groups = ((False, "o", 6.5, "passed", "not a hit"), (True, "^", 9, "hit", "hit"))
    for is_hit, marker, size, colour, label in groups:
        group = [pair for pair in drawn if pair.hit is is_hit]
        if not group:
            continue
        x = [pair.x for pair in group]
        y = [pair.y for pair in group]
        if len(drawn) <= MAX_WITH_ERROR_BARS:
            _draw_error_bars(axes, group)
        axes.plot(x, y, marker, color=COLOURS[colour], markersize=size, label=label, **look)
    if shared:
        _draw_equal_values(axes)
    draw_limits(axes, x_window, y_window)
    axes.set_xlabel(cut(x_label, 52), fontsize=9.5)
    axes.set_ylabel(cut(y_label, 52), fontsize=9.5)
    axes.grid(True)
    if any(pair.hit for pair in drawn):
        axes.legend(fontsize=9, loc="best", handletextpad=0.2)
    return svg(chart, f"{y_label} against {x_label}", salt=salt)


def _draw_error_bars(axes: Any, pairs: Sequence[Pair]) -> None:
    """Draws the standard uncertainties of both values; an unknown one has no bar."""
    x = [pair.x for pair in pairs]
    y = [pair.y for pair in pairs]
    x_errors = [pair.x_uncertainty or 0.0 for pair in pairs]
    y_errors = [pair.y_uncertainty or 0.0 for pair in pairs]
    axes.errorbar(x, y, xerr=x_errors, yerr=y_errors, fmt="none", ecolor=COLOURS["muted"], elinewidth=0.8)


def _draw_equal_values(axes: Any) -> None:
    """Draws a dotted line through equal values of both axes, which keep their ranges."""
    x_low, x_high = axes.get_xlim()
    y_low, y_high = axes.get_ylim()
    ends = [max(x_low, y_low), min(x_high, y_high)]
    axes.plot(ends, ends, ":", color=COLOURS["muted"], linewidth=1.2, zorder=0.6, scalex=False, scaley=False)


def draw_limits(axes: Any, x_window: Window, y_window: Window) -> None:
    """Draws the limits as dashed lines, over bars and under points, and shades the area inside both windows; the axes
    keep their ranges."""
    limits = [*(x_window or ()), *(y_window or ())]
    if all(limit is None for limit in limits):
        return
    x_range = axes.get_xlim()
    y_range = axes.get_ylim()
    left, right = _draw_edges(axes.axvline, x_window, x_range)
    low, high = _draw_edges(axes.axhline, y_window, y_range)
    if left < right and low < high:
        axes.fill([left, right, right, left], [low, low, high, high], color=COLOURS["band"], linewidth=0, zorder=0)
    axes.set(xlim=x_range, ylim=y_range)


def _draw_edges(draw_line: Callable[..., Any], window: Window, shown_range: tuple[float, float]) -> tuple[float, float]:
    """Draws the edges of a window that lie inside the range of an axis. Returns the part of the range inside the
    window; its low end is above its high end if there is none."""
    range_low, range_high = shown_range
    window_low, window_high = window or (None, None)
    low = range_low if window_low is None else window_low
    high = range_high if window_high is None else window_high
    for edge in (low, high):
        if range_low < edge < range_high:
            draw_line(edge, color=COLOURS["ink"], linewidth=1.2, linestyle=(0, (4, 3)), zorder=1.5)
    return max(low, range_low), min(high, range_high)
