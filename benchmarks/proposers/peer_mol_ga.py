"""One run of mol_ga (Tripp and Hernandez-Lobato, arXiv 2310.09267) on the benchmark's oracle, in its own environment.

Called by run.py as `python peer_mol_ga.py OBJECTIVE SEED BUDGET START.smi`; prints one JSON object. mol_ga's own
defaults (population 10,000, quantile sampling, blended graph operators) with 5 offspring a generation: as good as the
100 of its example on the objectives used for tuning, see README.md. Imports nothing of sciagent.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

import numpy as np
from mol_ga import default_ga
from objectives import objective
from oracle import BudgetSpentError, Oracle

OFFSPRING = 5
POPULATION = 10_000


def quantile_sampling(population: list[tuple[float, str]], n: int, rng: random.Random) -> list[str]:
    """mol_ga's `uniform_quantile_sampling`, the same draws, without sorting the population 25 times a generation."""
    scores = np.array([score for score, _ in population])
    quantiles = 1 - np.logspace(-3, 0, 25)
    each = int(np.ceil(n / len(quantiles)))
    samples: list[str] = []
    for threshold in np.quantile(scores, quantiles):
        samples += [population[i][1] for i in rng.choices(population=np.flatnonzero(scores >= threshold), k=each)]
    rng.shuffle(samples)
    return samples[:n]


def run(name: str, seed: int, budget: int, start: list[str]) -> dict[str, object]:
    oracle = Oracle(objective(name), budget)
    begun = time.monotonic()
    try:
        default_ga(
            starting_population_smiles=start,
            scoring_function=lambda batch: [oracle.score(smiles) for smiles in batch],
            max_generations=budget,  # never reached: every generation has new molecules
            offspring_size=OFFSPRING,
            population_size=POPULATION,
            population_sampling_function=quantile_sampling,
            rng=random.Random(seed),
        )
    except BudgetSpentError:
        pass
    return {"curve": oracle.curve, "best": oracle.best(3), "calls": oracle.calls, "seconds": time.monotonic() - begun}


if __name__ == "__main__":
    which, number, limit, file = sys.argv[1:]
    sys.stdout.write(json.dumps(run(which, int(number), int(limit), Path(file).read_text(encoding="utf-8").split())))
