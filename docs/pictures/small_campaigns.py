"""The picture of small campaigns in docs/scheduling.md: python docs/pictures/small_campaigns.py

It draws benchmarks/scheduling/small_tables.json: for each table and size, the cost of 90 % of the hits, before and
after the law was taught to waste less, as a multiple of that of thresholds chosen in hindsight.
"""

from __future__ import annotations

import json
from pathlib import Path

from matplotlib import rc_context
from matplotlib.ticker import NullFormatter
from scheduling import ROOT, C, panels, settings

DATA = ROOT / "benchmarks" / "scheduling" / "small_tables.json"
SIZES = {"150": "150 candidates", "600": "600 candidates", "all": "whole tables"}


def draw(path: Path) -> None:
    found = json.loads(DATA.read_text(encoding="utf-8"))
    tables = list(found["tables"])
    with rc_context(settings()):
        made, axes = panels(10.6, 4.6, len(SIZES), sharey=True)
        for ax, (size, title) in zip(axes, SIZES.items(), strict=True):
            for place, table in enumerate(tables):
                costs = found["tables"][table][size]
                before, after = (costs[name] / costs["hindsight"] for name in ("before", "after"))
                ax.plot([before, after], [place, place], color=C["muted"], linewidth=1.2, zorder=1)
                ax.plot(before, place, "o", color=C["muted"], markerfacecolor=C["surface"], markersize=7)
                ax.plot(after, place, "o", color=C["hit"], markersize=7)
            ax.axvline(1, color=C["failed"], linewidth=1)
            ax.set_xscale("log")
            ax.set_xticks([0.2, 0.5, 1, 2], ["0.2", "0.5", "1", "2"])
            ax.xaxis.set_minor_formatter(NullFormatter())
            ax.set_title(title, fontsize=11.5, loc="left")
            ax.grid(True, axis="x")
        axes[0].set_yticks(range(len(tables)), [table.replace("_", " ") for table in tables])
        axes[0].invert_yaxis()
        axes[1].set_xlabel("cost of 90 % of the hits, as a multiple of that of thresholds chosen in hindsight")
        axes[0].plot([], [], "o", color=C["muted"], markerfacecolor=C["surface"], label="before")
        axes[0].plot([], [], "o", color=C["hit"], label="after")
        made.legend(loc="outside upper center", ncols=2)
        made.savefig(path, dpi=130)


if __name__ == "__main__":
    draw(ROOT / "docs" / "scheduling_small.png")
