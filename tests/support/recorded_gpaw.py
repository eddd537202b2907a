"""Stands in for GPAW's Python: says that it is GPAW 22.8.0, and answers with the gaps recorded in benchmarks/crystals.

It is run as a program, `python recorded_gpaw.py script.py` in a folder with INPUT.json; it imports nothing of sciagent.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from pathlib import Path

RECORDED = Path(__file__).parents[2] / "benchmarks" / "crystals" / "ladder.csv"
FAST_CUTOFF = 400


def main() -> None:
    if sys.argv[1] == "-c":
        sys.stdout.write("gpaw 22.8.0\n")
        return
    from ase.data import chemical_symbols

    asked = json.loads(Path("INPUT.json").read_text(encoding="utf-8"))
    wanted = Counter(chemical_symbols[z] for z in asked["numbers"])
    with RECORDED.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if elements(row["compound"]) == wanted and row["gap_standard"]]
    answer = {"versions": {"ase": "recorded"}, "ranks": 1}
    if rows:
        answer["result"] = result(rows[0], asked)
    else:
        answer["failure"] = {"reason": "scf_not_converged", "detail": f"nothing is recorded for {dict(wanted)}"}
    Path("OUTPUT.json").write_text(json.dumps(answer), encoding="utf-8")


def program(folder: Path) -> str:
    """Writes the program that stands in for GPAW's Python into the folder; returns its path for SCIAGENT_GPAW."""
    path = folder / "python3"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__)} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def elements(compound: str) -> Counter[str]:
    """Returns the atoms of a formula such as `SrTiO3`."""
    return Counter({symbol: int(n or 1) for symbol, n in re.findall(r"([A-Z][a-z]?)(\d*)", compound)})


def result(row: dict[str, str], asked: dict[str, list[object]]) -> dict[str, object]:
    """Returns a result of two electrons with the recorded gap, which lies on the lines and not on the mesh."""
    gap = float(row["gap_fast" if asked["cutoff"] == FAST_CUTOFF else "gap_standard"])
    return {
        "energy": float(row["energy_standard"]),
        "electrons": 2.0 if gap else 1.0,
        "moment": 0.0,
        "is_restarted": False,
        "n_mesh": 1,
        "mesh": {"points": [[0.25, 0.25, 0.25]], "eigenvalues": [[[-0.5, gap + 1.0]]]},
        "path": {"points": [[0, 0, 0]], "eigenvalues": [[[0.0, gap]]]},
    }


if __name__ == "__main__":
    main()
