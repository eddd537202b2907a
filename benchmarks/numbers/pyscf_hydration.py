"""Hydration free energies of pyscf.solvation (SMD) against experiment: writes a file after each solute.

python benchmarks/numbers/pyscf_hydration.py: def2-SVP, pyscf_hydration.json; 12 solutes, three minutes on one core.
python benchmarks/numbers/pyscf_hydration.py diffuse: def2-SVPD, pyscf_hydration_diffuse.json; about eight minutes.
"""

from __future__ import annotations

import sys

from agreement import agreement, keep, table
from pyscf_runs import finding

from sciagent_verifiers.high_fidelity.pyscf_solvation import PyscfSolvation

SETTINGS = {"functional": "B3LYP", "basis": "def2-SVP", "grid": 2, "spin_check": "off"}
KCAL = 23.060547830619  # kcal/mol in one eV


def main() -> None:
    diffuse = "diffuse" in sys.argv
    command = "python benchmarks/numbers/pyscf_hydration.py" + (" diffuse" if diffuse else "")
    verifier = PyscfSolvation(SETTINGS | ({"basis": "def2-SVPD"} if diffuse else {}))
    file = f"pyscf_hydration{'_diffuse' if diffuse else ''}.json"
    rows = []
    for row in table("hydration_small.csv"):
        found, seconds = finding(verifier, row["smiles"])
        rows.append(
            {
                "name": row["name"],
                "experiment": float(row["value"]),
                "SMD": round(found["solvation_free_energy"] * KCAL, 2),
                "core_seconds": seconds,
            }
        )
        done = {"unit": "kcal/mol", "level": verifier.settings.level.label, "rows": rows}
        if len(rows) > 2:
            done["summary"] = agreement([r["SMD"] for r in rows], [r["experiment"] for r in rows])
        keep(file, command, done, ("pyscf", "rdkit", "tblite"))


if __name__ == "__main__":
    main()
