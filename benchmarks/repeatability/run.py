"""Whether the stated repeatability covers the differences between seeds of the conformer search.

python -m benchmarks.repeatability.run --out benchmarks/repeatability/result.json, about five minutes on two cores.

Each molecule is computed with four seeds (replicates 0 to 3) by `xtb.singlepoint` and `xtb.solvation` with
`repeatability: molecule`. For each pair of seeds the difference of two values is compared with the root of the sum of
their squared uncertainties; a standard uncertainty should cover 68 % of such differences. The same is counted for the
values of the class. The molecules are the twenty of benchmarks/numbers/hydration.csv with most rotatable bonds.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from itertools import combinations, product
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Context
from sciagent_simulators.low_conformers_and_search_spread import search_freedom
from sciagent_verifiers.simulation.xtb_singlepoint import XtbSinglepoint
from sciagent_verifiers.simulation.xtb_solvation import XtbSolvation

VERIFIERS = {"xtb.singlepoint": XtbSinglepoint, "xtb.solvation": XtbSolvation}
TABLE = Path(__file__).parents[1] / "numbers" / "hydration.csv"
SEEDS = 4
TARGET = (0.58, 0.78)

Row = dict[str, Any]
"""A value of one molecule, verifier, property and seed with its two uncertainties, in the property's unit."""


def flexible(n: int) -> list[str]:
    """Returns the SMILES of the n molecules of TABLE with most rotatable bonds; the first of equals come first."""
    from rdkit import Chem
    from rdkit.Chem.rdMolDescriptors import CalcNumRotatableBonds

    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    texts = [row["smiles"] for row in csv.DictReader(lines)]
    return sorted(texts, key=lambda text: -CalcNumRotatableBonds(Chem.MolFromSmiles(text)))[:n]


def measure(job: tuple[str, str, int]) -> list[Row]:
    """Returns the values of one molecule by one verifier with one seed. job: (SMILES, verifier, replicate)."""
    smiles, name, replicate = job
    own = VERIFIERS[name]({"repeatability": "molecule"})
    of_class = VERIFIERS[name]().spreads[search_freedom(parse_molecule(smiles).mol)]
    with tempfile.TemporaryDirectory() as folder:
        context = Context(Path(folder), Path(folder), replicate)
        found = next(iter(own.verify([parse_molecule(smiles)], context)))
    usual = {prop.name: width for prop, width in of_class.items()}
    return [
        {
            "smiles": smiles,
            "verifier": name,
            "property": measured.property,
            "seed": replicate,
            "value": measured.quantity.value,
            "molecule": measured.quantity.uncertainty,
            "class": usual[measured.property],
        }
        for measured in found.measured
    ]


def covered(rows: Sequence[Row], kind: str) -> list[bool]:
    """Returns, for each pair of seeds of one molecule and property, whether the uncertainties cover the difference."""
    return [abs(a["value"] - b["value"]) <= math.hypot(a[kind], b[kind]) for a, b in combinations(rows, 2)]


def summary(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Returns the coverage of both kinds by property, and over all properties."""
    groups: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        name = f"{row['verifier']} {row['property']}"
        groups.setdefault(name, {}).setdefault(row["smiles"], []).append(row)
    table: dict[str, Any] = {}
    counts: dict[str, list[bool]] = {"molecule": [], "class": []}
    for name, molecules in groups.items():
        line: dict[str, Any] = {"molecules": len(molecules)}
        for kind in counts:
            hits = [hit for same in molecules.values() for hit in covered(same, kind)]
            counts[kind] += hits
            line |= {"pairs": len(hits), f"covered_by_{kind}": round(fmean(hits), 3)}
        spreads = [stdev(row["value"] for row in same) for same in molecules.values()]
        stated = [math.sqrt(fmean(row["molecule"] ** 2 for row in same)) for same in molecules.values()]
        line |= {"median_spread": round(median(spreads), 5), "median_stated": round(median(stated), 5)}
        table[name] = line
    overall = {f"covered_by_{kind}": round(fmean(hits), 3) for kind, hits in counts.items()}
    return {"all": {"pairs": len(counts["molecule"]), **overall}, "by_property": table}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file for the result")
    parser.add_argument("-n", type=int, default=20, help="number of molecules")
    parser.add_argument("--smiles", nargs="+", help="these molecules instead")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds for each molecule")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    molecules = options.smiles or flexible(options.n)
    jobs = list(product(molecules, VERIFIERS, range(options.seeds)))
    with ProcessPoolExecutor(options.workers) as pool:
        rows = [row for found in pool.map(measure, jobs) for row in found]
    result = {
        "command": "python -m benchmarks.repeatability.run --out benchmarks/repeatability/result.json",
        "versions": {engine: version(engine) for engine in ("tblite", "rdkit", "ase")},
        "molecules": len(molecules),
        "seeds": options.seeds,
        "target": TARGET,
        **summary(rows),
        "rows": rows,
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(result["all"]) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
