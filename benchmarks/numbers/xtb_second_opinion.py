"""GFN1-xTB beside GFN2-xTB: the lines of `second_opinion`, and what their disagreement on dipoles is worth.

python benchmarks/numbers/xtb_second_opinion.py writes xtb_second_opinion.json; 40 CPU seconds. Molecules: those of
dipoles.csv and hydration.csv and the seeds of the quickstart.
"""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
from agreement import HERE, agreement, keep, table
from scipy.stats import spearmanr

from sciagent.chemistry.molecule import parse_molecule
from sciagent_simulators.starting_geometry import GeometryProtocol, prepare
from sciagent_simulators.tblite_engine import single_point
from sciagent_verifiers.simulation.tight_binding_base_and_second_opinion import HIGHEST_LUMO

METHODS = ("GFN2-xTB", "GFN1-xTB")


def main() -> None:
    experiment = {row["smiles"]: float(row["value"]) for row in table("dipoles.csv")}
    seeds = (HERE.parents[1] / "campaigns/quickstart_seeds.csv").read_text(encoding="utf-8").splitlines()
    everything = [
        *experiment,
        *(r["smiles"] for r in table("hydration.csv")),
        *(r["smiles"] for r in csv.DictReader(seeds)),
    ]
    protocol = GeometryProtocol()
    rows = []
    known = set()
    for smiles in everything:
        molecule = parse_molecule(smiles)
        if molecule.key in known:
            continue
        known.add(molecule.key)
        geometry, _ = prepare(molecule.mol, 0, molecule.multiplicity, protocol, protocol.seed(molecule.key))
        row: dict[str, Any] = {"smiles": smiles, "experiment": experiment.get(smiles)}
        for method in METHODS:
            found = single_point(geometry, method)
            row[method] = {k: round(getattr(found, k), 4) for k in ("homo", "lumo", "gap", "dipole")}
        rows.append(row)
    lines = {}
    unsaturated = [row for row in rows if row["GFN2-xTB"]["lumo"] < HIGHEST_LUMO]
    for what, chosen in (("homo", rows), ("lumo", unsaturated), ("gap", unsaturated), ("dipole", rows)):
        pairs = np.array([[row[method][what] for method in METHODS] for row in chosen])
        lines[what] = agreement(pairs[:, 0], pairs[:, 1])
    measured = [row for row in rows if row["experiment"] is not None]
    values = np.array([[row[method]["dipole"] for method in METHODS] for row in measured])
    truth = np.array([row["experiment"] for row in measured])
    spread = np.abs(values[:, 0] - values[:, 1])
    error = np.abs(values[:, 0] - truth)
    dipoles: dict[str, Any] = {method: agreement(values[:, k], truth) for k, method in enumerate(METHODS)}
    dipoles["disagreement over error of GFN2-xTB"] = {
        "spearman": round(float(spearmanr(spread, error).statistic), 3),
        "root mean square of error": round(float((error**2).mean() ** 0.5), 3),
        "root mean square of disagreement": round(float((spread**2).mean() ** 0.5), 3),
        "share of errors within twice the disagreement": round(float((error <= 2 * spread).mean()), 3),
        "mean error, disagreement below its median": round(float(error[spread <= np.median(spread)].mean()), 3),
        "mean error, disagreement above its median": round(float(error[spread > np.median(spread)].mean()), 3),
    }
    command = "python benchmarks/numbers/xtb_second_opinion.py"
    keep("xtb_second_opinion.json", command, {"GFN1-xTB over GFN2-xTB": lines, "dipoles": dipoles, "rows": rows})


if __name__ == "__main__":
    main()
