"""About 200 molecules of the quickstart's space, taken once through every rung with real xTB and DFT; and every
scheduler replayed on what they said and what they took.

    sciagent run benchmarks/scheduling/live.yaml            hours of CPU; in a folder of its own
    python -m benchmarks.scheduling.live table sciagent.db  the table, from the ledger
    python -m benchmarks.scheduling.live replay             the schedulers, from the table

Every seed draws 160 of the molecules. A hit meets both objectives of the quickstart at PBE0/def2-SVP. `priced` reads
gap and dipole of both rungs, as it does in a campaign; the others, which rank by one score, are given the quickstart's
own gates: how far inside them GFN2's gap and dipole lie. They know from hand-made windows what `priced` has to learn.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # before numpy is loaded, here and in the workers
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

from benchmarks.scheduling.botorch_schedulers import EiPerCost, KnowledgeGradient
from benchmarks.scheduling.one_step import OneStep
from sciagent_bench.schedulers import SCHEDULERS as BY_NAME

HERE = Path(__file__).parent
TABLE = HERE / "live.csv.gz"
RESULT = HERE / "live.json"
COLUMNS = ("smiles", "xtb_gap_eV", "xtb_dipole_D", "dft_gap_eV", "dft_dipole_D", "xtb_core_seconds", "dft_core_seconds")
GATES = {"gap_eV": (1.3, 2.8), "dipole_D": (None, 3.0)}
OBJECTIVES = {"gap_eV": (4.0, 4.6), "dipole_D": (None, 2.5)}
SCHEDULERS = (
    "priced",
    "thresholds",
    "halving",
    "best_rung",
    "greedy",
    "one_step",
    "ei_per_cost",
    "mfkg",
    "random",
    "exhaustive",
)
BY_NAME |= {
    "one_step": lambda f: OneStep(f.threshold, f.sign, f.similarity, f.seed),
    "ei_per_cost": lambda f: EiPerCost(f.threshold, f.sign, f.seed),
    "mfkg": lambda f: KnowledgeGradient(f.threshold, f.sign, f.seed),
}
BUDGETS = (0.1, 0.2, 0.4)
DRAWN = 160  # molecules of a seed, for the spread over seeds to tell how much hangs on which molecules there are


def table(ledger: Path) -> None:
    """Written from the ledger of the run."""
    import sqlalchemy as sa

    from sciagent.store.campaign_state import campaigns, candidate_standings
    from sciagent.store.database import tables as t
    from sciagent.store.database.ledger import Ledger
    from sciagent.store.results import evidence

    rows: list[list[Any]] = []
    with Ledger(f"sqlite:///{ledger}").read() as connection:
        campaign = campaigns.get(connection, "live")
        rungs = {r.name: r for r in campaigns.rungs(connection, campaign.id)}
        stands = candidate_standings.arrivals(connection, campaign.id, 0, 10_000)
        ids = [s.candidate_id for s in stands]
        texts = dict(connection.execute(sa.select(t.candidate.c.id, t.candidate.c.text)).all())
        said = {}
        took = {}
        for name in ("xtb", "dft"):
            r = rungs[name]
            said[name] = evidence.find_reusable(connection, ids, r.computation)
            j = t.job.c
            a = t.attempt.c
            query = sa.select(j.candidate_id, a.cost).join(t.attempt, a.job_id == j.id).where(j.rung_id == r.id)
            took[name] = {i: dict(cost).get("core_seconds") for i, cost in connection.execute(query)}
        for i in ids:
            if took["dft"].get(i) is None:
                continue
            values = {
                (name, m.property): m.quantity.value for name in said if i in said[name] for m in said[name][i].measured
            }
            cells = [values.get((name, p)) for name in ("xtb", "dft") for p in ("homo_lumo_gap", "dipole")]
            rows.append(
                [texts[i], *("" if v is None else f"{v:.6g}" for v in cells)]
                + [f"{took[name][i]:.4g}" for name in ("xtb", "dft")]
            )
    with gzip.GzipFile(TABLE, "wb", mtime=0) as file:
        lines = [",".join(COLUMNS), *(",".join(map(str, row)) for row in rows)]
        file.write(("\n".join(lines) + "\n").encode())
    print(f"{len(rows)} molecules in {TABLE.name}")  # noqa: T201


def case(path: Path = TABLE) -> Any:
    """A `Case` of the replay."""
    import numpy as np

    from sciagent.scheduling.aims_and_payoff import Aim, Aims
    from sciagent.scheduling.law.rung_hints import Hint
    from sciagent_bench.candidate_similarity import of_identifiers
    from sciagent_bench.replay_cases import Case
    from sciagent_bench.replay_once import Truth

    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    column = {c: np.array([float(r[c]) if r[c] else np.nan for r in rows]) for c in COLUMNS[1:]}
    margins = [_margin(column, "xtb", GATES), _margin(column, "dft", OBJECTIVES)]
    costs = np.column_stack([column["xtb_core_seconds"], column["dft_core_seconds"]])
    scores = np.column_stack([column[c] for c in COLUMNS[1:5]])
    with np.errstate(invalid="ignore"):
        hit = margins[1] >= 0
    gap = Aim((0, 2), *OBJECTIVES["gap_eV"], hint=Hint(0, 2, 1.0, 4.3 - 2.05, 0.5))
    dipole = Aim((1, 3), -np.inf, OBJECTIVES["dipole_D"][1], hint=Hint(1, 3, 1.0, -0.5, 0.75))
    return Case(
        Truth(np.column_stack(margins), costs, hit),
        0.0,
        1,
        of_identifiers([r["smiles"] for r in rows]),
        Truth(scores, costs, hit, (0, 0, 1, 1)),
        Aims((gap, dipole)),
    )


def _margin(column: Any, rung: str, windows: dict[str, tuple[float | None, float]]) -> Any:
    """How far inside all windows, the nearest edge, in half widths (of an open one: in the limit); below 0 outside."""
    import numpy as np

    found = []
    for name, (low, high) in windows.items():
        value = column[f"{rung}_{name}"]
        inside = 1 - np.abs(value - (low + high) / 2) / ((high - low) / 2) if low is not None else 1 - value / high
        found.append(inside)
    return np.min(found, axis=0)


class Drawn:
    """Some of a case's molecules by seed, in an order of arrival."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __call__(self, seed: int) -> Any:
        import numpy as np

        return self.of.arriving(np.random.default_rng([seed, 1]).permutation(len(self.of.truth.hit))[:DRAWN])


