"""How far energies of metals lie from those of a dense mesh of k-points, for the meshes of `gpaw.bands`.

python -m benchmarks.crystals.metals --out benchmarks/crystals/metals.json    about ten minutes of a core

Each metal is computed with two cells that differ by 1.5 %, since the error of a mesh changes with the cell, and with
the plane waves of `standard`. Errors are distances from mesh `DENSE`, in eV per atom.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ase.build import bulk

from benchmarks.crystals.solids import run
from sciagent_simulators.periodic.gpaw_calculation_and_band_gap import PROTOCOLS

METALS = {"Na": ("bcc", 4.20), "Al": ("fcc", 4.04), "Cu": ("fcc", 3.63), "Pd": ("fcc", 3.94)}
"""{metal: (structure, edge of the cubic cell in angstrom)}; primitive cells have one atom."""
LARGER = 1.015
"""Edge of the second cell over that of the first one."""
MESHES = (1.2, 2.5, 3.5, 4.5)
"""k-points per 1/angstrom: those of `fast` and `standard`, and two more."""
DENSE = 6.0


def energy(metal: str, edge: float, mesh: float) -> float:
    """Returns the energy of an atom, in eV."""
    atoms = bulk(metal, METALS[metal][0], a=edge)
    return run(atoms, replace(PROTOCOLS["standard"], mesh=mesh), has_bands=False).energy


def root_mean_squares(errors: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Returns the root mean square of the errors, in eV per atom, by mesh."""
    by_mesh = {f"{mesh:g}": [found[f"{mesh:g}"] ** 2 for found in errors.values()] for mesh in MESHES}
    return {mesh: round(math.sqrt(sum(squares) / len(squares)), 4) for mesh, squares in by_mesh.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metals", nargs="*", default=list(METALS))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    errors = json.loads(given.out.read_text())["errors"] if given.out.exists() else {}
    for metal in given.metals:
        for edge in (METALS[metal][1], METALS[metal][1] * LARGER):
            dense = energy(metal, edge, DENSE)
            found = {f"{mesh:g}": round(energy(metal, edge, mesh) - dense, 5) for mesh in MESHES}
            errors[f"{metal} {edge:.3f}"] = found
            content = {"root_mean_squares": root_mean_squares(errors), "errors": errors}
            given.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
