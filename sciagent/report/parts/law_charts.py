"""The chart of a law that is held against campaigns to which it was not fitted.

One panel for each quantity has the measured values over the predicted ones, with the diagonal and the 90 % intervals;
the last one has the share of hits over the said chances, in bins, with the diagonal.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from sciagent.campaign.law.predictions import LawCheck, QuantityCheck

PANEL_INCHES = 3.6
DOTS_PER_INCH = 160
MAX_INTERVALS = 300  # values whose intervals are drawn; of more, evenly many
INSIDE_COLOUR = "#2a6f97"
OUTSIDE_COLOUR = "#c1440e"
MUTED = "#888888"
NORMAL_ERROR = 1.0  # standard errors of a share of hits that its bar shows


def draw_check(found: LawCheck, path: Path) -> None:
    """Draws a check of a law into a file. path: `.png` or `.svg`."""
    from matplotlib.figure import Figure

    n_panels = len(found.quantities) + bool(found.chances)
    chart = Figure(figsize=(PANEL_INCHES * n_panels, PANEL_INCHES), layout="constrained")
    panels = chart.subplots(1, n_panels, squeeze=False)[0]
    for axes, quantity in zip(panels, found.quantities, strict=False):
        _draw_values(axes, quantity)
    if found.chances:
        _draw_chances(panels[-1], found)
    chart.savefig(path, dpi=DOTS_PER_INCH)


def _draw_values(axes: Any, quantity: QuantityCheck) -> None:
    """Draws measured over predicted values; what lies outside its interval has another colour."""
    every = quantity.values
    for each in every[:: max(math.ceil(len(every) / MAX_INTERVALS), 1)]:
        axes.plot([each.low, each.high], [each.measured, each.measured], color=MUTED, alpha=0.25, linewidth=0.7)
    for label, colour, is_inside in (("inside", INSIDE_COLOUR, True), ("outside", OUTSIDE_COLOUR, False)):
        some = [each for each in every if (each.low <= each.measured <= each.high) is is_inside]
        predicted = [each.value for each in some]
        measured = [each.measured for each in some]
        text = f"{len(some)} {label} the 90 % interval"
        axes.scatter(predicted, measured, s=9, color=colour, alpha=0.7, linewidth=0, label=text)
    ends = [each.measured for each in every] + [each.value for each in every]
    axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color="black", linewidth=0.8)
    unit = "" if quantity.unit == "1" else f" [{quantity.unit}]"
    axes.set_xlabel(f"{quantity.name} predicted{unit}")
    axes.set_ylabel(f"measured{unit}")
    axes.legend(frameon=False, fontsize=7, loc="lower left", bbox_to_anchor=(0, 1))


def _draw_chances(axes: Any, found: LawCheck) -> None:
    """Draws the share of hits over the mean said chance of each bin, with one standard error."""
    for each in found.chances:
        error = NORMAL_ERROR * math.sqrt(max(each.real * (1 - each.real), 1 / each.n) / each.n)
        axes.errorbar([each.said], [each.real], yerr=[error], fmt="o", markersize=4, color=INSIDE_COLOUR, linewidth=0.8)
    axes.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    axes.set_xlabel("said chance to be a hit")
    axes.set_ylabel("share of hits")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
