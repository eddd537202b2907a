"""Draws the picture of small campaigns in docs/scheduling.md: python docs/pictures/small_campaigns.py

The data are in benchmarks/scheduling/small_tables.json. For each table the picture shows the cost of 90 % of the hits,
before and after the law was taught to waste less. The unit is the cost with thresholds chosen in hindsight.
"""

from __future__ import annotations

import json
from pathlib import Path

from matplotlib import rc_context
from matplotlib.ticker import NullFormatter
from scheduling import ROOT, C, panels, settings

DATA = ROOT / "benchmarks" / "scheduling" / "small_tables.json"
N_CANDIDATES = "150"  # size of the campaigns, as the data spell it


def draw(path: Path) -> None:
    """Draws the picture into a file."""
    tables = json.loads(DATA.read_text(encoding="utf-8"))["tables"]
    with rc_context(settings()):
        chart, ax = panels(8.6, 4.4, 1)
        for place, costs_by_size in enumerate(tables.values()):
            costs = costs_by_size[N_CANDIDATES]
            before = costs["before"] / costs["hindsight"]
            after = costs["after"] / costs["hindsight"]
            ax.plot([before, after], [place, place], color=C["muted"], linewidth=1.2, zorder=1)
            ax.plot(before, place, "o", color=C["muted"], markerfacecolor=C["surface"], markersize=7)
            ax.plot(after, place, "o", color=C["hit"], markersize=7)
        ax.axvline(1, color=C["failed"], linewidth=1)
        ax.set_xscale("log")
        ax.set_xticks([0.5, 0.7, 1, 1.5, 2], ["0.5", "0.7", "1", "1.5", "2"])
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.grid(True, axis="x")
        ax.set_yticks(range(len(tables)), [name.replace("_", " ") for name in tables])
        ax.invert_yaxis()
        ax.set_xlabel(
            f"cost of 90 % of the hits of {N_CANDIDATES} candidates: "
            "a multiple of that of thresholds chosen in hindsight"
        )
        ax.plot([], [], "o", color=C["muted"], markerfacecolor=C["surface"], label="before")
        ax.plot([], [], "o", color=C["hit"], label="now")
        chart.legend(loc="outside upper center", ncols=2)
        chart.savefig(path, dpi=130)


if __name__ == "__main__":
    draw(ROOT / "docs" / "scheduling_small.png")
