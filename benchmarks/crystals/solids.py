"""GPAW's cells, bulk moduli and gaps against all-electron PBE, one version beside another, and repeatability.

python -m benchmarks.crystals.solids --out benchmarks/crystals/solids.json    about five minutes of a core for a version
python -m benchmarks.crystals.solids --copper --out benchmarks/crystals/solids.json    about five more

It runs with the GPAW that sciagent finds; for another one name its Python in SCIAGENT_GPAW and run it again: results
are kept by version in the same file. Repeatability is the root mean square of what shifts of the origin by a random
vector and another order of the atoms change, protocol `fast`.

`--copper` computes copper alone, with more plane waves and k-points, by two sets of PAW data: the one that GPAW ships,
with 11 valence electrons, and the one of the setting `semicore: [Cu]`, with 3s and 3p in the valence, too.

References: Si, Al, Cu: WIEN2k values of the Delta project (Lejaeghere et al., Science 351, aad3000 (2016)), as ASE has
them; NaCl, MgO: WIEN2k, PBE (Haas, Tran, Blaha, Phys. Rev. B 79, 085104 (2009)), to the hundredth of an angstrom.
GPAW's own published values for copper: github.com/molmod/DeltaCodesDFT, history.tar.gz, GPAW-history.txt, the row of Cu
in the first table (GPAW 0.10, PAW data 0.9, plane waves): 12.0864 angstrom**3 per atom and 137.36 GPa.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ase.build import bulk
from ase.eos import EquationOfState

from sciagent_simulators.periodic.gpaw_calculation_and_band_gap import PROTOCOLS, Bands, Protocol, compute
from sciagent_simulators.periodic.k_points_and_elements import SEMICORE

GPA = 160.2177  # eV/angstrom**3
SOLIDS: dict[str, tuple[str, float, float, float | None]] = {
    "Si": ("diamond", 5.469, (8 * 20.453) ** (1 / 3), 88.545),
    "Al": ("fcc", 4.040, (4 * 16.4796) ** (1 / 3), 78.077),
    "Cu": ("fcc", 3.629, (4 * 11.9511) ** (1 / 3), 141.335),
    "NaCl": ("rocksalt", 5.70, 5.70, None),
    "MgO": ("rocksalt", 4.26, 4.26, None),
}
"""{solid: (structure, cell to begin with, reference of the cell in angstrom, of the bulk modulus in GPa)}."""
GAPS = {"Si": 5.469, "MgO": 4.26, "NaCl": 5.70}
SCALES = (0.97, 0.985, 1.0, 1.015, 1.03)
SHIFTS = 3
CONVERGED = Protocol(cutoff=700, mesh=6, lines=6)
"""The resolution of `--copper`: 18 x 18 x 18 k-points."""
PUBLISHED = 12.0864, 137.36
"""GPAW's own published volume of copper, angstrom**3 per atom, and its bulk modulus, GPa."""


def run(atoms: Any, protocol: Protocol, has_bands: bool, valence: Mapping[str, int] | None = None) -> Bands:
    with tempfile.TemporaryDirectory() as folder:
        (kept := Path(folder) / "kept").mkdir()
        return compute(atoms, protocol, Path(folder) / "gpaw", kept, valence=valence, has_bands=has_bands)


def equation_of_state(
    name: str, protocol: Protocol = PROTOCOLS["standard"], valence: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Returns the cell in angstrom and the bulk modulus in GPa of a cubic solid, and their errors in per cent.

    All cells have the mesh of the middle one: the density of k-points is scaled with the cell.
    """
    structure, guess, _, _ = SOLIDS[name]
    cells = [bulk(name, structure, a=guess * scale) for scale in SCALES]
    protocols = [replace(protocol, mesh=protocol.mesh * scale) for scale in SCALES]
    results = [run(atoms, its_own, False, valence) for atoms, its_own in zip(cells, protocols, strict=True)]
    volume, _, modulus = EquationOfState(
        [atoms.get_volume() for atoms in cells], [result.energy for result in results], "birchmurnaghan"
    ).fit()
    per_cell = 8 if structure == "diamond" else 4
    a = (volume * per_cell / (2 if structure == "diamond" else 1)) ** (1 / 3)
    return against_reference(name, float(a), float(modulus) * GPA) | {"gpaw": results[0].versions["gpaw"]}


def against_reference(name: str, a: float, modulus: float) -> dict[str, Any]:
    """Returns the cell, the bulk modulus in GPa, and their errors in per cent."""
    _, _, cell, stiffness = SOLIDS[name]
    found = {"a": round(a, 4), "error_percent": round(100 * (a / cell - 1), 3), "B": round(modulus, 2)}
    if stiffness is not None:
        found["B_error_percent"] = round(100 * (found["B"] / stiffness - 1), 2)
    return found


def copper() -> tuple[str, dict[str, Any]]:
    """Returns the version of GPAW and the results for copper with both sets of data, beside the published ones."""
    shipped = equation_of_state("Cu", CONVERGED)
    semicore = equation_of_state("Cu", CONVERGED, {"Cu": SEMICORE["Cu"]})
    volume, modulus = PUBLISHED
    published = against_reference("Cu", (4 * volume) ** (1 / 3), modulus)
    version = shipped.pop("gpaw")
    assert semicore.pop("gpaw") == version
    return version, {"shipped": shipped, "semicore": semicore, "published": published}


def gaps(name: str) -> dict[str, Any]:
    """Returns gaps of both protocols, in eV."""
    atoms = bulk(name, SOLIDS[name][0], a=GAPS[name])
    found = {}
    for label, protocol in PROTOCOLS.items():
        gap = run(atoms, protocol, True).gap
        assert gap is not None
        found[label] = round(gap.value, 4)
    return found


def repeatability() -> dict[str, float]:
    """Returns the largest root mean square over the solids of GAPS, in eV."""
    rng = np.random.default_rng(1)
    spreads: dict[str, list[float]] = {"band_gap": [], "total_energy": []}
    for name, a in GAPS.items():
        values = []
        for shift in range(SHIFTS):
            atoms = bulk(name, SOLIDS[name][0], a=a)
            if shift:
                atoms.positions += rng.uniform(0, 1, 3) @ atoms.cell.array
                atoms = atoms[::-1]
            bands = run(atoms, PROTOCOLS["fast"], True)
            assert bands.gap is not None
            values.append((bands.gap.value, bands.energy))
        for key, column in zip(spreads, np.std(values, axis=0, ddof=1), strict=True):
            spreads[key].append(float(column))
    return {key: round(max(column), 5) for key, column in spreads.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--copper", action="store_true", help="compute only copper, with more plane waves and k-points")
    given = parser.parse_args()
    out: Path = given.out
    results = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    if given.copper:
        version, found = copper()
        results.setdefault(version, {})["copper_converged"] = found
        out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        return 0
    solids = {name: equation_of_state(name) for name in SOLIDS}
    version = solids["Si"].pop("gpaw")
    results[version] = {"solids": solids, "gaps": {name: gaps(name) for name in GAPS}}
    out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    results[version]["repeatability"] = repeatability()
    out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
