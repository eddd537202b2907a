"""The charts of a law that is held against what was measured.

One chart for each quantity has the measured values over the predicted ones, with the diagonal and the 90 % intervals;
one has the share of hits over the said chances, in bins, with the diagonal. `draw_check` writes both into a file, the
others return them for pages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciagent.campaign.law.predictions import LawCheck, QuantityCheck
from sciagent.report.parts.campaign_charts import COLOURS, figure, svg, with_chart_settings
from sciagent.scheduling.law.left_out_calibration import ChanceBin

PANEL_INCHES = 3.6
DOTS_PER_INCH = 160
MAX_INTERVALS = 300  # values whose intervals are drawn; of more, evenly many
NORMAL_ERROR = 1.0  # standard errors of a share of hits that its bar shows


@dataclass(frozen=True)
class ChartColours:
    """The colours of a chart."""

    inside: str
    """The colour of values within their intervals."""
    outside: str
    muted: str
    line: str


OF_FILES = ChartColours("#2a6f97", "#c1440e", "#888888", "black")
OF_PAGES = ChartColours(COLOURS["passed"], COLOURS["failed"], COLOURS["muted"], COLOURS["ink"])


def draw_check(found: LawCheck, path: Path) -> None:
    """Draws a check of a law into a file. path: `.png` or `.svg`."""
    from matplotlib.figure import Figure

    n_panels = len(found.quantities) + bool(found.chances)
    chart = Figure(figsize=(PANEL_INCHES * n_panels, PANEL_INCHES), layout="constrained")
    panels = chart.subplots(1, n_panels, squeeze=False)[0]
    for axes, quantity in zip(panels, found.quantities, strict=False):
        _draw_values(axes, quantity, OF_FILES)
    if found.chances:
        _draw_chances(panels[-1], found.chances, OF_FILES)
    chart.savefig(path, dpi=DOTS_PER_INCH)


@with_chart_settings
def drawn_values(quantity: QuantityCheck, salt: str) -> str:
    """Returns measured over predicted values as an `svg` element. salt: makes the ids unique on the page."""
    chart, axes = figure(4.3, 3.9)
    _draw_values(axes, quantity, OF_PAGES)
    return svg(chart, f"{quantity.name} measured against predicted", salt=salt)


@with_chart_settings
def drawn_chances(bins: Sequence[ChanceBin], salt: str) -> str:
    """Returns the share of hits over said chances as an `svg` element. salt: as in `drawn_values`."""
    chart, axes = figure(4.3, 3.9)
    _draw_chances(axes, bins, OF_PAGES)
    return svg(chart, "share of hits against the said chance", salt=salt)


def _draw_values(axes: Any, quantity: QuantityCheck, colours: ChartColours) -> None:
    """Draws measured over predicted values; what lies outside its interval has another colour and marker."""
    every = quantity.values
    for each in every[:: max(math.ceil(len(every) / MAX_INTERVALS), 1)]:
        axes.plot([each.low, each.high], [each.measured, each.measured], color=colours.muted, alpha=0.25, linewidth=0.7)
    for label, colour, marker, is_inside in (
        ("inside", colours.inside, "o", True),
        ("outside", colours.outside, "D", False),
    ):
        some = [each for each in every if (each.low <= each.measured <= each.high) is is_inside]
        predicted = [each.value for each in some]
        measured = [each.measured for each in some]
        text = f"{len(some)} {label} the 90 % interval"
        axes.scatter(predicted, measured, s=9, color=colour, marker=marker, alpha=0.7, linewidth=0, label=text)
    ends = [each.measured for each in every] + [each.value for each in every]
    axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color=colours.line, linewidth=0.8)
    unit = "" if quantity.unit == "1" else f" [{quantity.unit}]"
    axes.set_xlabel(f"{quantity.name} predicted{unit}")
    axes.set_ylabel(f"measured{unit}")
    axes.legend(frameon=False, fontsize=7, loc="lower left", bbox_to_anchor=(0, 1))


def _draw_chances(axes: Any, bins: Sequence[ChanceBin], colours: ChartColours) -> None:
    """Draws the share of hits over the mean said chance of each bin, with one standard error."""
    for each in bins:
        error = NORMAL_ERROR * math.sqrt(max(each.real * (1 - each.real), 1 / each.n) / each.n)
        axes.errorbar(
            [each.said], [each.real], yerr=[error], fmt="o", markersize=4, color=colours.inside, linewidth=0.8
        )
    axes.plot([0, 1], [0, 1], color=colours.line, linewidth=0.8)
    axes.set_xlabel("said chance to be a hit")
    axes.set_ylabel("share of hits")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
