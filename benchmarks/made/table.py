"""Prints the tables of README.md from the JSON of `sciagent bench made`:

    sciagent bench made --json > benchmarks/made/results.json
    python -m benchmarks.made.table benchmarks/made/results.json

Figures are means over seeds with 95 % intervals (Student t); differences from random proposals are paired by seed,
since the runs of a seed have their first ten calls in common.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from sciagent_bench.made.discovery_figures import RANDOM
from sciagent_bench.replay_score import summarised

COLUMNS = {"novel": 1, "discovered": 1, "msun": 3, "audc": 3, "enhancement": 2, "acceleration": 2}
"""{figure: digits after the point}."""
HEADINGS = ("proposer", "novel", "discoveries", "mSUN", "AUDC", "EF", "AF", "no answer", "core-seconds")


def cell(values: Sequence[float] | None, digits: int, sign: str = "") -> str:
    """Returns the mean with its interval. sign: + for differences."""
    interval = summarised(values or ())
    if interval is None:
        return "–"
    mean, low, high = interval
    text = f"{mean:{sign}.{digits}f}"
    return text if low is None else f"{text} ({low:.{digits}f} to {high:.{digits}f})"


def rows(system: str, proposers: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Returns the lines of the table of a system."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|---" * len(HEADINGS) + "|"]
    for name, of_systems in proposers.items():
        [found] = [each for each in of_systems if each["system"] == system]
        cells = [cell(found[figure], digits) for figure, digits in COLUMNS.items()]
        cells += [f"{fmean(found['failures']):.1f}", f"{fmean(found['core_seconds']):.0f}"]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def differences(systems: Sequence[str], proposers: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Returns the lines that compare each proposer with random proposals, over all seeds of the systems."""
    discovered = {name: _discovered(systems, of_systems) for name, of_systems in proposers.items()}
    lines = []
    for name, own in discovered.items():
        if name != RANDOM and RANDOM in discovered:
            pairs = list(zip(own, discovered[RANDOM], strict=True))
            by_seed = ", ".join(f"{ours} to {theirs}" for ours, theirs in pairs)
            mean = cell([ours - theirs for ours, theirs in pairs], 1, "+")
            lines.append(f"- `{name}` - `{RANDOM}`: {mean} discoveries; by seed {by_seed}.")
    return lines


def _discovered(systems: Sequence[str], of_systems: Sequence[Mapping[str, Any]]) -> list[int]:
    """Returns the discoveries of each run."""
    return [count for found in of_systems if found["system"] in systems for count in found["discovered"]]


def main(file: Path) -> None:
    answer = json.loads(file.read_text(encoding="utf-8"))
    proposers = answer["proposers"]
    systems = list(dict.fromkeys(each["system"] for group in proposers.values() for each in group))
    for system in systems:
        lines = [f"**{system}**, {answer['calls']} calls, {answer['model']}:", "", *rows(system, proposers), ""]
        print("\n".join([*lines, *differences([system], proposers), ""]))  # noqa: T201
    if len(systems) > 1:
        print("\n".join(["**All systems**:", "", *differences(systems, proposers), ""]))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
