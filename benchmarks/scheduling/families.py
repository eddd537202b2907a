"""Every synthetic family, 20,000 candidates, nothing known of the law at the start: recall at 5 % of the exhaustive
cost, `priced` beside those that it has to beat; and the drifting family as a stream, at 3 and 8 %.

    python -m benchmarks.scheduling.families --seeds 10 --workers 2

Seeds draw anew, the same for all schedulers; `ahead` is the mean of `priced` less the best other one's, seed by seed,
with its 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULT = HERE / "families.json"
OTHERS = ("halving", "thresholds", "best_rung", "greedy")
SIZE = 20_000
TOP = 0.01
POOL = (0.05,)
STREAM = (0.03, 0.08)
STREAMED = 1000


def case(name: str, schedulers: Sequence[str], seeds: int, workers: int, stream: int) -> dict[str, Any]:
    """By budget, by scheduler: recall, mean and interval."""
    from sciagent_bench.replay_cases import OfFamily
    from sciagent_bench.replay_score import summarised
    from sciagent_bench.run_trials import run_all, trials

    budgets = STREAM if stream else POOL
    wanted = trials(schedulers, budgets, seeds, stream, marks=False)
    recall: dict[tuple[float, str], dict[int, float]] = {}
    for trial, values in run_all(OfFamily(name, SIZE, TOP), wanted, workers):
        assert trial.budget is not None and values[0] is not None
        recall.setdefault((trial.budget, trial.scheduler), {})[trial.seed] = values[0]
    found: dict[str, Any] = {}
    for budget in budgets:
        mean = {one: sum(recall[budget, one].values()) / seeds for one in schedulers}
        best = max(schedulers[1:], key=lambda one: mean[one])
        ours = recall[budget, "priced"]
        others = recall[budget, best]
        found[f"{budget:g}"] = {
            "recall": {one: _rounded(summarised(list(recall[budget, one].values()))) for one in schedulers},
            "best_other": best,
            "ahead": _rounded(summarised([ours[seed] - others[seed] for seed in range(seeds)])),
        }
    return found


def _rounded(interval: Any) -> list[float | None]:
    return [None if v is None else round(v, 4) for v in interval]


def main() -> None:
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", help="families, and whether they are a stream: drift:stream,flat")
    parser.add_argument("--others", default=",".join(OTHERS), help="schedulers that priced is compared with")
    options = parser.parse_args()
    schedulers = ("priced", *options.others.split(","))
    from sciagent_bench.synthetic_ladders import FAMILIES

    result = json.loads(RESULT.read_text()) if options.only and RESULT.exists() else {"cases": {}}
    result |= {
        "command": f"python -m benchmarks.scheduling.families --seeds {options.seeds} --others {options.others}",
        "candidates": SIZE,
        "top": TOP,
        "stream": STREAMED,
    }
    for name in options.only.split(",") if options.only else [*FAMILIES, "drift:stream"]:
        family, _, streamed = name.partition(":")
        found = case(family, schedulers, options.seeds, options.workers, STREAMED if streamed else 0)
        result["cases"][name] = found
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
        for budget, row in found.items():
            shown = "  ".join(f"{one} {v[0]:.3f}" for one, v in row["recall"].items())
            ahead = " ".join(f"{v:+.3f}" for v in row["ahead"] if v is not None)
            print(f"{name:18} {budget:5} {shown}  ahead of {row['best_other']}: {ahead}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
