"""Rewards of molecules that were mostly not verified, against the truth: writes robust.json and robust.png.

    python -m benchmarks.rewards.robust

The table is QM9 (4,000 molecules; GFN2 and DFT gaps): a hit is one of the tenth with the smallest DFT gap. A law is
taught by an earlier campaign that verified the 200 molecules that looked best by GFN2 and 40 others. Then a policy
proposes the 1,000 molecules that this law values most, as a trained policy would, and each is verified with a chance of
0.2. `posterior` takes the answers there are and the law's expectation for the rest; `robust` corrects the law by
the drawn ones. 200 lotteries.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import matplotlib as mpl
import numpy as np
import pandas as pd

from sciagent.rewards.reward_term_contract import CandidateState, Settlement, Unsettled
from sciagent.rewards.turn_rewards import worth
from sciagent.scheduling.aims_and_payoff import Aims, data_for_law
from sciagent.scheduling.array_types import Array, Mask
from sciagent.scheduling.candidate_indices import expected_payoffs
from sciagent.scheduling.law.stacked_laws_with_and_without_structure import Stack

HERE = Path(__file__).parent
TABLE = HERE.parent / "scheduling" / "qm9_s4000_xtb.csv.gz"
CHANCE = 0.2
LOTTERIES = 200
BEST = 200
OTHERS = 40
PROPOSED = 1000
BINS = 8
RULES: tuple[Unsettled, ...] = ("posterior", "robust")


def expected_by_law(cheap: Array, truth: Array, verified: Mask, threshold: float) -> Array:
    """Returns (n,) the expected payoff by a law that knows the cheap rung of all and the truth of `verified`."""
    scores = np.column_stack([cheap, np.where(verified, truth, np.nan)])
    aims = Aims.with_threshold(2, threshold, -1)
    truths = aims.truths(scores)
    laws = Stack(None).fit(data_for_law(aims, truths, scores), int(verified.sum()))
    return expected_payoffs(laws, np.arange(len(scores)), aims, truths, scores, aims.payoff(truths, scores))


def worths(rule: Unsettled, expected: Array, hits: Array, drawn: Mask) -> Array:
    """Returns (n,) worths by the product's own estimator."""
    known = (Settlement.OPEN, Settlement.ANSWERED)
    states = (
        CandidateState(known[is_drawn], u if is_drawn else None, e, CHANCE)
        for u, e, is_drawn in zip(hits.tolist(), expected.tolist(), drawn.tolist(), strict=True)
    )
    return np.array([worth(state, rule) for state in states], dtype=float)


def main() -> None:
    table = pd.read_csv(TABLE).dropna()
    cheap = table["gap_GFN2"].to_numpy()
    truth = table["gap_dft_eV"].to_numpy()
    threshold = float(np.quantile(truth, 0.1))
    hits = (truth <= threshold).astype(float)
    rng = np.random.default_rng(0)
    verified = np.zeros(len(table), dtype=bool)
    verified[np.argsort(cheap)[:BEST]] = True
    verified[rng.choice(np.flatnonzero(~verified), OTHERS, replace=False)] = True
    expected = expected_by_law(cheap, truth, verified, threshold)
    rest = np.flatnonzero(~verified)
    proposed = rest[np.argsort(-expected[rest], kind="stable")[:PROPOSED]]
    expected = expected[proposed]
    hits = hits[proposed]
    errors: dict[str, list[float]] = {rule: [] for rule in RULES}
    for _ in range(LOTTERIES):
        drawn = rng.random(PROPOSED) < CHANCE
        for rule in RULES:
            errors[rule].append(float((worths(rule, expected, hits, drawn) - hits).mean()))
    found = {
        rule: {
            "mean_error": round(float(np.mean(of)), 5),
            "standard_error_of_the_mean": round(float(np.std(of, ddof=1) / np.sqrt(LOTTERIES)), 5),
            "standard_deviation_of_one_lottery": round(float(np.std(of, ddof=1)), 5),
        }
        for rule, of in errors.items()
    }
    for figures in found.values():
        figures["in_standard_errors"] = round(figures["mean_error"] / figures["standard_error_of_the_mean"], 2)
    result = {
        "command": "python -m benchmarks.rewards.robust",
        "chance": CHANCE,
        "lotteries": LOTTERIES,
        "proposed": PROPOSED,
        "hits_among_them": int(hits.sum()),
        "expected_by_the_law": round(float(expected.sum()), 1),
        "rules": found,
    }
    (HERE / "robust.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))  # noqa: T201
    plot(expected, hits, rng)


def plot(expected: Array, hits: Array, rng: np.random.Generator) -> None:
    """Draws what molecules are worth by bins of the law's expectation: in truth, by the law, by one lottery."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawn = rng.random(len(hits)) < CHANCE
    robust = worths("robust", expected, hits, drawn)
    bins = np.array_split(np.argsort(expected, kind="stable"), BINS)
    x = np.array([expected[b].mean() for b in bins])
    figure, axes = plt.subplots(figsize=(5.2, 4.0), layout="constrained")
    axes.plot([0, x.max()], [0, x.max()], color="0.7", label="posterior: the law's expectation")
    axes.plot(x, [hits[b].mean() for b in bins], "o-", color="black", label="truth")
    spread = [robust[b].std(ddof=1) / np.sqrt(len(b)) for b in bins]
    axes.errorbar(
        x, [robust[b].mean() for b in bins], spread, fmt="s", color="tab:blue", label="robust, one lottery ± SE"
    )
    axes.set(xlabel="expected payoff by the law, hits", ylabel="mean worth, hits")
    axes.legend(frameon=False)
    figure.savefig(HERE / "robust.png", dpi=110)


if __name__ == "__main__":
    main()
