"""Energy differences of conformers by SO3LR, GFN2-xTB and MMFF94 against wB97X-D3(BJ)/def2-TZVP.

OMP_NUM_THREADS=1 python -m benchmarks.conformers.run [--rows ROWS] [--out RESULT]

It takes about 25 minutes on one core. A molecule is a line of ROWS, written when it is done, so that a run that was
stopped goes on.

Conformers: up to three lowest distinct ones of ETKDGv3 and MMFF94, or the two of TURNED, where embedding finds one;
SO3LR and GFN2-xTB had no part in the choice.
SO3LR and GFN2-xTB relax each from the same start; a method's energy is that of its own minimum. The reference has no
geometries of its own, which would take hours: it is the lower of the two single points on the minima of SO3LR and of
GFN2-xTB. By the variational principle the lower one is nearer to the functional's own minimum, whichever method it
comes from. A conformer that one of the two turns into another is left out, and counted.

Statistics: all pairs of conformers of one molecule. A pair is in the right order if the sign of the difference is
right; pairs closer than CLOSE in the reference are not counted there. Intervals: bootstrap over molecules, 95 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent_simulators.conformer_search_and_averages import KCAL, Symmetry, distinct, symmetry
from sciagent_simulators.geometry_and_its_checks import Geometry, bonds_of, check_bonds
from sciagent_simulators.low_conformers_and_search_spread import is_achiral
from sciagent_simulators.molecular_potentials.molecular_potential_base_and_registry import (
    MolecularPotential,
    load_molecular_potential,
)
from sciagent_simulators.molecular_potentials.relax_molecule import relax_molecule
from sciagent_simulators.molecular_potentials.so3lr import So3lr, double_precision
from sciagent_simulators.starting_geometry import embed
from sciagent_simulators.tblite_engine import HARTREE, relax

MOLECULES = {
    "ethanol": "CCO",
    "butane": "CCCC",
    "1,2-dichloroethane": "ClCCCl",
    "glyoxal": "O=CC=O",
    "methyl formate": "COC=O",
    "butadiene": "C=CC=C",
    "1,2-difluoroethane": "FCCF",
    "ethylene glycol": "OCCO",
    "2-aminoethanol": "NCCO",
    "2-fluoroethanol": "OCCF",
    "ethanethiol": "CCS",
    "ethylphosphine": "CCP",
    "propanal": "CCC=O",
    "N-methylformamide": "CNC=O",
    "2-chloroethanol": "OCCCl",
    "1-propanol": "CCCO",
    "methoxyethane": "CCOC",
    "2-mercaptoethanol": "OCCS",
    "ethylamine": "CCN",
    "glycine": "NCC(=O)O",
    "acrylic acid": "C=CC(=O)O",
    "dimethoxymethane": "COCOC",
}
FOLDER = Path(__file__).parent
TURNED = {
    "glyoxal": ((0, 1, 2, 3), (180.0, 0.0)),
    "methyl formate": ((0, 1, 2, 3), (0.0, 180.0)),
    "butadiene": ((0, 1, 2, 3), (180.0, 35.0)),
    "N-methylformamide": ((0, 1, 2, 3), (0.0, 180.0)),
    "acrylic acid": ((0, 1, 2, 3), (0.0, 180.0)),
}
"""{molecule: (dihedral, degrees of its conformers)}, where embedding finds one conformer only."""
METHODS = ("SO3LR", "GFN2-xTB", "MMFF94", "SO3LR, cut-off 12")
REFERENCE = "wB97X-D3(BJ)/def2-TZVP"
CONFORMERS = 3
EMBEDDED = 30
SEED = 7
SAME_SHAPE = 0.4
"""Angstrom; minima of two methods from one start that differ by more are two conformers."""
CLOSE = 0.2
"""kcal/mol; the reference itself is not surer than this."""
RESAMPLES = 4000


def starts(name: str, molecule: Molecule, shape: Symmetry) -> tuple[list[Geometry], list[float]]:
    """Returns the lowest distinct conformers of the force field, and their energies, kcal/mol."""
    if name in TURNED:
        return turned(MOLECULES[name], *TURNED[name])
    geometries, _, energies = embed(molecule.mol, 0, 1, EMBEDDED, SEED)
    chosen, _ = distinct(geometries, energies * KCAL, shape)
    return [geometries[k] for k in chosen[:CONFORMERS]], [float(energies[k]) for k in chosen[:CONFORMERS]]


def turned(smiles: str, dihedral: Sequence[int], angles: Sequence[float]) -> tuple[list[Geometry], list[float]]:
    """Returns conformers that differ in a dihedral, relaxed in MMFF94, and their energies, kcal/mol."""
    from rdkit import Chem
    from rdkit.Chem import AllChem, rdForceFieldHelpers, rdMolTransforms

    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    numbers = tuple(atom.GetAtomicNum() for atom in molecule.GetAtoms())
    AllChem.EmbedMolecule(molecule, randomSeed=SEED)
    geometries = []
    energies = []
    for angle in angles:
        rdMolTransforms.SetDihedralDeg(molecule.GetConformer(), *dihedral, angle)
        [(_, energy)] = rdForceFieldHelpers.MMFFOptimizeMoleculeConfs(molecule, maxIters=2000)
        geometries.append(Geometry(numbers, np.array(molecule.GetConformer().GetPositions())))
        energies.append(float(energy))
    return geometries, energies


def reference(geometries: Sequence[Geometry]) -> list[float]:
    """Returns the energies of one conformer's geometries, eV. Each starts from the density of the one before."""
    from pyscf import dft, gto

    energies = []
    density = None
    for geometry in geometries:
        atoms = list(zip(geometry.numbers, geometry.positions.tolist(), strict=True))
        mole = gto.M(atom=atoms, basis="def2-TZVP", verbose=0)
        field = dft.RKS(mole, xc="wb97x-d3bj").density_fit()
        field.conv_tol = 1e-8
        energies.append(float(field.kernel(dm0=density)) * HARTREE)
        if not field.converged:
            raise RuntimeError("the SCF did not converge")
        density = field.make_rdm1()
    return energies


