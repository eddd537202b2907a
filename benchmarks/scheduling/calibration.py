"""How often the truth lies in the law's 90 % interval, on every table.

First, of laws that have learned from 60, 200 and 600 candidates drawn at random: of all others, and of the twentieth of
them of whom it promises most. Then in campaigns, at budgets of 2, 5 and 10 % of the exhaustive cost, where the law
learns from what it chose itself: of the candidates that were verified, as foretold just before, and of those that were
not, at the end; and how much of its budget was spent.

    python -m benchmarks.scheduling.calibration

The interval is `scheduling.law.prediction_interval_width`: as many standard deviations of the two laws' mixture as nine
in ten of their leave-one-out errors lie within.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BUDGETS = (0.02, 0.05, 0.1)
ANSWERS = (60, 200, 600)
FEWEST = 100  # others that must be left
FAMILIES = ("informative", "worthless-middle", "weak", "flat", "heavy-tails", "heteroscedastic")


def cases() -> dict[str, Any]:
    """By name, a case for each seed."""
    from sciagent_bench.replay_cases import OfFamily, OfTable
    from sciagent_bench.several_tables import read_collection

    tables = read_collection(HERE / "tables.yaml")
    return {name: OfTable(table.case(HERE)) for name, table in tables.items()} | {
        family: OfFamily(family, 4000, 0.01) for family in FAMILIES
    }


class Watched:
    """A buyer, and for each terminal verification the interval, low and high, that its laws foretold before it."""

    def __init__(self, buyer: Any) -> None:
        self.buyer = buyer
        self.foretold: dict[int, tuple[float, float]] = {}

    def choose(self, pool: Any, left: float) -> Any:
        import numpy as np

        from sciagent.scheduling.law.stacked_laws_with_and_without_structure import foretell

        found = self.buyer.choose(pool, left)
        last = pool.costs.shape[1] - 1
        of = np.array([one.row for one in found if one.rung == last and np.isfinite(one.index)], dtype=np.intp)
        if len(of):
            told = foretell(self.buyer.laws, 0, of)
            self.foretold.update({int(i): ends for i, *ends in zip(of, told.low, told.high, strict=True)})
        return found


def covered_at_random(source: Any, seed: int, answers: int) -> tuple[float, float] | None:
    """Share of the truths in their intervals: of all that were not drawn, and of the best twentieth of them."""
    import numpy as np

    from sciagent.scheduling.aims_and_payoff import Aims, data_for_law
    from sciagent.scheduling.law.stacked_laws_with_and_without_structure import Stack, foretell

    case = source(seed)
    rng = np.random.default_rng(seed)
    truth = case.truth.scores[:, -1]
    order = rng.permutation(np.flatnonzero(~np.isnan(truth)))
    if len(order) < answers + FEWEST:
        return None
    scores = case.truth.scores.copy()
    left = order[answers:]
    scores[left, -1] = np.nan
    aims = Aims((case.aim(*case.limits),))
    [scale] = aims.truths(scores)
    told = foretell(Stack(case.similarity).fit(data_for_law(aims, [scale], scores), answers), 0, left)
    y = scale(truth[left])
    inside = (told.low <= y) & (y <= told.high)
    return float(inside.mean()), float(inside[np.argsort(-told.mean)[: len(left) // 20]].mean())


def covered(source: Any, seed: int, budget: float) -> tuple[float, float, float]:
    """Share of the truths in their intervals: of those verified, foretold before; of those not verified; and spend
    over budget."""
    import numpy as np

    from sciagent.domain.rung_positions_and_tiers import PaidIndex
    from sciagent.scheduling.aims_and_payoff import Aims
    from sciagent.scheduling.law.stacked_laws_with_and_without_structure import foretell
    from sciagent.scheduling.rules.priced import Priced
    from sciagent_bench.replay_once import simulate

    case = source(seed)
    truth = case.truth
    k = truth.costs.shape[1]
    aims = Aims((case.aim(*case.limits),))
    trusted = frozenset(map(PaidIndex, aims.aims[0].same))
    buyer = Priced(aims, case.similarity, seed, budget * truth.exhaustive, trusted)
    watched = Watched(buyer)
    run = simulate(truth, watched, budget, enough=2.0)
    bought = {i for i, j in zip(run.of, run.rung, strict=True) if j == k - 1}
    left = np.array([i for i in range(len(truth.hit)) if i not in bought and not np.isnan(truth.scores[i, -1])])
    left = np.random.default_rng(seed).permutation(left)[:1000]
    known = np.array([i for i in watched.foretold if i in bought and not np.isnan(truth.scores[i, -1])])
    low, high = np.array([watched.foretold[int(i)] for i in known]).T
    answers = buyer.truths[0](truth.scores[:, -1])
    verified = (low <= answers[known]) & (answers[known] <= high)
    told = foretell(buyer.laws, 0, left)
    others = (told.low <= answers[left]) & (answers[left] <= told.high)
    return float(verified.mean()), float(others.mean()), run.spent / (budget * truth.exhaustive)


def main() -> None:
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    result: dict[str, Any] = {
        "command": f"python -m benchmarks.scheduling.calibration --seeds {seeds}",
        "at_random": {},
        "campaigns": {},
    }
    for name, source in cases().items():
        found = {n: [one for seed in range(seeds) if (one := covered_at_random(source, seed, n))] for n in ANSWERS}
        result["at_random"][name] = {
            n: {kind: round(sum(one[i] for one in many) / len(many), 3) for i, kind in enumerate(("all", "best"))}
            for n, many in found.items()
            if many
        }
        shown = (f"{r['all']:.3f} {r['best']:.3f}" for r in result["at_random"][name].values())
        print(f"{name:18} at random:", *shown, flush=True)  # noqa: T201
    for name, source in cases().items():
        rows = {}
        for budget in BUDGETS:
            many = [covered(source, seed, budget) for seed in range(seeds)]
            verified, others, spent = (sum(x) / len(many) for x in zip(*many, strict=True))
            rows[f"{budget:g}"] = {"verified": round(verified, 3), "others": round(others, 3), "spent": round(spent, 4)}
        result["campaigns"][name] = rows
        shown = (f"{r['verified']:.3f} {r['others']:.3f} ({r['spent']:.3f})" for r in rows.values())
        print(f"{name:18}", *shown, flush=True)  # noqa: T201
    (HERE / "calibration.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
