"""Gradients that a relaxation takes from a GFN2-xTB geometry, with its Hessian and without: writes pyscf_relax.json.

python benchmarks/numbers/pyscf_relax.py, about six minutes on one core. PBE/def2-SVP, grid 2, 0.02 eV/angstrom.
geomeTRIC 1.1.1 took 6 steps on ethylene carbonate from the same kind of geometry, with its own criteria.
"""

from __future__ import annotations

import time
from typing import Any

from agreement import keep

from sciagent.errors import SimulatorError
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import DftSettings
from sciagent_simulators.pyscf_relax import relax
from sciagent_simulators.starting_geometry import GeometryProtocol, prepare

MOLECULES = {
    "water": "O",
    "methanol": "CO",
    "formic acid": "OC=O",
    "glyoxal": "O=CC=O",
    "ethylene carbonate": "O=C1OCCO1",
}
SETTINGS = DftSettings(functional="pbe", grid_level=2, spin_check="off")


def main() -> None:
    rows = []
    for name, smiles in MOLECULES.items():
        from rdkit import Chem

        protocol = GeometryProtocol()
        start, _ = prepare(Chem.MolFromSmiles(smiles), 0, 1, protocol, seed=1)
        row: dict[str, Any] = {"name": name, "smiles": smiles}
        for way, curvature in (("xtb_hessian", True), ("none", False)):
            if name == "ethylene carbonate" and not curvature:
                continue
            began = time.process_time()
            try:
                facts = relax(start, SETTINGS, curvature=curvature)[1]
                row[way] = {"steps": facts["dft_steps"], "fmax": round(facts["dft_fmax"], 4)}
            except SimulatorError as error:
                row[way] = {"reason": str(error.reason)}
            row[way]["core_seconds"] = round(time.process_time() - began, 1)
        rows.append(row)
        keep(
            "pyscf_relax.json",
            "python benchmarks/numbers/pyscf_relax.py",
            {"level": "PBE/def2-SVP, grid 2", "fmax": "0.02 eV/angstrom", "rows": rows},
            ("pyscf", "rdkit", "tblite"),
        )


if __name__ == "__main__":
    main()