def short_range() -> MolecularPotential:
    """Returns SO3LR with the long-range cut-off that its package has by default."""
    from so3krates_torch.calculator.so3 import SO3LRCalculator

    with double_precision():
        return So3lr(SO3LRCalculator(r_max_lr=12.0, default_dtype="float64"))


def conformer(
    start: Geometry, bonds: Sequence[tuple[int, int]], shape: Symmetry, potentials: dict[str, MolecularPotential]
) -> tuple[dict[str, float], list[Geometry]]:
    """Returns the energies of the methods at their own minima, eV, and the minima of SO3LR and GFN2-xTB.

    Raises SimulatorError if a relaxation fails or changes a bond, and ValueError if two minima differ in shape."""
    energies = {}
    minima = []
    for name, potential in potentials.items():
        relaxed = relax_molecule(potential, start, fmax=0.01)
        energies[name] = relaxed.values.energy
        minima.append(relaxed.geometry)
    tight_binding, result = relax(start, fmax=0.01)
    energies["GFN2-xTB"] = result.energy
    minima.append(tight_binding)
    for minimum in minima:
        check_bonds(minimum, bonds)
        apart = shape.distance(minima[0].positions, minimum.positions)
        if apart > SAME_SHAPE:
            raise ValueError(f"minima of two methods are {apart:.2f} angstrom apart")
    return energies, [minima[0], tight_binding]


def row(name: str, potentials: dict[str, MolecularPotential]) -> dict[str, Any]:
    """Returns one molecule: energies of its conformers, kcal/mol above the first, by method and reference."""
    began = time.process_time()
    molecule = parse_molecule(MOLECULES[name])
    shape = replace(symmetry(molecule.mol), reflections=is_achiral(molecule.mol))
    bonds = bonds_of(molecule.mol)
    geometries, force_field = starts(name, molecule, shape)
    table: dict[str, list[float]] = {method: [] for method in (*METHODS, REFERENCE, "on SO3LR", "on GFN2-xTB")}
    minima: list[Geometry] = []
    left_out = []
    for start, mmff in zip(geometries, force_field, strict=True):
        try:
            energies, both = conformer(start, bonds, shape, potentials)
        except Exception as error:  # noqa: BLE001  the row says what happened
            left_out.append(str(error))
            continue
        if any(shape.distance(both[0].positions, other.positions) < SAME_SHAPE / 2 for other in minima):
            left_out.append("the same minimum as another start")
            continue
        minima.append(both[0])
        points = reference(both)
        energies |= {"MMFF94": mmff * KCAL, REFERENCE: min(points), "on SO3LR": points[0], "on GFN2-xTB": points[1]}
        for method, energy in energies.items():
            table[method].append(energy)
    above = {
        method: [round((energy - values[0]) / KCAL, 3) for energy in values]
        for method, values in table.items()
        if values
    }
    lowering = [round((a - b) / KCAL, 3) for a, b in zip(table["on SO3LR"], table["on GFN2-xTB"], strict=True)]
    seconds = round(time.process_time() - began)
    return {
        "name": name, "smiles": MOLECULES[name], "energies": above, "so3lr_geometry_above_gfn2": lowering,
        "left_out": left_out, "core_seconds": seconds,
    }  # fmt: skip


