"""Prints the table of README.md from the JSON of `sciagent bench pmo`, with paired differences of the area:

    sciagent bench pmo --proposer evolve,law,random --json > benchmarks/pmo/results.json
    python -m benchmarks.pmo.table benchmarks/pmo/results.json

The interval of a difference is that of a hierarchical bootstrap: tasks are drawn, then seeds within each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from sciagent.training.evaluation.arm_figures import draws, interval, ratios


def areas(tasks: Sequence[Mapping[str, Any]], names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Returns (t, s) areas by task and seed; nan where there is no run. names: of the tasks."""
    found = {task["task"]: task["aucs"] for task in tasks}
    n_seeds = max(map(len, found.values()))
    return np.array([[*found.get(name, []), *[np.nan] * n_seeds][:n_seeds] for name in names])


def main(file: Path) -> None:
    answer = json.loads(file.read_text(encoding="utf-8"))
    proposers = answer["proposers"]
    names = [task["task"] for task in next(iter(proposers.values()))["tasks"]]
    tables = {proposer: areas(found["tasks"], names) for proposer, found in proposers.items()}
    best = {proposer: {task["task"]: task["best"] for task in found["tasks"]} for proposer, found in proposers.items()}
    lines = [
        "| task | " + " | ".join(f"`{proposer}`" for proposer in proposers) + " |",
        "|---" * (len(tables) + 1) + "|",
    ]
    for place, name in enumerate(names):
        cells = []
        for proposer, table in tables.items():
            row = table[place]
            known = row[~np.isnan(row)]
            spread = f" ± {known.std(ddof=1):.3f}" if len(known) > 1 else ""
            cells.append(f"{known.mean():.3f}{spread} ({best[proposer][name]:.3f})" if len(known) else "–")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    means = {proposer: np.nanmean(table, axis=1) for proposer, table in tables.items()}
    totals = [f"{mean.sum():.3f}" for mean in means.values()]
    lines.append(f"| **sum of {len(names)}** | " + " | ".join(f"**{total}**" for total in totals) + " |")
    lines.append("")
    for first, second in combinations(tables, 2):
        n_seeds = min(tables[first].shape[1], tables[second].shape[1])
        difference = tables[second][:, :n_seeds] - tables[first][:, :n_seeds]
        found = interval(ratios(difference, np.ones_like(difference), draws(*difference.shape)))
        assert found is not None
        mean, low, high = (len(names) * value for value in found)
        better = int((means[second] > means[first]).sum())
        lines.append(
            f"`{second}` - `{first}`: {mean:+.2f} in the sum ({low:.2f} to {high:.2f}), "
            f"better on {better} of {len(names)} tasks."
        )
    print("\n".join(lines))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
