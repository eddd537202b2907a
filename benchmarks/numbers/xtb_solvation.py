"""Hydration free energies by extended tight binding against experiment: writes xtb_solvation.json.

python benchmarks/numbers/xtb_solvation.py [ROWS [DATABASE]]: the 75 solutes of hydration.csv, about a CPU second each.
ROWS: a file that keeps one line a solute, so that a run that was stopped goes on. DATABASE: database.txt of
https://github.com/MobleyLab/FreeSolv, whose other values are not copied here; the summary of all solutes in ROWS goes
into the result.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from agreement import agreement, keep, table
from scipy.stats import spearmanr

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.properties_and_levels import SOLVATION_ENERGY
from sciagent.domain.quantities import conversion_factor
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvation
from sciagent_simulators.starting_geometry import GeometryProtocol, prepare
from sciagent_simulators.tblite_engine import single_point

KCAL = conversion_factor("kcal/mol", SOLVATION_ENERGY)  # eV
METHODS = ("GFN1-xTB", "GFN2-xTB")
RELAXED = "GFN2-xTB ALPB, each state at its own geometry"
KINDS = (*(f"{method} {model}" for method in METHODS for model in ("ALPB", "GBSA")), RELAXED)


def one(solute: dict[str, str]) -> dict[str, Any]:
    """What xtb.solvation computes, kcal/mol, from one search for conformers."""
    molecule = parse_molecule(solute["smiles"])
    gas = GeometryProtocol()
    water = GeometryProtocol(solvent="water")
    seed = gas.seed(molecule.key)
    geometry, _ = prepare(molecule.mol, 0, molecule.multiplicity, gas, seed)
    row: dict[str, Any] = {key: solute[key] for key in ("id", "name", "smiles")} | {
        "experiment": float(solute["value"])
    }
    vacuum = {method: single_point(geometry, method).energy for method in METHODS}
    for method in METHODS:
        for model in ("alpb", "gbsa"):
            energy = single_point(geometry, method, solvation=Solvation("water", model)).energy
            row[f"{method} {model.upper()}"] = round((energy - vacuum[method]) / KCAL, 3)
    dissolved, _ = prepare(molecule.mol, 0, molecule.multiplicity, water, seed)
    energy = single_point(dissolved, solvation=Solvation("water")).energy
    row[RELAXED] = round((energy - vacuum["GFN2-xTB"]) / KCAL, 3)
    return row


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    truth = np.array([row["experiment"] for row in rows])
    found: dict[str, Any] = {kind: agreement([row[kind] for row in rows], truth) for kind in KINDS}
    values = {method: np.array([row[f"{method} ALPB"] for row in rows]) for method in METHODS}
    apart = np.abs(values["GFN1-xTB"] - values["GFN2-xTB"])
    for method in METHODS:
        error = np.abs(values[method] - truth)
        found[f"error of {method} ALPB over its distance to the other"] = {
            "spearman": round(float(spearmanr(apart, error).statistic), 3),
            "root mean square of distance": round(float((apart**2).mean() ** 0.5), 3),
        } | {
            f"mean error, distance {low} to {high}": [round(float(error[near].mean()), 2), int(near.sum())]
            for low, high in ((0, 0.5), (0.5, 1), (1, 2), (2, 4))
            if (near := (apart >= low) & (apart < high)).any()
        }
    return found


def main() -> None:
    kept = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    done: dict[str, dict[str, Any]] = {}
    if kept and kept.exists():
        done = {row["id"]: row for row in map(json.loads, kept.read_text(encoding="utf-8").splitlines())}
    solutes = table("hydration.csv")
    own = {row["id"] for row in solutes}
    if len(sys.argv) > 2:
        lines = Path(sys.argv[2]).read_text(encoding="utf-8").splitlines()
        parts = [line.split("; ") for line in lines if line.startswith("mobley")]
        solutes += [{"id": p[0], "smiles": p[1], "name": p[2], "value": p[3]} for p in parts if p[0] not in own]
    for solute in solutes:
        if solute["id"] not in done:
            row = done[solute["id"]] = one(solute)
            if kept:
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    rows = [done[name] for name in sorted(own)]
    result: dict[str, Any] = {"unit": "kcal/mol", "summary": summary(rows)}
    if len(done) > len(own):
        result["summary of more of FreeSolv"] = summary(list(done.values()))
    keep("xtb_solvation.json", "python benchmarks/numbers/xtb_solvation.py ROWS DATABASE", result | {"rows": rows})


if __name__ == "__main__":
    main()
