"""Measures how much of a small campaign's cost is learning: the law is told of other candidates of the table.

    python -m benchmarks.scheduling.foreknown --seeds 10 --workers 2

Draws of 150 as in `small_tables.json`, each run three times: `cold`, as a campaign that knows nothing; `told`, with all
answers of up to 600 of the other candidates, which a first campaign would have had to pay; `hindsight`, the thresholds
that are best for the draw itself. Costs are geometric means over the draws, and their ratios over the tables.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scheduling.second import MARKS, Campaign, marks
from sciagent_bench.draw_candidates_and_alter_rungs import drawn
from sciagent_bench.replay_cases import OfTable
from sciagent_bench.rivals.hindsight_thresholds import hindsight
from sciagent_bench.run_trials import run_all
from sciagent_bench.several_tables import TableSpec, read_collection

HERE = Path(__file__).parent
RESULT = HERE / "foreknown.json"
DRAWN = 150  # candidates of a campaign
OTHERS = 600  # most others that the law is told of
FEWEST_HITS = 0.05  # smallest share of hits, so that a draw has seven
AT = MARKS.index(0.9)
ARMS = ("cold", "told", "hindsight")


def costs(specs: Mapping[str, TableSpec], trial: tuple[str, int]) -> dict[str, float | None]:
    """Returns the cost of 90 % of the hits, as a fraction of the exhaustive cost, by arm."""
    table, seed = trial
    case = OfTable(specs[table].case(HERE))(seed)
    top = max(specs[table].top, FEWEST_HITS)
    draw = drawn(case, DRAWN, top, np.random.default_rng([seed, 2]))
    of, others = np.split(np.random.default_rng([seed, 2]).permutation(len(case.truth.hit)), [DRAWN])
    limits = (draw.threshold, np.inf) if case.sign > 0 else (-np.inf, draw.threshold)
    campaign = Campaign(case, of, *limits)
    known = Campaign(case, others[:OTHERS], *limits)
    cold = campaign.run(seed)[0]
    told = campaign.run(seed, told=known.whole)[0]
    found = [marks(run, campaign.truth)["cost"][AT] for run in (cold, told)]
    return dict(zip(ARMS, [*found, hindsight(draw, MARKS)[AT]], strict=True))


def main() -> None:
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    specs = read_collection(HERE / "tables.yaml")
    runs: dict[str, list[dict[str, float | None]]] = {table: [] for table in specs}
    trials = [(table, seed) for table in specs for seed in range(options.seeds)]
    for (table, _), found in run_all(specs, trials, options.workers, costs):  # type: ignore[arg-type]
        runs[table].append(found)
        if len(runs[table]) == options.seeds:
            print(table, mean(runs[table]), flush=True)  # noqa: T201
    tables = {table: mean(found) for table, found in runs.items()}
    logs = [[np.log(of["told"] / of[arm]) for of in tables.values()] for arm in ("cold", "hindsight")]
    result = {
        "command": f"python -m benchmarks.scheduling.foreknown --seeds {options.seeds}",
        "tables": tables,
        "told to cold": round(float(np.exp(np.mean(logs[0]))), 3),
        "told to hindsight": round(float(np.exp(np.mean(logs[1]))), 3),
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


def mean(found: list[dict[str, Any]]) -> dict[str, float]:
    """Returns geometric means by arm: in a few draws the last hit is found among the last candidates."""
    return {arm: round(float(np.exp(np.mean(np.log([of[arm] for of in found])))), 4) for arm in ARMS}


if __name__ == "__main__":
    main()
