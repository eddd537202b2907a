"""Measures the saving of batches of crystals: one verification each, or one call; evaluations by number and size.

    python -m benchmarks.crystals.batches --out benchmarks/crystals/batches.json
    python -m benchmarks.crystals.batches --part repeatability --out benchmarks/crystals/relaxation_repeatability.json
    python -m benchmarks.crystals.batches --part lattice --out benchmarks/crystals/lattice_repeatability.json
    python -m benchmarks.crystals.batches --part ranges --out benchmarks/crystals/modulus_ranges.json

`campaign`: 32 cells of 2 to 8 atoms are relaxed by `mlff.relax` in the sandbox, as a campaign does it: one process for
each, or one process for all; core-seconds are those that the host measures, with the start of the processes, and the
median of seven runs (`--runs`). `without_symmetry` is the same with all atoms displaced.
`ase`: the same one by one with ASE and CHGNet's own calculator, without processes.
`relaxing`: the same cells relaxed in this process, one by one and in one batch, in core-seconds (seconds on a GPU).
`evaluation`: core-seconds (seconds on a GPU) for energies, forces and stresses of n cells in one call.
`repeatability`: the spread of the relaxed values over starts with strains of 3 % and displacements of 0.05 angstrom.
`lattice`: how often the uncertainties of lengths hold that `mlff.relax` states, for hard and soft crystals.
`ranges`: bulk moduli by the range of the volumes that are fitted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pymatgen.core import Lattice, Structure

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated
from sciagent.verification.sandbox.host import HostResult, Limits, Request, Worker
from sciagent_simulators.potentials.potential_base_and_registry import load_potential
from sciagent_simulators.potentials.relax_and_equation_of_state import STRAINS, StateFit, equations_of_state, fit, relax
from sciagent_verifiers.simulation.mlff_relax import OF_LAST_STRAIN, SMALLEST_ERROR

CELLS = (
    "perovskite Cs Sn I, perovskite Cs Pb Br, perovskite K Mg F, perovskite Rb Ca Cl, perovskite Sr Ti O, "
    "perovskite Ba Zr O, perovskite Cs Ge Cl, perovskite K Ta O, rocksalt Na Cl, rocksalt Mg O, rocksalt K Br, "
    "rocksalt Pb S, CsCl Cs Cl, CsCl Tl Br, zincblende Zn S, zincblende Ga As, zincblende Cd Te, wurtzite Zn O, "
    "wurtzite Al N, NiAs Fe S, fluorite Ca F, fluorite Zr O, antifluorite Li O, antifluorite Na S, rutile Ti O, "
    "rutile Sn O, rutile Mg F, CdI2 Cd I, CdI2 Ti S, Cu3Au Cu Au, BiI3 Bi I, BiI3 Sb I"
)
"""32 cells of 2 to 8 atoms in the shorthand of prototypes."""
REPEATED = ("rocksalt Na Cl", "rocksalt Mg O", "perovskite Sr Ti O", "rutile Ti O", "wurtzite Zn O", "CsCl Cs Cl")
ARAGONITE = "aragonite"
LATTICES = (
    *REPEATED, "diamond Si", "corundum Al O", "spinel Mg Al O", "quartz Si O", "orthorhombic-perovskite Ca Ti O",
    "orthorhombic-perovskite Cs Sn I", "orthorhombic-perovskite Cs Pb Br", "quartz Ge O", ARAGONITE,
)  # fmt: skip
RANGED = ("rocksalt Mg O", "zincblende Si C", "half-Heusler Ti Ni Sn")
STARTS = 4
MANY_STEPS = 500  # evaluations of a relaxation at most
DISPLACEMENT = 0.05  # angstrom
RUNS = 7


def crystals(count: int = 32, displacement: float = 0.0) -> list[Crystal]:
    """Returns the cells; with a displacement (standard deviation in angstrom) without symmetry."""
    cells = [crystal_of(text) for text in CELLS.split(", ")[:count]]
    return [displaced(cell, displacement, seed) for seed, cell in enumerate(cells)] if displacement else cells


def displaced(crystal: Crystal, displacement: float, seed: int) -> Crystal:
    structure = crystal.structure.copy()
    moves = np.random.default_rng(seed).normal(scale=displacement, size=(len(structure), 3))
    for place, move in enumerate(moves):
        structure.translate_sites(place, move, frac_coords=False)
    return crystal_from_structure(structure)


def crystal_of(text: str) -> Crystal:
    prototype, *symbols = text.split()
    return decorated(prototype, symbols)


def atoms_of(crystal: Crystal) -> Any:
    from pymatgen.io.ase import AseAtomsAdaptor

    return AseAtomsAdaptor.get_atoms(crystal.structure, msonable=False)


def campaign(model: str, count: int, runs: int, displacement: float = 0.0) -> dict[str, Any]:
    """Returns core-seconds of one verification each and of one batch, with the largest difference of energies."""
    cells = crystals(count, displacement)
    settings = {"model": model, "known_phases": "none", "fmax": 0.05}
    limits = Limits(wall_seconds=600, memory_mb=4000)
    with tempfile.TemporaryDirectory() as folder, Worker(Path(folder), preload=["mlff.relax"]) as worker:
        worker.run(Request("mlff.relax", settings, tuple(cells[:1]), limits))  # starts the zygote
        batches = list[list[HostResult]]()
        singles = list[list[HostResult]]()
        walls = list[list[float]]()
        for _ in range(runs):
            batch, batch_wall = _run(worker, Request("mlff.relax", settings, tuple(cells), limits, together=True))
            one_by_one = [_run(worker, Request("mlff.relax", settings, (cell,), limits)) for cell in cells]
            batches.append(batch)
            singles.append([found for results, _ in one_by_one for found in results])
            walls.append([sum(wall for _, wall in one_by_one), batch_wall])
    alone_wall, batch_wall = np.median(walls, axis=0).tolist()
    seconds = [np.median([_seconds_of(run) for run in repeated], axis=0).tolist() for repeated in (singles, batches)]
    alone = singles[0]
    batch = batches[0]
    energies = np.array([[_energy(found) for found in results] for results in (alone, batch)])
    shared = np.array(seconds[1]) / sum(seconds[1]) / (np.array(seconds[0]) / sum(seconds[0]))
    return {
        "model": model,
        "cells": len(cells),
        "runs": runs,
        "converged": int(np.isfinite(energies[1]).sum()),
        "core_seconds_each": sum(seconds[0]),
        "core_seconds_batch": sum(seconds[1]),
        "ratio": sum(seconds[0]) / sum(seconds[1]),
        "wall_seconds_each": alone_wall,
        "wall_seconds_batch": batch_wall,
        "largest_difference_ev_per_atom": float(np.nanmax(np.abs(energies[0] - energies[1]))),
        "share_against_alone": {"median": float(np.median(shared)), "low": shared.min(), "high": shared.max()},
        "shares_within_20_percent": int((np.abs(shared - 1) <= 0.2).sum()),
        "rows": [
            {
                "cell": text,
                "atoms": cell.n_atoms,
                "outcome": str(one.finding.outcome),
                "reason": str(one.finding.reason or ""),
                "weight": both.finding.share,
                "each": first,
                "batch": second,
            }
            for text, cell, one, both, first, second in zip(
                CELLS.split(", "), cells, alone, batch, *seconds, strict=False
            )
        ],
    }


def with_ase(count: int) -> dict[str, Any]:
    """Returns core-seconds of the same relaxations one by one with ASE's FIRE and CHGNet's own calculator, without the
    start of processes."""
    import torch
    from ase.filters import FrechetCellFilter
    from ase.optimize import FIRE
    from chgnet.model import CHGNetCalculator

    torch.set_num_threads(1)
    potential: Any = load_potential("chgnet-0.3.0")
    calculator = CHGNetCalculator(potential.model, use_device="cpu")
    seconds = []
    for cell in crystals(count):
        atoms = atoms_of(cell)
        atoms.calc = calculator
        began = time.process_time()
        FIRE(FrechetCellFilter(atoms), logfile=None).run(fmax=0.05, steps=300)
        seconds.append(time.process_time() - began)
    return {"core_seconds_each": sum(seconds), "seconds": seconds}


def _run(worker: Worker, request: Request) -> tuple[list[HostResult], float]:
    began = time.monotonic()
    return worker.run(request), time.monotonic() - began


def _seconds_of(results: Sequence[HostResult]) -> list[float]:
    return [float(found.cost.get("core_seconds", 0.0)) for found in results]


def _energy(found: HostResult) -> float:
    return float(found.finding.diagnostics.get("energy_per_atom", np.nan))


def evaluation(model: str, device: str, counts: Sequence[int], sizes: Sequence[int], repeats: int = 3) -> list[Any]:
    """Returns a row for each number and size of cells: seconds for one structure of the call."""
    import torch

    torch.set_num_threads(1)
    potential = load_potential(model, None, device)
    rows = []
    for size in sizes:
        cell = atoms_of(crystal_of("rocksalt Na Cl")).repeat((size // 2, 1, 1))
        for count in counts:
            batch = []
            for seed in range(count):
                atoms = cell.copy()
                atoms.rattle(0.02, seed=seed)
                batch.append(atoms)
            taken = [_seconds(potential, batch, device) for _ in range(repeats + 1)][1:]
            rows.append({"atoms": size, "cells": count, "seconds_each": min(taken) / count})
    return rows


def relaxing(model: str, device: str, count: int, fmax: float = 0.05) -> dict[str, Any]:
    """Returns seconds of the relaxations one by one and in one batch, after one of each that is not counted."""
    import torch

    torch.set_num_threads(1)
    potential = load_potential(model, None, device)
    cells = [atoms_of(cell) for cell in crystals(count)]
    clock = time.process_time if device == "cpu" else time.perf_counter
    seconds = dict[str, float]()
    energies = list[Any]()
    for name, parts in {"each": [[cell] for cell in cells], "batch": [cells]}.items():
        relax(potential, parts[0], fmax)
        begun = clock()
        found = [one for part in parts for one in relax(potential, part, fmax)]
        seconds[name] = clock() - begun
        energies.append(np.array([np.nan if one.fault else one.energy_per_atom for one in found]))
    return {
        "cells": len(cells),
        "converged": int(np.isfinite(energies[1]).sum()),
        "seconds_each": seconds["each"],
        "seconds_batch": seconds["batch"],
        "ratio": seconds["each"] / seconds["batch"],
        "largest_difference_ev_per_atom": float(np.nanmax(np.abs(energies[0] - energies[1]))),
    }


def _seconds(potential: Any, batch: Sequence[Any], device: str) -> float:
    clock = time.process_time if device == "cpu" else time.perf_counter
    began = clock()
    potential.evaluate(batch)
    return clock() - began


def repeatability(model: str, fmax: float) -> dict[str, Any]:
    """Returns the standard deviations over the starts, root mean square over the crystals."""
    import torch

    torch.set_num_threads(1)
    potential = load_potential(model)
    relaxed = relax(potential, _starts(), fmax)
    curves = equations_of_state(potential, [found.atoms for found in relaxed], fmax, 300)
    rows = {}
    for place, text in enumerate(REPEATED):
        part = slice(place * STARTS, (place + 1) * STARTS)
        done = [found for found in relaxed[part] if found.fault is None]
        fits = [curve for curve in curves[part] if isinstance(curve, StateFit)]
        density = [found.atoms.get_masses().sum() / 0.602214 / found.atoms.cell.volume for found in done]
        rows[text] = {
            "n": len(done),
            "energy": float(np.std([found.energy_per_atom for found in done], ddof=1)),
            "volume_per_atom": float(np.std([found.atoms.cell.volume / len(found.atoms) for found in done], ddof=1)),
            "density": float(np.std(density, ddof=1)),
            "bulk_modulus": float(np.std([curve.bulk_modulus for curve in fits], ddof=1)),
            "volume_of_curve": float(np.std([curve.volume for curve in fits], ddof=1)) / len(done[0].atoms),
        }
    names = [name for name in next(iter(rows.values())) if name != "n"]
    mean = {name: float(np.sqrt(np.mean([row[name] ** 2 for row in rows.values()]))) for name in names}
    return {"model": model, "fmax": fmax, "rows": rows, "root_mean_square": mean}


def _starts() -> list[Any]:
    """Returns STARTS strained and displaced ase.Atoms of each crystal of REPEATED."""
    rng = np.random.default_rng(1)
    starts = []
    for text in REPEATED:
        for seed in range(STARTS):
            starts.append(_disturbed(atoms_of(crystal_of(text)), rng, seed))
    return starts


def lattice(model: str, fmax: float) -> dict[str, Any]:
    """Returns how far lattice constants are from those at a tenth of the forces, beside what `mlff.relax` states.

    Each crystal of LATTICES starts as its prototype, dilated, and three times strained and displaced. The reference of
    a length is that of the same start. `errors`: relative errors of the three lengths, root mean square over the
    starts; `stated`: the mean of the stated relative uncertainties; `within`: share of the lengths within them;
    `within_all`: the same, where the reference is the median over all starts, which may have ended in other minima.
    """
    import torch

    torch.set_num_threads(1)
    potential = load_potential(model)
    starts = _lattice_starts()
    relaxed = relax(potential, starts, fmax, MANY_STEPS, with_strain=True)
    references = relax(potential, [found.atoms for found in relaxed], fmax / 10, 10 * MANY_STEPS)
    rows: dict[str, Any] = {}
    pooled = []
    per_crystal = len(starts) // len(LATTICES)
    for place, text in enumerate(LATTICES):
        found_lengths = []
        reference_lengths = []
        stated = []
        for index in range(place * per_crystal, (place + 1) * per_crystal):
            if relaxed[index].fault is None and references[index].fault is None:
                found_lengths.append(relaxed[index].atoms.cell.lengths())
                reference_lengths.append(references[index].atoms.cell.lengths())
                stated.append(math.hypot(OF_LAST_STRAIN * relaxed[index].last_strain, SMALLEST_ERROR))
        found = np.array(found_lengths)
        errors = np.abs(found / reference_lengths - 1)
        errors_to_all = np.abs(found / np.median(reference_lengths, axis=0) - 1)
        limits = np.array(stated)[:, None]
        pooled.append((errors < limits, errors_to_all < limits))
        rows[text] = {
            "n": len(found),
            "errors": float(np.sqrt(np.mean(np.square(errors)))),
            "stated": float(limits.mean()),
            "within": float(pooled[-1][0].mean()),
            "within_all": float(pooled[-1][1].mean()),
        }
    coverage, coverage_of_all = (float(np.concatenate(within).mean()) for within in zip(*pooled, strict=True))
    return {
        "model": model,
        "fmax": fmax,
        "rows": rows,
        "coverage": coverage,
        "coverage_of_all": coverage_of_all,
        "mean_steps": float(np.mean([result.steps for result in relaxed])),
    }


def _lattice_starts() -> list[Any]:
    """Returns five ase.Atoms of each crystal of LATTICES."""
    rng = np.random.default_rng(1)
    starts = []
    for text in LATTICES:
        prototype = _aragonite() if text == ARAGONITE else atoms_of(crystal_of(text))
        dilated = prototype.copy()
        dilated.set_cell(1.03 * prototype.cell.array, scale_atoms=True)
        starts += [prototype, dilated]
        for seed in range(3):
            starts.append(_disturbed(prototype, rng, seed))
    return starts


def _aragonite() -> Any:
    """Returns CaCO3 as ase.Atoms. Source: de Villiers, Am. Mineral. 56, 758 (1971)."""
    lattice = Lattice.orthorhombic(5.7404, 4.9614, 7.9671)
    sites = [[0.7597, 0.25, 0.4150], [0.9138, 0.25, 0.7622], [0.9038, 0.25, 0.9225], [0.9138, 0.4736, 0.6810]]
    structure = Structure.from_spacegroup("Pnma", lattice, ["Ca", "C", "O", "O"], sites)
    return atoms_of(crystal_from_structure(structure))


def _disturbed(atoms: Any, rng: np.random.Generator, seed: int) -> Any:
    """Returns a copy with strains of 3 % and displacements of DISPLACEMENT."""
    copy = atoms.copy()
    strain = 0.03 * rng.normal(size=(3, 3))
    copy.set_cell(copy.cell.array @ (np.eye(3) + (strain + strain.T) / 2), scale_atoms=True)
    copy.rattle(DISPLACEMENT, seed=seed)
    return copy


def ranges(model: str) -> dict[str, Any]:
    """Returns the bulk modulus (GPa), its derivative and the fit's residual (eV/atom) by the range of volumes.

    Ranges: that of `mlff.elastic`, and eleven lengths within 10 %, as matcalc 0.7 takes them by default."""
    import torch

    torch.set_num_threads(1)
    potential = load_potential(model)
    lengths = {"mlff.elastic": (1 + np.array(STRAINS)) ** (1 / 3), "10 % in length": 1 + np.linspace(-0.1, 0.1, 11)}
    rows: dict[str, Any] = {}
    for text in RANGED:
        [relaxed] = relax(potential, [atoms_of(crystal_of(text))], 0.001, MANY_STEPS)
        for name, factors in lengths.items():
            cells = []
            for factor in factors:
                cell = relaxed.atoms.copy()
                cell.set_cell(factor * cell.cell.array, scale_atoms=True)
                cells.append(cell)
            points = relax(potential, cells, 0.02, MANY_STEPS, fixed_cells=True)
            volumes = [float(point.atoms.cell.volume) for point in points]
            found = fit(volumes, [point.energy_per_atom * len(point.atoms) for point in points])
            rows.setdefault(text, {})[name] = {
                "bulk_modulus": found.bulk_modulus,
                "derivative": found.derivative,
                "residual": found.residual / len(relaxed.atoms),
            }
    return {"model": model, "rows": rows}


def card(device: str) -> str:
    """Returns the name of the GPU, or `cpu`."""
    import torch

    return device if device == "cpu" else torch.cuda.get_device_name()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", default=["campaign", "ase", "evaluation"])
    parser.add_argument("--model", nargs="+", default=["chgnet-0.3.0"])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--cells", type=int, default=32)
    parser.add_argument("--runs", type=int, default=RUNS, help="of a campaign; costs are their medians")
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--sizes", type=int, nargs="+", default=[2, 8, 64])
    parser.add_argument("--fmax", type=float, default=0.005)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    result: dict[str, Any] = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    result["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, {card(given.device)}"
    for model in given.model:
        found: dict[str, Any] = result.setdefault(model, {})
        if "campaign" in given.part:
            found["campaign"] = campaign(model, given.cells, given.runs)
            found["without_symmetry"] = campaign(model, given.cells, given.runs, DISPLACEMENT)
        if "ase" in given.part:
            found["ase"] = with_ase(given.cells)
        if "relaxing" in given.part:
            found["relaxing"] = relaxing(model, given.device, given.cells)
        if "evaluation" in given.part:
            found["evaluation"] = evaluation(model, given.device, given.counts, given.sizes)
        if "repeatability" in given.part:
            found["repeatability"] = repeatability(model, given.fmax)
        if "lattice" in given.part:
            found["lattice"] = lattice(model, given.fmax)
        if "ranges" in given.part:
            found["ranges"] = ranges(model)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