def replay(seeds: int, workers: int) -> None:
    from rich.progress import track

    from sciagent_bench.run_trials import run_all, trials

    whole = case()
    n = len(whole.truth.hit)
    source = Drawn(whole)
    drawn = [source(seed).truth for seed in range(seeds)]
    wanted = trials(SCHEDULERS, BUDGETS, seeds, marks=False)
    hits: dict[tuple[str, float], dict[int, float]] = {}
    for trial, values in track(run_all(source, wanted, workers), "runs", len(wanted)):
        assert trial.budget is not None and values[0] is not None
        truth = drawn[trial.seed]
        per_hour = values[0] * truth.hit.sum() / (trial.budget * truth.exhaustive / 3600)
        hits.setdefault((trial.scheduler, trial.budget), {})[trial.seed] = per_hour
    schedulers = {
        name: {f"{at:g}": _interval(list(hits[name, at].values()), n) for at in BUDGETS} for name in SCHEDULERS
    }
    ahead = {
        name: {
            f"{at:g}": _interval([hits["priced", at][i] - hits[name, at][i] for i in range(seeds)], n) for at in BUDGETS
        }
        for name in SCHEDULERS[1:]
    }
    result = {
        "command": f"python -m benchmarks.scheduling.live replay --seeds {seeds}",
        "molecules": n,
        "hits": int(whole.truth.hit.sum()),
        "dft_core_seconds": round(whole.truth.exhaustive, 1),
        "drawn": DRAWN,
        "hits_per_core_hour": schedulers,
        "priced_ahead_of": ahead,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    for name, one in schedulers.items():
        behind = [] if name == "priced" else ["  priced ahead by", *(_shown(v) for v in ahead[name].values())]
        print(f"{name:12}", *(_shown(v) for v in one.values()), *behind, sep="  ")  # noqa: T201


def _interval(values: list[float], molecules: int) -> list[float]:
    """Mean, and 95 % interval by the delete-d jackknife: draws of r out of n share most of their molecules, so that
    others of the same space would scatter sqrt(r / (n - r)) times as much. Shao and Wu, Ann. Stat. 17, 1176 (1989)."""
    import numpy as np

    half = 1.96 * float(np.std(values)) * (DRAWN / (molecules - DRAWN)) ** 0.5
    mean = float(np.mean(values))
    return [round(v, 3) for v in (mean, mean - half, mean + half)]


def _shown(interval: Any) -> str:
    mean, low, _ = interval
    return f"{mean:6.2f} ± {mean - low:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="what", required=True)
    parts.add_parser("table").add_argument("ledger", type=Path)
    again = parts.add_parser("replay")
    again.add_argument("--seeds", type=int, default=20)
    again.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args()
    table(chosen.ledger) if chosen.what == "table" else replay(chosen.seeds, chosen.workers)


if __name__ == "__main__":
    main()
