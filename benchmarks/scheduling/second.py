"""A second campaign whose law begins with the answers of a first one, beside the same campaign that begins with none.

    python -m benchmarks.scheduling.second --seeds 4 --workers 2

600 candidates of a table are cut in two. The first campaign works on one half, the second one on the other, which has
the table's own goal. With `law: {from: NAME}` the answers of the first are there to learn from and cannot be bought.
The first campaign differs from the second one in one respect:

- other end: it looks for the opposite end of the wanted property;
- middle: it looks for a window in the middle;
- cluster: the halves are not drawn; the first one has the candidates that are most similar to some candidate;
- rung: it lacks the dearest rung below the terminal one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.aims_and_payoff import Aims
from sciagent.scheduling.array_types import Array, Mask, RowIndices
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase
from sciagent.scheduling.rules.priced import Priced
from sciagent_bench.draw_candidates_and_alter_rungs import without
from sciagent_bench.replay_cases import Case
from sciagent_bench.replay_once import Replay, Truth, simulate
from sciagent_bench.replay_score import Curve, summarised
from sciagent_bench.run_trials import run_all
from sciagent_bench.several_tables import TableSpec, read_collection

HERE = Path(__file__).parent
RESULT = HERE / "second.json"
TUNED = ("qm9_smallest", "qm9_largest", "perovskites", "boiling_points", "critical_points", "vaporisation")
JUDGES = ("redoxmers", "melting_points", "flash_points", "partition", "dipoles", "refractive_indices")
DRAWN = 600  # candidates
TOP = 0.05  # smallest share of them that are hits
FIRST = 0.2  # largest budget of a first campaign, as a fraction of its exhaustive cost
MARKS = (0.5, 0.8, 0.9)
ARMS = ("other end", "middle", "cluster", "rung")
PIVOTS = 10  # candidates from which the one that splits the hits most evenly between the halves defines the cluster

Told = tuple[RowIndices, Array, Any]  # rows and answers of a first campaign, and the state of its law, None if unknown


@dataclass(frozen=True)
class Taught:
    """Buys for the second campaign on a pool that has the rows of the first below it. told: their (m, k) answers."""

    buyer: Priced
    told: Array

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        m, k = self.told.shape
        both = CandidatePool(
            np.vstack([self.told, pool.scores]),
            np.vstack([np.zeros((m, k), bool), pool.closed]),
            np.vstack([np.zeros((m, k)), pool.costs]),
        )
        both.out[:] = np.concatenate([np.ones(m, dtype=bool), pool.out])
        both.tried = pool.tried
        both.failed = pool.failed
        return [Purchase(one.row - m, one.rung, one.index) for one in self.buyer.choose(both, left)]


@dataclass(frozen=True)
class Campaign:
    """A campaign on some candidates of a table. of: (n,) their rows. low, high: limits of a hit."""

    case: Case
    of: RowIndices
    low: float
    high: float

    @property
    def truth(self) -> Truth:
        scores = self.case.truth.scores[self.of]
        hit = (scores[:, -1] > self.low) & (scores[:, -1] < self.high)
        return Truth(scores, self.case.truth.costs[self.of], hit)

    def run(self, seed: int, budget: float = 1.0, told: Told | None = None) -> tuple[Replay, Any]:
        """Returns the purchases and the state of the law. told: by a first one."""
        truth = self.truth
        rows = self.of if told is None else np.concatenate([told[0], self.of])
        aim = self.case.aim(self.low, self.high)
        aims = Aims((aim,))
        trusted = frozenset(map(PaidIndex, aim.same))
        similarity = self.case.arriving(rows).similarity
        budgeted = budget * truth.exhaustive
        buyer = Priced(aims, similarity, seed, budgeted, trusted, len(rows) - len(self.of))
        if told is not None and told[2] is not None:
            buyer.learn_from(told[2])
        run = simulate(truth, buyer if told is None else Taught(buyer, told[1]), budget, enough=max(MARKS))
        return run, buyer.state()

    def taught(self, seed: int, lacking: int | None) -> Told:
        """Runs this one as a first campaign; returns what a second one learns from. lacking: a rung that it lacks."""
        kept = [j for j in range(self.case.truth.scores.shape[1]) if j != lacking]
        truth = self.case.truth
        case = self.case if lacking is None else without(self.case, self.case.names[lacking])
        run, state = replace(self, case=case).run(seed, FIRST)
        told = np.full((len(self.of), truth.scores.shape[1]), np.nan)
        places = np.array(kept)[run.rung]
        told[run.of, places] = truth.scores[self.of[run.of], places]
        return self.of, told, state

    @property
    def whole(self) -> Told:
        """All its answers, which no law has seen."""
        return self.of, self.case.truth.scores[self.of], None


def limits(values: Array, sign: int, begin: float, end: float) -> tuple[float, float]:
    """Returns the limits between two quantiles, counted from the worst value by the sign of the goal."""
    known = np.unique(sign * values[~np.isnan(values)])
    at = np.nanquantile(sign * values, [begin, end])
    cuts = (known[1:] + known[:-1]) / 2
    low = -math.inf if begin == 0 else float(cuts[max(np.searchsorted(known, at[0]) - 1, 0)])
    high = math.inf if end == 1 else float(cuts[min(np.searchsorted(known, at[1], side="right") - 1, len(cuts) - 1)])
    return (low, high) if sign > 0 else (-high, -low)


def halves(case: Case, of: RowIndices, hit: Mask, rng: np.random.Generator) -> tuple[RowIndices, RowIndices]:
    """Cuts the candidates at the median of their similarity to one of them, which splits the hits evenly."""
    assert case.similarity is not None
    pivots = rng.permutation(of)[:PIVOTS]
    near = [np.argsort(-case.similarity.between(of, pivot[None])[:, 0], kind="stable") for pivot in pivots]
    half = len(of) // 2
    best = max(near, key=lambda order: min(hit[order[:half]].sum(), hit[order[half:]].sum()))
    return of[best[:half]], of[best[half:]]


def plans(case: Case, top: float, seed: int) -> dict[str, tuple[Campaign, Campaign, int | None]]:
    """Returns, by arm, the two campaigns and the rung that the first one lacks."""
    rng = np.random.default_rng([seed, 4])
    of = rng.permutation(len(case.truth.hit))[:DRAWN]
    values = case.truth.scores[of, -1]
    goal = limits(values, case.sign, 1 - top, 1)
    a = of[: len(of) // 2]
    b = of[len(of) // 2 :]
    second = Campaign(case, b, *goal)
    near, far = halves(case, of, (values > goal[0]) & (values < goal[1]), rng)
    found: dict[str, tuple[Campaign, Campaign, int | None]] = {
        "other end": (Campaign(case, a, *limits(values, case.sign, 0, min(top, 0.1))), second, None),
        "cluster": (Campaign(case, near, *goal), Campaign(case, far, *goal), None),
    }
    if len(np.unique(values)) > 2:
        found["middle"] = Campaign(case, a, *limits(values, case.sign, 0.5, 0.6)), second, None
    if (k := case.truth.scores.shape[1]) > 2:
        found["rung"] = Campaign(case, a, *goal), second, k - 2
    return found


def marks(run: Replay, truth: Truth) -> dict[str, list[float | None]]:
    """Returns the number of terminal answers, and the cost, at each recall."""
    curve = Curve.of(run, truth)
    counted = replace(curve, spent=np.cumsum(np.array(run.rung) == truth.costs.shape[1] - 1))
    return {name: [of.cost_to(mark) for mark in MARKS] for name, of in (("answers", counted), ("cost", curve))}


def pairs(specs: Mapping[str, TableSpec], trial: tuple[str, int]) -> dict[str, Any]:
    """Returns, by arm, the marks of the second campaign, cold and taught, and the fewest answers that reach them."""
    table, seed = trial
    case = specs[table].case(HERE)
    found = {}
    cold: dict[int, dict[str, list[float | None]]] = {}
    for arm, (first, second, lacking) in plans(case, max(TOP, specs[table].top), seed).items():
        if id(second) not in cold:
            cold[id(second)] = marks(second.run(seed)[0], second.truth)
        taught = marks(second.run(seed, told=first.taught(seed, lacking))[0], second.truth)
        fewest = [math.ceil(mark * second.truth.hit.sum()) for mark in MARKS]
        found[arm] = {"cold": cold[id(second)], "taught": taught, "fewest": fewest}
    return found


def ratios(runs: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Returns taught over cold, and the fewest answers over those of the cold one, at each recall: geometric mean over
    the tables, with its 95 % interval, and by table. runs: of one arm, by table."""

    def mean(logs: Sequence[float]) -> list[float | None]:
        interval = summarised(logs)
        assert interval is not None
        return [None if value is None else round(math.exp(value), 3) for value in interval]

    found: dict[str, Any] = {}
    for place, mark in enumerate(MARKS):
        logs = {
            what: {table: [math.log(taught(run)[place] / cold(run)[place]) for run in of] for table, of in runs.items()}
            for what, taught, cold in (
                ("answers", lambda run: run["taught"]["answers"], lambda run: run["cold"]["answers"]),
                ("cost", lambda run: run["taught"]["cost"], lambda run: run["cold"]["cost"]),
                ("fewest", lambda run: run["fewest"], lambda run: run["cold"]["answers"]),
            )
        }
        found[f"{mark:g}"] = {what: mean([float(np.mean(v)) for v in by.values()]) for what, by in logs.items()}
        found[f"{mark:g}"]["tables"] = {table: mean(v) for table, v in logs["answers"].items()}
    return found


def main() -> None:
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    trials = [(table, seed) for seed in range(options.seeds) for table in (*TUNED, *JUDGES)]
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {arm: {} for arm in ARMS}
    for (table, seed), found in run_all(read_collection(HERE / "tables.yaml"), trials, options.workers, pairs):  # type: ignore[arg-type]
        for arm, pair in found.items():
            runs[arm].setdefault(table, []).append({"seed": seed, **pair})
        print(table, seed, flush=True)  # noqa: T201
    result: dict[str, Any] = {"command": f"python -m benchmarks.scheduling.second --seeds {options.seeds}"}
    for name, tables in (("tuned", TUNED), ("judges", JUDGES), ("all", TUNED + JUDGES)):
        result[name] = {
            arm: ratios({table: by_table[table] for table in tables if table in by_table})
            for arm, by_table in runs.items()
        }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    for arm, at in result["all"].items():
        print(f"{arm:10}", *(f"{mark}: {of['answers']} at best {of['fewest'][0]}" for mark, of in at.items()))  # noqa: T201


if __name__ == "__main__":
    main()
