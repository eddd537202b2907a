"""A law that begins with the answers of another campaign, of the opposite objective, beside one that begins with none.

    python -m benchmarks.scheduling.transfer

The QM9 table is cut in two at random. A first campaign looks for the largest gaps in one half, a second one for the
smallest in the other, both with a budget of 10 % of the exhaustive cost; and the other way round. As with
`law: {from: NAME}`, the candidates of the first are there to learn from and cannot be bought, and its hyper-parameters
are where the search for better ones begins.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RUNGS = "gap_GFN2:0.03,gap_GFN1:0.035,gap_dft_eV:600"
BUDGETS = (0.02, 0.03, 0.05, 0.1)


class Taught:
    """Buys for the second campaign on a pool that has the rows of the first below it. told: their (m, k) answers."""

    def __init__(self, buyer: Any, told: Any) -> None:
        self.buyer, self.told = buyer, told

    def choose(self, pool: Any, left: float) -> Any:
        import numpy as np

        from sciagent.scheduling.candidate_pool import CandidatePool, Purchase

        m, k = self.told.shape
        both = CandidatePool(
            np.vstack([self.told, pool.scores]),
            np.vstack([np.zeros((m, k), bool), pool.closed]),
            np.vstack([np.zeros((m, k)), pool.costs]),
        )
        both.out[:] = np.concatenate([np.ones(m, dtype=bool), pool.out])
        both.tried, both.failed = pool.tried, pool.failed
        return [Purchase(one.of - m, one.rung, one.index) for one in self.buyer.choose(both, left)]


def pair(goals: tuple[str, str], seed: int) -> dict[str, dict[str, float]]:
    """Recall of the second campaign by budget, cold and taught."""
    import numpy as np

    from sciagent.scheduling.aims import Aims
    from sciagent.scheduling.rules.priced import Priced
    from sciagent_bench.case import Case
    from sciagent_bench.score import recall
    from sciagent_bench.simulate import Truth, simulate
    from sciagent_bench.table import parse_rungs, read_case

    table = HERE / "qm9_s4000_xtb.csv.gz"
    order = np.random.default_rng(seed).permutation(4000)
    halves = order[:2000], order[2000:]
    first, second = (read_case(table, parse_rungs(RUNGS), goal, 0.01, "smiles") for goal in goals)

    def part(case: Case, of: Any) -> Truth:
        return Truth(case.truth.scores[of], case.truth.costs[of], case.truth.hit[of])

    def buyer(case: Case, of: Any, truth: Truth, budget: float) -> Priced:
        aims = Aims.with_threshold(3, case.threshold, case.sign)
        return Priced(aims, case.arriving(of).similarity, seed, budget * truth.exhaustive)

    truth = part(first, halves[0])
    teacher = buyer(first, halves[0], truth, 0.1)
    run = simulate(truth, teacher, 0.1)
    told = np.full(truth.scores.shape, np.nan)
    told[run.of, run.rung] = truth.scores[run.of, run.rung]
    truth, found = part(second, halves[1]), {"cold": {}, "taught": {}}  # type: ignore[var-annotated]
    for budget in BUDGETS:
        cold = buyer(second, halves[1], truth, budget)
        found["cold"][f"{budget:g}"] = recall(simulate(truth, cold, budget), truth)
        warm = buyer(second, np.concatenate(halves), truth, budget)
        warm.learn_from(teacher.state())
        found["taught"][f"{budget:g}"] = recall(simulate(truth, Taught(warm, told), budget), truth)
    return found


def main() -> None:
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    from sciagent_bench.score import summarised

    result: dict[str, Any] = {"command": f"python -m benchmarks.scheduling.transfer --seeds {seeds}", "pairs": {}}
    for goals in (("max", "min"), ("min", "max")):
        found = [pair(goals, seed) for seed in range(seeds)]
        rows = {
            kind: {f"{b:g}": summarised([one[kind][f"{b:g}"] for one in found]) for b in BUDGETS}
            for kind in ("cold", "taught")
        }
        result["pairs"][f"{goals[0]}, then {goals[1]}"] = rows
        for kind, row in rows.items():
            print(f"{goals[0]}, then {goals[1]}: {kind:7}", *(f"{at}: {v[0]:.3f}" for at, v in row.items()), flush=True)  # noqa: T201
    (HERE / "transfer.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
