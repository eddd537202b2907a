"""How many hits does `evolve` find with 60 terminal runs if the objectives are measured on three rungs?

Runs `campaign.yaml` with the seeds 1 to 5 by an installed `sciagent`, each in a folder of its own, and adds what came
of it to `results.json` under the label. Two labels are compared: a label for each order of candidates.

    python -m benchmarks.proposers.several_rungs.run --label new
    python -m benchmarks.proposers.several_rungs.run --label old --sciagent OTHER/.venv/bin/sciagent
    python -m benchmarks.proposers.several_rungs.run --compare new old
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
SEEDS = (1, 2, 3, 4, 5)
LIMITS: Mapping[str, tuple[float, float]] = {
    "xtb.homo_lumo_gap [eV]": (1.8, 3.0),
    "xtb.dipole [D]": (-np.inf, 3.0),
    "water.solvation_free_energy [eV]": (-np.inf, -0.3),
}
"""Limits of the objectives below the terminal rung, by column of the export."""
TERMINAL = "redox.adiabatic_electron_affinity [eV]"
TERMINAL_WINDOW = (3.4, 3.8)


def campaign_result(sciagent: str, seed: int) -> Mapping[str, Any]:
    """Runs the campaign with one seed. Raises CalledProcessError if the export fails."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(HERE / "seeds.csv", folder)
        text = (HERE / "campaign.yaml").read_text(encoding="utf-8")
        (folder / "campaign.yaml").write_text(text.replace("seed: 1\n", f"seed: {seed}\n"), encoding="utf-8")
        # without a hit, `run` ends with exit code 3
        subprocess.run(
            [sciagent, "run", "campaign.yaml", "--no-report"], cwd=folder, env=environment, capture_output=True
        )
        export = [sciagent, "export", "acceptors", "--columns", "all", "-o", "all.csv"]
        subprocess.run(export, cwd=folder, env=environment, capture_output=True, check=True)
        with (folder / "all.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    return counted(rows)


def counted(rows: list[dict[str, str]]) -> Mapping[str, Any]:
    """Counts proposals, terminal runs, terminal runs on candidates that missed a lower objective, and hits."""
    verified = [row for row in rows if row.get(TERMINAL)]
    meets_lower = [row for row in verified if all(is_within(row[name], *limits) for name, limits in LIMITS.items())]
    hits = [row for row in meets_lower if is_within(row[TERMINAL], *TERMINAL_WINDOW)]
    return {
        "candidates": len(rows),
        "terminal_runs": len(verified),
        "terminal_runs_on_misses": len(verified) - len(meets_lower),
        "hits": len(hits),
    }


def is_within(text: str, low: float, high: float) -> bool:
    return low <= float(text) <= high


def comparison(results: Mapping[str, Mapping[str, Any]], first: str, second: str) -> Mapping[str, Any]:
    """Returns the mean difference in hits of two labels over the seeds, with its 95 % interval by Student's t."""
    differences = [results[first][str(seed)]["hits"] - results[second][str(seed)]["hits"] for seed in SEEDS]
    mean = float(np.mean(differences))
    standard_error = float(np.std(differences, ddof=1)) / len(differences) ** 0.5
    half_width = float(student.ppf(0.975, len(differences) - 1)) * standard_error
    interval = [round(mean - half_width, 2), round(mean + half_width, 2)]
    return {"minus": [first, second], "differences": differences, "mean": mean, "interval": interval}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--label", help="name of the results")
    parser.add_argument("--sciagent", default=str(Path(sys.executable).with_name("sciagent")), help="program to run")
    parser.add_argument("--compare", nargs=2, metavar="LABEL", help="compare the hits of two labels")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if arguments.label:
        of_label = results.setdefault(arguments.label, {})
        for seed in SEEDS:
            if str(seed) not in of_label:
                of_label[str(seed)] = campaign_result(arguments.sciagent, seed)
                sys.stderr.write(f"{arguments.label} {seed} {of_label[str(seed)]}\n")
                RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if arguments.compare:
        results["comparison"] = comparison(results, *arguments.compare)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        sys.stdout.write(json.dumps(results["comparison"]) + "\n")


if __name__ == "__main__":
    main()