def differences(rows: Sequence[dict[str, Any]], method: str) -> list[NDArray[np.float64]]:
    """Returns the differences of all pairs of conformers, kcal/mol, an array for each molecule."""
    return [np.array([row["energies"][method][j] - row["energies"][method][i] for i, j in _pairs(row)]) for row in rows]


def _pairs(row: dict[str, Any]) -> list[tuple[int, int]]:
    return list(combinations(range(len(row["energies"].get(REFERENCE, ()))), 2))


def mean_absolute_error(found: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    return float(np.abs(found - truth).mean())


def right_order(found: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Returns the share of pairs whose sign is right, among those that the reference tells apart."""
    told_apart = np.abs(truth) > CLOSE
    return float((np.sign(found) == np.sign(truth))[told_apart].mean())


def rank_correlation(found: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Returns Spearman's correlation of the differences, each taken in both directions: no order is preferred."""
    from scipy.stats import spearmanr

    return float(spearmanr(np.concatenate([found, -found]), np.concatenate([truth, -truth])).statistic)


STATISTICS: dict[str, Callable[[NDArray[np.float64], NDArray[np.float64]], float]] = {
    "mean_absolute_error": mean_absolute_error, "right_order": right_order, "rank_correlation": rank_correlation,
}  # fmt: skip


def summary(rows: Sequence[dict[str, Any]], resamples: int = RESAMPLES) -> dict[str, Any]:
    """Returns the statistics of each method and of SO3LR minus GFN2-xTB, each with its interval."""
    rows = [row for row in rows if _pairs(row)]
    truth = differences(rows, REFERENCE)
    found = {method: differences(rows, method) for method in METHODS}
    rng = np.random.default_rng(SEED)
    samples = rng.integers(len(rows), size=(resamples, len(rows)))
    result: dict[str, Any] = {"molecules": len(rows), "pairs": sum(len(part) for part in truth)}

    def over(method: str, name: str, chosen: Sequence[int]) -> float:
        statistic = STATISTICS[name]
        return statistic(np.concatenate([found[method][k] for k in chosen]), np.concatenate([truth[k] for k in chosen]))

    def interval(values: list[float]) -> list[float]:
        return [round(float(value), 3) for value in np.quantile(values, [0.025, 0.975])]

    every = range(len(rows))
    drawn = {
        (method, name): [over(method, name, sample) for sample in samples] for method in METHODS for name in STATISTICS
    }
    for method in METHODS:
        result[method] = {
            name: [round(over(method, name, every), 3), *interval(drawn[method, name])] for name in STATISTICS
        }
        errors = np.concatenate(found[method]) - np.concatenate(truth)
        result[method]["mean_error"] = round(float(errors.mean()), 3)
        result[method]["root_mean_square"] = round(float((errors**2).mean() ** 0.5), 3)
        result[method]["largest"] = round(float(np.abs(errors).max()), 3)
    result["SO3LR minus GFN2-xTB"] = {
        name: [
            round(over("SO3LR", name, every) - over("GFN2-xTB", name, every), 3),
            *interval([a - b for a, b in zip(drawn["SO3LR", name], drawn["GFN2-xTB", name], strict=True)]),
        ]
        for name in STATISTICS
    }
    return result


def read_rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=FOLDER / "rows.jsonl")
    parser.add_argument("--out", type=Path, default=FOLDER / "result.json")
    chosen = parser.parse_args()
    rows = read_rows(chosen.rows)
    done = {row["name"] for row in rows}
    missing = [name for name in MOLECULES if name not in done]
    if missing:
        import torch

        torch.set_num_threads(1)
        potentials = {"SO3LR": load_molecular_potential("so3lr"), "SO3LR, cut-off 12": short_range()}
        for name in missing:
            new = row(name, potentials)
            rows.append(new)
            with chosen.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(new) + "\n")
            sys.stderr.write(f"{name}: {new['core_seconds']} core-seconds; left out: {new['left_out']}\n")
    result = {"reference": REFERENCE, "unit": "kcal/mol", "summary": summary(rows), "rows": rows}
    chosen.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
