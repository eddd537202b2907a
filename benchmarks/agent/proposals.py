"""What different proposers bring for the same xTB runs: random edits, `evolve`, a small model that names edits, and the
same model that spells molecules.

    python -m benchmarks.agent.proposals --out benchmarks/agent/proposals.json --plot benchmarks/agent/proposals.png

Each run is the quickstart of a language model (`campaigns/quickstart_llm.yaml`: its seeds, ladder and objectives), with
another proposer, until so many xTB results are there beyond those of the seeds, or the clock has run out. The model is
SmolLM2-135M-Instruct in the process, on one thread; `sciagent models smollm2` brings it. Random edits: children, by
the edits that `evolve` has, of a seed or an earlier child drawn at random, whatever became of it.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

CAMPAIGNS = Path(__file__).parents[2] / "campaigns"
LLM = "{{kind: llm, model: smollm2, seeds: seeds.csv, tools: [{tools}], turns: 6, max_tokens: 100, ahead: 8}}"
PROPOSERS = {
    "random edits": "{kind: screen, file: random.csv, batch: 4}",
    "evolve": "{kind: evolve, seeds: seeds.csv, batch: 4, ahead: 8}",
    "smollm2, modify": LLM.format(tools="modify, crossover"),
    "smollm2, propose": LLM.format(tools="propose"),
}
TOP = 10


def random_edits(seeds: Sequence[str], n: int, seed: int) -> list[str]:
    """The seeds, and n children of what is drawn from all that are there."""
    from sciagent.chemistry.editing.mutate_and_crossover import EditLimits, mutate

    rng = random.Random(seed)
    found = list(seeds)
    limits = EditLimits(elements=("H", "C", "N", "O", "F", "S", "Cl"), max_heavy_atoms=14)
    while len(found) < len(seeds) + n:
        child = mutate(rng.choice(found), rng, limits=limits)
        if child is not None and child[0] not in found:
            found.append(child[0])
    return found


def run(
    name: str, seed: int, *, results: int, minutes: float, folder: Path, start: int | None = None
) -> dict[str, Any]:
    """start: how many of the seeds it begins with; default: all."""
    from ruamel.yaml import YAML

    from sciagent.campaign.core.create_and_open import create_or_open
    from sciagent.campaign.driving.driver import Driver
    from sciagent.campaign.file.campaign_spec import parse_spec
    from sciagent.store.database.ledger import Ledger

    seeds = [line.split(",")[0] for line in (CAMPAIGNS / "quickstart_seeds.csv").read_text().splitlines()[1:]]
    seeds = seeds[:start]
    (folder / "seeds.csv").write_text("\n".join(["smiles", *seeds]) + "\n")
    (folder / "random.csv").write_text("\n".join(["smiles", *random_edits(seeds, 4 * results, seed)]) + "\n")
    yaml = YAML(typ="safe")
    written = io.StringIO()
    whole = yaml.load((CAMPAIGNS / "quickstart_llm.yaml").read_text())
    whole |= {"campaign": "compared", "seed": seed, "workers": 1}
    whole |= {"proposer": yaml.load(PROPOSERS[name])}
    whole["budget"] = {"wall_minutes": minutes, "rungs": {"xtb": len(seeds) + results}}
    yaml.dump(whole, written)
    text = written.getvalue()
    ledger = Ledger(str(folder / "sciagent.db"))
    driver = Driver(create_or_open(ledger, parse_spec(text, base=folder), text, "benchmark").built)
    with driver:
        began = time.monotonic()
        state = driver.run()
        wall = time.monotonic() - began
    found = measured(ledger, len(seeds))
    ledger.close()
    return {"proposer": name, "seed": seed, "state": str(state), "wall_seconds": round(wall, 1)} | found


def measured(ledger: Any, n_seeds: int) -> dict[str, Any]:
    """Of one campaign: what was proposed beyond the seeds, and the mean score of the best ten after each xTB run, with
    what had been spent by then, in core-seconds: on xTB and on all."""
    import sqlalchemy as sa

    from sciagent.store.database import tables as t

    p, cc, s, a, j, r, u = (
        table.c for table in (t.proposal, t.campaign_candidate, t.spend, t.attempt, t.job, t.rung, t.turn)
    )
    with ledger.read() as connection:
        made = connection.execute(sa.select(p.status, p.reason, p.operation).order_by(p.id)).all()
        spent = connection.execute(
            sa.select(s.amount, r.position, j.candidate_id)
            .select_from(
                t.spend.outerjoin(t.attempt, a.id == s.attempt_id)
                .outerjoin(t.job, j.id == a.job_id)
                .outerjoin(t.rung, r.id == s.rung_id)
            )
            .where(s.resource == "core_seconds")
            .order_by(s.id)
        ).all()
        scores = {id_: score for id_, score in connection.execute(sa.select(cc.candidate_id, cc.expected_utility))}
        terminal = connection.execute(sa.select(sa.func.max(r.position))).scalar()
        sampled = [one for one in connection.execute(sa.select(u.sampling)).scalars() if one and "seconds" in one]
    new = [one for one in made[n_seeds:]]
    valid = [one for one in new if one.status != "refused"]
    top = list[float]()
    curve = []
    xtb = 0.0
    total = 0.0
    runs = 0
    for amount, position, candidate in spent:
        total += amount
        if position == terminal and candidate is not None:
            xtb = xtb + amount
            runs = runs + 1
            top = sorted([*top, scores.get(candidate) or 0.0], reverse=True)[:TOP]
            curve.append([round(xtb, 3), round(total, 3), round(statistics.fmean(top), 5)])
    tokens, seconds = (sum(one[key] for one in sampled) for key in ("output_tokens", "seconds"))
    return {
        "proposals": len(new),
        "valid": len(valid),
        "new": sum(one.status == "new" for one in new),
        "xtb_runs": runs,
        "xtb_seconds": round(xtb, 2),
        "core_seconds": round(total, 2),
        "curve": curve,
        "tokens": tokens,
        "model_seconds": round(seconds, 1),
        "answers": len(sampled),
    }


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """By proposer: means over seeds, with the half width of a 95 % interval of the mean (Student's t)."""
    found: dict[str, Any] = {}
    marks = [10.0, 12.0, 14.0, 16.0]
    for name in PROPOSERS:
        of = [one for one in runs if one["proposer"] == name]
        if not of:
            continue
        found[name] = {
            "proposals_a_minute": _mean([60 * one["proposals"] / one["wall_seconds"] for one in of]),
            "valid": _mean([one["valid"] / max(one["proposals"], 1) for one in of]),
            "new": _mean([one["new"] / max(one["proposals"], 1) for one in of]),
            "xtb_runs": _mean([one["xtb_runs"] for one in of]),
            "core_seconds": _mean([one["core_seconds"] for one in of]),
            "tokens_a_second": _mean([one["tokens"] / one["model_seconds"] for one in of if one["tokens"]]),
            "top10_at_xtb_seconds": {
                f"{mark:g}": _mean([value for one in of if (value := _at(one["curve"], 0, mark)) is not None])
                for mark in marks
            },
            "top10_at_the_end": _mean([one["curve"][-1][2] for one in of]),
        }
    return found


def _at(curve: Sequence[Sequence[float]], column: int, mark: float) -> float | None:
    """The mean score of the ten when so much was spent; what a run that ended before had at its end."""
    reached = [one[2] for one in curve if one[column] <= mark]
    return reached[-1] if reached else None


def _mean(values: Sequence[float]) -> list[float] | None:
    if not values:
        return None
    from scipy import stats

    n = len(values)
    half = stats.t.ppf(0.975, n - 1) * statistics.stdev(values) / n**0.5 if n > 1 else 0.0
    return [round(statistics.fmean(values), 4), round(float(half), 4)]


def draw(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Mean score of the best ten against xTB seconds and against all core-seconds, a line each run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    colours = dict(zip(PROPOSERS, ("#56565c", "#0f766e", "#b45309", "#7c3aed"), strict=True))
    for column, (axis, label) in enumerate(zip(axes, ("xTB", "xTB, model and checks"), strict=True)):
        for name, colour in colours.items():
            for place, one in enumerate(one for one in runs if one["proposer"] == name):
                axis.plot(
                    [point[column] for point in one["curve"]],
                    [point[2] for point in one["curve"]],
                    color=colour,
                    alpha=0.75,
                    linewidth=1.2,
                    label=None if place else name,
                )
        axis.set_xlabel(f"core-seconds: {label}")
        axis.spines[["top", "right"]].set_visible(False)
    axes[1].set_xscale("log")
    axes[0].set_ylabel("mean score of the best ten")
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--results", type=int, default=16, help="xTB results beyond those of the seeds")
    parser.add_argument("--minutes", type=float, default=2.5, help="of a run, at most")
    parser.add_argument("--proposers", nargs="+", choices=list(PROPOSERS), default=list(PROPOSERS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    runs: list[dict[str, Any]] = []
    for seed in range(1, given.seeds + 1):
        for name in given.proposers:
            with tempfile.TemporaryDirectory(prefix="sciagent-proposals-") as folder:
                runs.append(run(name, seed, results=given.results, minutes=given.minutes, folder=Path(folder)))
            print({key: value for key, value in runs[-1].items() if key != "curve"}, flush=True)  # noqa: T201
            found = {
                "at": time.strftime("%Y-%m-%d", time.gmtime()),
                "results": given.results,
                "minutes": given.minutes,
                "summary": summary(runs),
                "runs": runs,
            }
            if given.out:  # after each run: what was measured stays, whatever comes
                given.out.write_text(json.dumps(found) + "\n")
    if given.plot:
        draw(runs, given.plot)
    print(json.dumps(found["summary"], indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
