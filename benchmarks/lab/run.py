"""Hits where people answer weeks later: `python -m benchmarks.lab.run -o benchmarks/lab/results.json`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import numpy as np

from sciagent.scheduling.law.rung_hints import Hint
from sciagent_bench.case_from_csv import parse_rungs, read_case
from sciagent_bench.lab.compare_schedulers_with_people import LabTrial, run_lab, summary_of
from sciagent_bench.lab.replay_with_people import InFlight, Laboratory
from sciagent_bench.replay_cases import Case, OfTable
from sciagent_bench.replay_once import Truth
from sciagent_bench.run_trials import run_all

TABLE = Path(__file__).resolve().parents[1] / "scheduling" / "qm9_s4000_xtb.csv.gz"
RUNGS = "gap_GFN2:0.03,gap_GFN1:0.035,gap_dft_eV:600"
TOP = 0.01
NOISE = 0.1  # eV, standard deviation of a measurement
LAB = Laboratory(latency=14, per_week=8)
AT_ONCE = replace(LAB, latency=0)
GOAL = replace(LAB, count=10, weeks=16)
GOAL_AT_ONCE = replace(GOAL, latency=0)
FROZEN = InFlight(reprice=False, counts_out=False)
HINT = Hint(0, 2, slope=1.0, intercept=0.0, residual=1.5)  # the measured gap is about that of GFN2-xTB, in eV
ARMS: tuple[tuple[str, str, Laboratory, InFlight, Hint | None], ...] = (
    ("answers at once", "priced", AT_ONCE, FROZEN, None),
    ("answers at once, hint", "priced", AT_ONCE, FROZEN, HINT),
    ("frozen list", "priced", LAB, FROZEN, None),
    ("in order again", "priced", LAB, InFlight(), None),
    ("frozen list, hint", "priced", LAB, FROZEN, HINT),
    ("in order again, hint", "priced", LAB, InFlight(), HINT),
    ("in order again, hint, spread 0.6", "priced", LAB, InFlight(alike=0.6), HINT),
    ("best_rung", "best_rung", LAB, FROZEN, None),
    ("random", "random", LAB, FROZEN, None),
    ("answers at once, in order again", "priced", AT_ONCE, InFlight(), None),
    ("answers at once, in order again, hint", "priced", AT_ONCE, InFlight(), HINT),
    ("10 hits, out does not count", "priced", GOAL, InFlight(counts_out=False), HINT),
    ("10 hits, out counts by the share", "priced", GOAL, InFlight(), HINT),
    ("10 hits at once, frozen list, out does not count", "priced", GOAL_AT_ONCE, FROZEN, HINT),
    ("10 hits at once, in order again, out counts by the share", "priced", GOAL_AT_ONCE, InFlight(), HINT),
)


@dataclass(frozen=True)
class Noisy:
    """A source of cases: measurements are the DFT gaps with noise, other noise for each seed; hits are the best."""

    case: Case
    noise: float

    def __call__(self, seed: int) -> Case:
        truth = self.case.truth
        scores = truth.scores.copy()
        scores[:, -1] += np.random.default_rng([seed, 3]).normal(0.0, self.noise, len(scores))
        value = self.case.sign * scores[:, -1]
        hit = value >= np.quantile(value, 1 - TOP)
        measured = Case.of(Truth(scores, truth.costs, hit), self.case.sign, self.case.similarity)
        return OfTable(measured)(seed)


def wanted(seeds: int, arms: str) -> Iterator[LabTrial]:
    for seed in range(seeds):
        for name, scheduler, lab, how, hint in ARMS:
            if arms in name:
                yield LabTrial(name, scheduler, seed, lab, how, hint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--goal", choices=("min", "max"), default="min", help="whether hits have small or large gaps")
    parser.add_argument("--arms", default="", help="only those whose names contain this text")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    source = Noisy(read_case(TABLE, parse_rungs(RUNGS), given.goal, TOP, "smiles"), NOISE)
    result: dict[str, Any] = {"seeds": given.seeds, "goal": given.goal, "noise_eV": NOISE}
    done = []
    for trial, run in run_all(source, list(wanted(given.seeds, given.arms)), given.workers, run_lab):
        done.append((trial, run))
        sys.stderr.write(f"{trial.seed} {trial.name}: {len(run.of)} claims, {run.hits} hits\n")
        if given.output:  # after each run, so that a run that is ended early leaves what it has
            result["runs"] = len(done)
            given.output.write_text(json.dumps(result | {"arms": summary_of(done)}, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(result | {"arms": summary_of(done)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
