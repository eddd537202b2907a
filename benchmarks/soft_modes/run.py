"""How far the lowest frequency and the free energy differ between relaxations to the same minimum of GFN2-xTB.

OMP_NUM_THREADS=1 python -m benchmarks.soft_modes.run --out benchmarks/soft_modes/result.json

It takes a minute on one core.

The geometry of `xtb.thermo` is the first start. The others are turned at random and moved by 0.02 angstrom (one is only
turned). Four relaxations end at forces of 0.005 eV/angstrom, as in `xtb.thermo`, two at 0.001. The result has the
standard deviation of the squared lowest frequency over the six, and how many pairs of free energies the stated
uncertainty covers.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from sciagent.chemistry.molecule import parse_molecule
from sciagent_simulators.starting_geometry import GeometryProtocol, prepare
from sciagent_simulators.tblite_engine import relax
from sciagent_simulators.thermochemistry.ideal_gas_and_symmetry_number import Conditions, thermal
from sciagent_simulators.thermochemistry.normal_modes_and_minimum_search import normal_modes, soft_mode_scatter
from sciagent_simulators.thermochemistry.tblite_hessian import tblite_hessian

MOLECULES = [
    "C1CCOC1",
    "C1CCCC1",
    "O=C1CCCC1",
    "Cc1ccccc1",
    "Cc1ccncc1",
    "CC(N)=O",
    "CC(C)=O",
    "CC#CC",
    "c1ccccc1",
    "C1CCC1",
    "O=C1CCCO1",
    "C1CCNC1",
    "COC(C)=O",
    "CCO",
    "CCCC",
    "NCCO",
    "C=CC",
    "COC",
    "c1ccc(-c2ccccc2)cc1",
    "OCCO",
    "C=CC=O",
    "c1ccoc1",
    "C1CCCCC1",
    "CS(C)=O",
    "CN(C)C=O",
    "Cc1ccccc1C",
    "FC(F)(F)c1ccccc1",
    "CCCCO",
]
SAME = 0.002  # eV; relaxations that end further above the lowest ended at another minimum
SOFT = 50.0  # cm^-1
RIGID = 0.002  # eV, the uncertainty of the class for a free energy


def runs(smiles: str, tolerances: Sequence[float] = (0.005, 0.005, 0.005, 0.005, 0.001, 0.001)) -> list[dict[str, Any]]:
    """Returns the lowest frequency (cm^-1), energy, free energy and its stated uncertainty (eV) of each relaxation."""
    molecule = parse_molecule(smiles)
    protocol = GeometryProtocol()
    graph = molecule.mol, molecule.charge, molecule.multiplicity
    first, _ = prepare(*graph, protocol, protocol.seed(molecule.key, 0))
    rng = np.random.default_rng(1)
    found = []
    for k, fmax in enumerate(tolerances):
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        turn *= np.sign(np.linalg.det(turn))
        moved = first.positions + rng.normal(size=first.positions.shape) * (0.02 if k != 4 else 0.0)
        start = first if k == 0 else first.moved(moved @ turn)
        end, result = relax(start, fmax=fmax, max_steps=1500)
        frequencies = normal_modes(end, tblite_hessian(end, accuracy=0.05)).frequencies
        positive = np.maximum(np.abs(frequencies), 1.0)
        gibbs = result.energy + thermal(end, positive, Conditions(), 1).gibbs(298.15)
        stated = math.hypot(soft_mode_scatter(positive, 298.15).gibbs, RIGID)
        found.append({"lowest": float(frequencies[0]), "energy": result.energy, "gibbs": gibbs, "uncertainty": stated})
    return found


def summary(rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Returns the root mean square of the scatter of squared frequencies, cm^-2, and the share of pairs of free
    energies that the uncertainty covers: of all molecules, and of those with a mode below SOFT."""
    scatters = []
    covered = list[bool]()
    soft = list[bool]()
    for found in rows.values():
        lowest = min(row["energy"] for row in found)
        same = [row for row in found if row["energy"] < lowest + SAME]
        scatters.append(stdev(math.copysign(row["lowest"] ** 2, row["lowest"]) for row in same))
        for one, other in combinations(same, 2):
            width = math.hypot(one["uncertainty"], other["uncertainty"])
            covered.append(abs(one["gibbs"] - other["gibbs"]) <= width)
            if abs(one["lowest"]) < SOFT:
                soft.append(covered[-1])
    noise = math.sqrt(fmean(scatter**2 for scatter in scatters))
    return {"molecules": len(rows), "pairs": len(covered), "noise_cm^-2": noise, "covered": fmean(covered)} | (
        {"covered_soft": fmean(soft)} if soft else {}
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--smiles", nargs="*", default=MOLECULES)
    given = parser.parse_args(arguments)
    rows = {smiles: runs(smiles) for smiles in given.smiles}
    result = summary(rows) | {"rows": rows}
    given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps({name: value for name, value in result.items() if name != "rows"}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
