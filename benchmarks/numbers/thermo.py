"""Frequencies and reaction free energies of xtb.thermo and pyscf.thermo against experiment: writes thermo.json.

python benchmarks/numbers/thermo.py, about ten minutes on one core; rows are written as they are computed. Frequencies
are harmonic, those of experiment are observed fundamentals (Shimanouchi, NSRDS-NBS 39, 1972), so computed values should
lie 3 to 5 percent above them. Reaction free energies are those of ideal gases at 298.15 K and 1 bar from the tables of
NIST-JANAF (4th ed., 1998; ethylene and ethane: NIST Chemistry WebBook), kJ/mol.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from agreement import keep
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

# stoichiometry by SMILES, and the experimental free energy, kJ/mol
REACTIONS: dict[str, tuple[dict[str, int], float]] = {
    "CO + H2O -> CO2 + H2": ({"[C-]#[O+]": -1, "O": -1, "O=C=O": 1, "[H][H]": 1}, -28.6),
    "N2 + 3 H2 -> 2 NH3": ({"N#N": -1, "[H][H]": -3, "N": 2}, -32.8),
    "C2H4 + H2 -> C2H6": ({"C=C": -1, "[H][H]": -1, "CC": 1}, -101.0),
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
    computed, observed = np.array(found.diagnostics["frequencies"]), np.array(FUNDAMENTALS[smiles], dtype=float)
    return {
        "level": level,
        "smiles": smiles,
        "computed": [round(float(f), 1) for f in computed],
        "mean_ratio": round(float((computed / observed).mean()), 4),
        "mean_absolute_error": round(float(np.abs(computed - observed).mean()), 1),
        "largest_error": round(float(np.abs(computed - observed).max()), 1),
        "core_seconds": seconds,
    }


def reaction_rows(level: str, energies: dict[tuple[str, str], float]) -> list[dict[str, Any]]:
    rows = []
    for name, (members, experiment) in REACTIONS.items():
        for smiles in members:
            if (level, smiles) not in energies:
                found, _ = one(LEVELS[level], smiles)
                value = next(m for m in found.measured if m.property == "gibbs_free_energy")
                energies[level, smiles] = value.quantity.value
        computed = KJ * sum(n * energies[level, smiles] for smiles, n in members.items())
        rows.append({"level": level, "reaction": name, "computed": round(computed, 1), "experiment": experiment})
    return rows


def main() -> None:
    command = "python benchmarks/numbers/thermo.py"
    done: dict[str, Any] = {"frequencies": [], "reactions": []}
    energies: dict[tuple[str, str], float] = {}
    for level in REACTION_LEVELS:
        done["reactions"] += reaction_rows(level, energies)
        keep("thermo.json", command, done, ("pyscf", "tblite", "ase", "rdkit"))
    for level in FREQUENCY_LEVELS:
        for smiles in FUNDAMENTALS:
            done["frequencies"].append(frequency_row(level, smiles))
            keep("thermo.json", command, done, ("pyscf", "tblite", "ase", "rdkit"))


if __name__ == "__main__":
    main()
