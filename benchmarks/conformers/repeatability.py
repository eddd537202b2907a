"""Whether the stated repeatability of `mlff.molecule` covers the differences between seeds of the conformer search:

    python -m benchmarks.conformers.repeatability, about 20 core-minutes

The twelve molecules of benchmarks/numbers/hydration.csv with most rotatable bonds, four seeds each. For each pair of
seeds the difference of two values is compared with the root of the sum of their squared uncertainties, which should
cover 68 % of them.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.repeatability.run import covered, flexible
from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Context
from sciagent_verifiers.simulation.mlff_molecule import MlffMolecule

OUT = Path(__file__).parent / "repeatability.json"
MOLECULES = 12
SEEDS = 4


def measured(smiles: str, replicate: int) -> list[dict[str, Any]]:
    """Returns the values of one molecule with one seed, with their uncertainties."""
    molecule = parse_molecule(smiles)
    with tempfile.TemporaryDirectory() as folder:
        found = MlffMolecule().finding(molecule, Context(Path(folder), Path(folder), replicate))
    rows = []
    for each in found.measured:
        row = {"smiles": smiles, "property": each.property, "seed": replicate, "value": each.quantity.value}
        rows.append({**row, "class": each.quantity.uncertainty})
    return rows


def main() -> None:
    rows: list[dict[str, Any]] = []
    for smiles in flexible(MOLECULES):
        for replicate in range(SEEDS):
            rows += measured(smiles, replicate)
    summary = {}
    for name in sorted({row["property"] for row in rows}):
        pairs: list[bool] = []
        for smiles in flexible(MOLECULES):
            of_one = [row for row in rows if row["property"] == name and row["smiles"] == smiles]
            pairs += covered(of_one, "class")
        summary[name] = {"pairs": len(pairs), "covered": round(sum(pairs) / len(pairs), 3)}
    OUT.write_text(json.dumps({"summary": summary, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
