"""Ionisation energies and electron affinities of xtb.ip_ea against experiment: writes xtb_ip_ea.json.

python benchmarks/numbers/xtb_ip_ea.py, 53 values, about one minute on one core.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from agreement import agreement, keep, table

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Context
from sciagent_verifiers.simulation.xtb_ip_ea import XtbIpEa

METHODS = ("IPEA1-xTB", "GFN2-xTB")
NAMES = {"ip": "ionization_energy", "ea": "electron_affinity", "resonance": "electron_affinity"}


def main() -> None:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        context = Context(scratch=Path(folder), checkpoint=Path(folder))
        for row in table("ionisation.csv"):
            molecule = parse_molecule(row["smiles"])
            out: dict[str, Any] = {"name": row["name"], "kind": row["kind"], "experiment": float(row["value"])}
            for method in METHODS:
                ion = "cation" if row["kind"] == "ip" else "anion"
                verifier = XtbIpEa({"method": method, "ions": ion, "adiabatic": row["kind"] != "resonance"})
                found = next(iter(verifier.verify([molecule], context)))
                out[method] = {q.property.split("_")[0]: round(q.quantity.value, 3) for q in found.measured} or str(
                    found.reason
                )
            rows.append(out)
    summary = {
        f"{kind} {method} {which}": agreement(
            [row[method][which] for row in chosen], [row["experiment"] for row in chosen]
        )
        for kind in NAMES
        for method in METHODS
        for which in ("vertical", "adiabatic")
        if (chosen := [row for row in rows if row["kind"] == kind and which in row[method]])
    }
    keep("xtb_ip_ea.json", "python benchmarks/numbers/xtb_ip_ea.py", {"unit": "eV", "summary": summary, "rows": rows})


if __name__ == "__main__":
    main()
