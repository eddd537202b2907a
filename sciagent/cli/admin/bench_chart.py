"""Recall against cost, as `sciagent bench scheduling --plot` draws it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from sciagent.report.parts.drawing import COLOURS, SETTINGS, figure

SERIES = ("passed", "failed", "hit", "refused", "inconclusive", "batch", "errors", "waiting")
LINES = ("-", "--", "-.", ":")


def draw(schedulers: Mapping[str, Any], path: Path) -> None:
    """Draw recall at a budget (filled) and the cost of a recall (hollow). schedulers: {name: recall and cost_to}."""
    import matplotlib
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    light = _light()
    settings = {key: light.get(value, value) if isinstance(value, str) else value for key, value in SETTINGS.items()}
    settings |= {"figure.facecolor": light[COLOURS["surface"]], "savefig.facecolor": light[COLOURS["surface"]]}
    with matplotlib.rc_context(settings):
        made, axes = figure(6.4, 4.2)
        for place, (name, outcome) in enumerate(schedulers.items()):
            colour = light[COLOURS[SERIES[place % len(SERIES)]]]
            recall = [(float(at), *value) for at, value in outcome["recall"].items() if value is not None]
            cost = [(value[0], float(at), *value[1:]) for at, value in outcome["cost_to"].items() if value is not None]
            if recall:
                x, y, *_ = zip(*recall, strict=True)
                line = LINES[place // len(SERIES) % len(LINES)]
                axes.errorbar(x, y, _bars(recall, 1), color=colour, fmt=f"o{line}", capsize=3, markersize=5, label=name)
            if cost:
                x, y, *_ = zip(*cost, strict=True)
                label = None if recall else name
                axes.errorbar(
                    x,
                    y,
                    None,
                    _bars(cost, 0),
                    color=colour,
                    fmt="D",
                    capsize=3,
                    markersize=5,
                    label=label,
                    markerfacecolor=light[COLOURS["surface"]],
                )
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(10, (1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(0, 1.03)
        axes.set_xlabel("cost, % of the terminal rung for all  (filled: budget; hollow: cost of a recall)")
        axes.set_ylabel("recall of the hits")
        axes.grid(True)
        made.legend(loc="outside upper left", ncols=4, fontsize=9.5)
        made.savefig(path, dpi=150)


def _bars(points: Any, of: int) -> list[list[float]]:
    """Lengths below and above; of: which coordinate of the points the interval, their last two, is for."""
    return [[0.0 if point[2] is None else abs(point[of] - point[side]) for point in points] for side in (2, 3)]


def _light() -> dict[str, str]:
    """What the report's style sheet shows for each colour that its charts are drawn in, on white."""
    sheet = (resources.files("sciagent.report") / "static" / "report.css").read_text(encoding="utf-8")
    shown: dict[str, str] = {}
    for name, code in re.findall(r"--c-(\w+): (#[0-9a-f]{6})", sheet):
        shown.setdefault(COLOURS.get(name, name), code)
    return shown
