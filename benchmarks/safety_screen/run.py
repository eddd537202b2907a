"""How many ordinary molecules the safety screen refuses, and what it costs.

    python benchmarks/safety_screen/run.py FILE.csv[.gz] [--n 5000] [--out results.json]

FILE has a column `smiles`; every k-th row is taken, so that n rows span the file. Only counts by rule are written.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import platform
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import rdkit

from sciagent.chemistry.molecule import parse_molecule
from sciagent_verifiers.fast.molecule_and_crystal_safety import MoleculeSafety


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    given = parser.parse_args()
    opener: Any = gzip.open if given.file.suffix == ".gz" else open
    with opener(given.file, "rt", encoding="utf-8", newline="") as stream:
        rows = [row["smiles"] for row in csv.DictReader(stream)]
    taken = rows[:: max(1, len(rows) // given.n)][: given.n]
    molecules = [parse_molecule(text, standardise="parent") for text in taken]
    screen = MoleculeSafety()
    screen.warm()
    for molecule in molecules:
        _ = molecule.mol
    times = []
    alerts = []
    for _ in range(3):
        start = time.process_time()
        alerts = [screen.alerts(molecule) for molecule in molecules]
        times.append((time.process_time() - start) / len(molecules) * 1e3)
    refused = [found for found in alerts if found]
    result = {
        "file": given.file.name,
        "sha256": hashlib.sha256(given.file.read_bytes()).hexdigest(),
        "rows": len(rows),
        "molecules": len(molecules),
        "screen_version": screen.version,
        "refused": len(refused),
        "refused_percent": round(100 * len(refused) / len(molecules), 3),
        "by_rule": dict(Counter(one.name for found in refused for one in found)),
        "ms_per_molecule_cpu": {"best": round(min(times), 4), "worst": round(max(times), 4), "runs": len(times)},
        "machine": f"{platform.machine()}, Python {platform.python_version()}, RDKit {rdkit.__version__}",
    }
    given.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(given.out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
