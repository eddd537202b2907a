"""Prints the tables of README.md from the JSON of `sciagent bench leads`, with paired differences of the proposers:

    sciagent bench leads --leads celecoxib,zolpidem --oracles DRD2 --proposer evolve,law --json > results.json
    python -m benchmarks.leads.table results.json

The interval of a difference is that of a hierarchical bootstrap: leads with their oracle are drawn, then seeds within
each. A run without success counts with all its calls in the calls to success.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from sciagent.training.evaluation.arm_figures import draws, interval, ratios

Figures = Mapping[str, Any]
"""The figures of a proposer on a lead with an oracle, as in the JSON."""


def success(of_lead: Figures, seed: Figures) -> float:
    return float(seed["calls_to_success"] is not None)


def rise(of_lead: Figures, seed: Figures) -> float:
    return float(seed["best"] - of_lead["lead_score"])


def calls(of_lead: Figures, seed: Figures) -> float:
    return float(seed["calls"] if seed["calls_to_success"] is None else seed["calls_to_success"])


def by_seed(of_leads: Sequence[Figures], value: Callable[[Figures, Figures], float]) -> np.ndarray[Any, Any]:
    """Returns (t, s) a value by lead with its oracle, and seed."""
    return np.array([[value(of_lead, seed) for seed in of_lead["seeds"]] for of_lead in of_leads])


def difference(
    first: Sequence[Figures], second: Sequence[Figures], value: Callable[[Figures, Figures], float]
) -> tuple[float, float, float]:
    """Returns the mean of second minus first, with its interval."""
    differences = by_seed(second, value) - by_seed(first, value)
    found = interval(ratios(differences, np.ones_like(differences), draws(*differences.shape)))
    assert found is not None
    return found


def main(file: Path) -> None:
    answer = json.loads(file.read_text(encoding="utf-8"))
    proposers = answer["proposers"]
    first = next(iter(proposers.values()))
    lines = [
        "| lead | oracle | lead's score | success from | "
        + " | ".join(f"`{name}`: best | successes | calls to success" for name in proposers)
        + " |",
        "|---" * (4 + 3 * len(proposers)) + "|",
    ]
    for place, of_lead in enumerate(first):
        cells = [of_lead["lead"], of_lead["oracle"], f"{of_lead['lead_score']:.3f}", f"{of_lead['success_score']:.3f}"]
        for of_leads in proposers.values():
            each = of_leads[place]
            spread = "" if each["best_spread"] is None else f" ± {each['best_spread']:.3f}"
            needed = [str(seed["calls_to_success"] or "–") for seed in each["seeds"]]
            cells += [f"{each['best']:.3f}{spread}", f"{each['successes']} of {len(needed)}", ", ".join(needed)]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for name, of_leads in proposers.items():
        share = fmean(by_seed(of_leads, success).ravel())
        needed = fmean(by_seed(of_leads, calls).ravel())
        n_calls = {seed["calls"] for each in of_leads for seed in each["seeds"]}
        lines.append(f"`{name}`: success in {share:.2f} of the runs, after {needed:.0f} calls; calls a run: {n_calls}.")
    for (one, of_one), (other, of_other) in combinations(proposers.items(), 2):
        lines.append("")
        for title, value in (("successes a run", success), ("calls to success", calls)):
            mean, low, high = difference(of_one, of_other, value)
            lines.append(f"- `{other}` - `{one}`, {title}: {mean:+.2f} ({low:.2f} to {high:.2f})")
        for oracle in dict.fromkeys(each["oracle"] for each in first):
            pair = [[each for each in of_leads if each["oracle"] == oracle] for of_leads in (of_one, of_other)]
            mean, low, high = difference(pair[0], pair[1], rise)
            lines.append(f"- `{other}` - `{one}`, best score of {oracle}: {mean:+.3f} ({low:.3f} to {high:.3f})")
    print("\n".join(lines))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
