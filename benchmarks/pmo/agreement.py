"""Prints how far the scores of `bench.pmo` are from those of MolScore and TDC themselves, and what a score costs:

    python -m benchmarks.pmo.agreement WHEEL_OF_MOLSCORE

The default suite makes the same comparison for the 20 tasks that need no model of activity.
"""

from __future__ import annotations

import csv
import sys
import time
from functools import cache
from pathlib import Path

from sciagent_bench.pmo.molscore_files import MolScoreFiles
from sciagent_bench.pmo.pickled_models import MODEL_CLASSES, ActivityModel
from sciagent_bench.pmo.scoring_functions import molecule, scorer

HERE = Path(__file__).resolve().parent
DEFINITIONS = ("molscore", "tdc")


def main(wheel: Path) -> None:
    files = MolScoreFiles(wheel)

    @cache
    def model(name: str) -> ActivityModel:
        return MODEL_CLASSES[name](files.model(name))

    print("| task | largest difference from MolScore | from TDC | ms a molecule |\n|---|---|---|---|")  # noqa: T201
    tables = {}
    for definition in DEFINITIONS:
        with (HERE / f"{definition}_scores.csv").open(encoding="utf-8", newline="") as stream:
            tables[definition] = list(csv.DictReader(stream))
    mols = [molecule(row["smiles"]) for row in tables["tdc"]]
    for task in sorted(set(tables["tdc"][0]) - {"smiles"}):
        cells = []
        for definition in DEFINITIONS:
            if task not in tables[definition][0]:
                cells.append("–")
                continue
            score = scorer(files.task(task), definition, model)
            begun = time.process_time()
            scores = [score(mol) for mol in mols]
            cost = (time.process_time() - begun) / len(mols)
            expected = [float(row[task]) for row in tables[definition]]
            cells.append(f"{max(abs(a - b) for a, b in zip(scores, expected, strict=True)):.0e}")
        print(f"| {task} | {' | '.join(cells)} | {1e3 * cost:.2f} |")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
