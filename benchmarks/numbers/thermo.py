"""Frequencies and reaction free energies of xtb.thermo and pyscf.thermo against experiment: writes thermo.json.

python benchmarks/numbers/thermo.py, about 20 minutes on one core. Rows are written as they are computed, and rows that
the file has are not computed again; remove it to begin anew. Frequencies are harmonic, those of experiment are observed
fundamentals, so computed values should lie 3 to 5 percent above them. Reaction free energies are those of ideal gases
at 298.15 K and 1 bar, kJ/mol.

An isodesmic reaction keeps the number of bonds of each type, so that errors of the functional cancel; the other three
reactions show what remains where they do not.

Sources: fundamentals: Shimanouchi, NSRDS-NBS 39 (1972), as in the NIST Chemistry WebBook. H(298.15 K) - 298.15 K x
S(298.15 K) of the gases: the polynomials of McBride, Gordon, Reno, NASA TM-4513 (1993), whose enthalpies are those of
formation; they are in Cantera's file nasa_gas.yaml.
"""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
from agreement import HERE, keep
from pyscf_runs import one

from sciagent_verifiers.high_fidelity.pyscf_thermo import PyscfThermo
from sciagent_verifiers.simulation.xtb_thermo import XtbThermo

KJ = 96.48533212  # kJ/mol in one eV
BAR = 1 / 1.01325  # atm

FUNDAMENTALS = {
    "O": (1595, 3657, 3756),
    "N": (950, 1627, 1627, 3337, 3444, 3444),
    "c1ccccc1": (
        410, 410, 606, 606, 673, 703, 849, 849, 975, 975, 992, 995, 1010, 1038, 1038, 1150, 1178, 1178, 1310, 1326,
        1486, 1486, 1596, 1596, 3047, 3047, 3062, 3063, 3063, 3068,
    ),
}  # fmt: skip

GIBBS = {  # kJ/mol
    "[H][H]": -38.96, "N#N": -57.13, "[C-]#[O+]": -169.46, "O": -298.12, "N": -103.41, "O=C=O": -457.25,
    "C": -130.17, "C=O": -173.80, "C#C": 168.30, "C=C": -12.89, "CC": -152.19, "CC=O": -244.89, "CC#C": 110.44,
}  # fmt: skip

# stoichiometry by SMILES; the first two are isodesmic
REACTIONS: dict[str, dict[str, int]] = {
    "CH3CHO + CH4 -> C2H6 + HCHO": {"CC=O": -1, "C": -1, "CC": 1, "C=O": 1},
    "CH3CCH + CH4 -> C2H6 + C2H2": {"CC#C": -1, "C": -1, "CC": 1, "C#C": 1},
    "CO + H2O -> CO2 + H2": {"[C-]#[O+]": -1, "O": -1, "O=C=O": 1, "[H][H]": 1},
    "N2 + 3 H2 -> 2 NH3": {"N#N": -1, "[H][H]": -3, "N": 2},
    "C2H4 + H2 -> C2H6": {"C=C": -1, "[H][H]": -1, "CC": 1},
}

XTB: dict[str, Any] = {"pressure": BAR}
DFT: dict[str, Any] = {"pressure": BAR, "grid": 3, "spin_check": "off", "geometry": {"conformers": 1}}
LEVELS = {
    "GFN2-xTB": XtbThermo(XTB),
    "PBE0/def2-SVP": PyscfThermo(DFT | {"functional": "PBE0", "basis": "def2-SVP"}),
    "PBE0/def2-TZVP": PyscfThermo(DFT | {"functional": "PBE0", "basis": "def2-TZVP"}),
}
FREQUENCY_LEVELS = "GFN2-xTB", "PBE0/def2-SVP"
REACTION_LEVELS = "GFN2-xTB", "PBE0/def2-TZVP"


def frequency_row(level: str, smiles: str) -> dict[str, Any]:
    found, seconds = one(LEVELS[level], smiles)
    computed = np.array(found.diagnostics["frequencies"])
    observed = np.array(FUNDAMENTALS[smiles], dtype=float)
    return {
        "level": level,
        "smiles": smiles,
        "computed": [round(float(f), 1) for f in computed],
        "mean_ratio": round(float((computed / observed).mean()), 4),
        "mean_absolute_error": round(float(np.abs(computed - observed).mean()), 1),
        "largest_error": round(float(np.abs(computed - observed).max()), 1),
        "core_seconds": seconds,
    }


def reaction_row(level: str, name: str, energies: dict[tuple[str, str], float]) -> dict[str, Any]:
    """Returns the row of a reaction. energies: free energies by level and SMILES, eV, to which new ones are added."""
    members = REACTIONS[name]
    for smiles in members:
        if (level, smiles) not in energies:
            found, _ = one(LEVELS[level], smiles)
            value = next(m for m in found.measured if m.property == "gibbs_free_energy")
            energies[level, smiles] = value.quantity.value
    computed = KJ * sum(n * energies[level, smiles] for smiles, n in members.items())
    experiment = sum(n * GIBBS[smiles] for smiles, n in members.items())
    return {"level": level, "reaction": name, "computed": round(computed, 1), "experiment": round(experiment, 1)}


def main() -> None:
    earlier = json.loads((HERE / "thermo.json").read_text()) if (HERE / "thermo.json").exists() else {}
    rows: dict[str, list[dict[str, Any]]] = {kind: earlier.get(kind, []) for kind in ("frequencies", "reactions")}
    present = {(row["level"], row.get("smiles") or row["reaction"]) for kind in rows.values() for row in kind}
    energies: dict[tuple[str, str], float] = {}
    tasks = [("reactions", *task) for task in product(REACTION_LEVELS, REACTIONS)]
    tasks += [("frequencies", *task) for task in product(FREQUENCY_LEVELS, FUNDAMENTALS)]
    for kind, level, what in tasks:
        if (level, what) not in present:
            new = reaction_row(level, what, energies) if kind == "reactions" else frequency_row(level, what)
            rows[kind].append(new)
            keep("thermo.json", "python benchmarks/numbers/thermo.py", rows, ("pyscf", "tblite", "ase", "rdkit"))


if __name__ == "__main__":
    main()
