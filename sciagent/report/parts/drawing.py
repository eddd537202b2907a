"""Converts Matplotlib figures to SVG for the page: with the page's colours, real text, and ids unique on the page."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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


def figure(width: float, height: float) -> tuple[Figure, Any]:
    """Returns an empty figure and its axes. width, height: in inches of 72 points."""
    from matplotlib.figure import Figure

    chart = Figure(figsize=(width, height), layout="constrained")
    return chart, chart.subplots()


def svg(chart: Figure, title: str, salt: str) -> str:
    """Returns the figure as an `svg` element. title: for screen readers. salt: makes the ids unique on the page."""
    import matplotlib
    from markupsafe import escape

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        chart.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
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


def shorten(text: str, n: int = 60) -> str:
    return text if len(text) <= n else text[: n - 1] + "…"


def cost_unit(total: float) -> tuple[str, float]:
    if total < 300:
        return "core-seconds", 1.0
    return ("core-minutes", 60.0) if total < 3 * 3600 else ("core-hours", 3600.0)
