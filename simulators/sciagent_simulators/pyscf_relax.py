"""Relaxation of a molecule on the density functional's own gradients, by ASE's BFGS.

It starts from the curvature of the xTB method at the first geometry (a numerical Hessian, 6N cheap gradients), so that
from a GFN2-xTB geometry a handful of gradients is enough. Steps taken, PBE/def2-SVP, fmax 0.02 eV/angstrom, with that
Hessian and with ASE's own start: see `benchmarks/numbers/pyscf_relax.json`.

After every step what is needed to go on (positions, Hessian, last gradient) is left in one file; a run that was
broken off takes the same next step as one that was not.

Sources: BFGS: Nocedal, Wright, Numerical Optimization, ch. 6. ASE: Larsen et al., J. Phys. Condens. Matter 29,
273002 (2017).
"""

from __future__ import annotations

import contextlib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes import Outcome, Reason
from sciagent_simulators.geometry import Geometry, check, failure
from sciagent_simulators.pyscf_engine import DftSettings, build, mean_field
from sciagent_simulators.scf_recovery import converge
from sciagent_simulators.tblite_engine import BOHR, HARTREE

Matrix = NDArray[np.float64]

SOFTEST = (
    2.0  # eV/angstrom^2: softer modes of the xTB Hessian, translations and rotations among them, are taken as this
)
LARGEST_STEP = 0.2  # angstrom
LARGEST_FILE = 64 * 2**20  # bytes of a checkpoint that are read


def relax(
    geometry: Geometry,
    settings: DftSettings,
    fmax: float = 0.02,
    max_steps: int = 100,
    checkpoint: Path | None = None,
    threads: int = 1,
    curvature: bool = True,
) -> tuple[Geometry, dict[str, Any]]:
    """The geometry at which the largest force on an atom is below fmax (eV/angstrom), and how it was reached.

    checkpoint: stem of the files to go on from (`.npz`; the orbitals in `.chk`). curvature: start from the xTB Hessian.
    Raises SimulatorError not_converged (geometry_not_converged, scf_not_converged), implausible (overlapping_atoms),
    and what `geometry.check` and `scf_recovery.converge` raise. Whether the bonds are still there is for the caller.
    """
    from ase import Atoms
    from ase.optimize import BFGS
    from pyscf import lib

    check(geometry)
    if len(geometry.numbers) == 1:
        return geometry, {"dft_steps": 0, "dft_fmax": 0.0}
    gradients = Gradients(geometry, settings, checkpoint.with_suffix(".chk") if checkpoint else None)
    atoms = Atoms(numbers=geometry.numbers, positions=geometry.positions)
    atoms.calc = gradients.calculator()
    optimiser = BFGS(atoms, logfile=None, maxstep=LARGEST_STEP)
    file = checkpoint.with_suffix(".npz") if checkpoint else None
    earlier = _restore(file, geometry.positions.size)
    done = taken = int(earlier["taken"]) if earlier else 0
    with lib.with_omp_threads(threads):
        if earlier:
            atoms.positions = earlier["positions"]
            optimiser.H0 = _updated(earlier, atoms.positions.ravel(), atoms.get_forces().ravel())
        elif curvature and (start := xtb_hessian(geometry)) is not None:
            optimiser.H0 = start
        force = _largest(atoms)
        while force > fmax and taken < max_steps:
            optimiser.step()
            taken += 1
            _keep(file, atoms, optimiser, taken)
            check(geometry.moved(atoms.positions))
            force = _largest(atoms)
    if force > fmax:
        raise failure(
            Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED,
            f"largest force {force:.3f} eV/angstrom after {taken} steps of {settings.functional}; asked for {fmax}",
            dft_steps=taken, dft_fmax=force,
        )  # fmt: skip
    facts = {"dft_steps": taken, "dft_fmax": force, "dft_gradients": gradients.count, "resumed_at_step": done}
    return geometry.moved(atoms.positions), facts


class Gradients:
    """Energy and forces at one geometry after the other, each self-consistent field started from the last density."""

    def __init__(self, geometry: Geometry, settings: DftSettings, checkpoint: Path | None = None) -> None:
        self.geometry, self.settings, self.checkpoint = geometry, settings, checkpoint
        self.density: Any = None
        self.count = 0

    def at(self, positions: Matrix) -> tuple[float, Matrix]:
        """Energy, eV, and forces, n x 3, eV/angstrom. Raises SimulatorError as `converge` does."""
        settings = self.settings
        mf = mean_field(build(self.geometry.moved(positions), settings), settings)
        mf, _ = converge(mf, settings.max_cycles, self.checkpoint, settings.recover, self.density)
        self.density = mf.make_rdm1()
        slope = mf.nuc_grad_method()
        slope.verbose = 0
        self.count += 1
        return float(mf.e_tot) * HARTREE, -np.asarray(slope.kernel()) * HARTREE / BOHR

    def calculator(self) -> Any:
        from ase.calculators.calculator import Calculator, all_changes

        gradients = self

        class Forces(Calculator):  # type: ignore[misc]
            implemented_properties = ["energy", "forces"]

            def calculate(self, atoms: Any = None, properties: Any = ("energy",), changes: Any = all_changes) -> None:
                super().calculate(atoms, properties, changes)
                energy, forces = gradients.at(atoms.positions)
                self.results = {"energy": energy, "forces": forces}

        return Forces()


def xtb_hessian(geometry: Geometry, step: float = 0.005) -> Matrix | None:
    """3n x 3n, eV/angstrom^2, central differences (step in angstrom) of GFN2-xTB forces, no mode softer than SOFTEST.

    None where tblite cannot: elements beyond radon, no convergence.
    """
    from ase import Atoms
    from ase.calculators.calculator import CalculationFailed
    from tblite.ase import TBLite

    atoms = Atoms(numbers=geometry.numbers, positions=geometry.positions)
    rows = []
    try:
        atoms.calc = TBLite(method="GFN2-xTB", charge=geometry.charge, multiplicity=geometry.multiplicity, verbosity=0)
        for k in range(geometry.positions.size):
            forces = []
            for sign in (1, -1):
                moved = geometry.positions.copy()
                moved.flat[k] += sign * step
                atoms.positions = moved
                forces.append(atoms.get_forces().ravel())
            rows.append((forces[1] - forces[0]) / (2 * step))
    except (CalculationFailed, RuntimeError):
        return None
    hessian = np.array(rows)
    values, modes = np.linalg.eigh((hessian + hessian.T) / 2)
    stiff: Matrix = (modes * np.maximum(np.abs(values), SOFTEST)) @ modes.T
    return stiff


def _largest(atoms: Any) -> float:
    return float(np.linalg.norm(atoms.get_forces(), axis=1).max())


def _keep(file: Path | None, atoms: Any, optimiser: Any, taken: int) -> None:
    if file is None:
        return
    part = file.with_suffix(".part")
    with part.open("wb") as stream:
        np.savez(
            stream, positions=atoms.positions, hessian=optimiser.H, before=optimiser.pos0,
            forces=optimiser.forces0, taken=np.array(taken),
        )  # fmt: skip
    part.replace(file)


def _restore(file: Path | None, n: int) -> dict[str, Matrix] | None:
    """What an earlier run left of n coordinates; None where there is no such file or it is not whole."""
    if file is None or not file.exists() or file.stat().st_size > LARGEST_FILE:
        return None
    shapes = {"positions": (n // 3, 3), "hessian": (n, n), "before": (n,), "forces": (n,), "taken": ()}
    with contextlib.suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile), file.open("rb") as stream:
        kept = np.load(stream, allow_pickle=False)
        found = {name: np.asarray(kept[name], dtype=float) for name in shapes}
        if all(found[name].shape == shape and np.isfinite(found[name]).all() for name, shape in shapes.items()):
            return found
    return None


def _updated(earlier: dict[str, Matrix], positions: Matrix, forces: Matrix) -> Matrix:
    """The Hessian with what the last step, from `before` to positions, has taught: the update BFGS would have made."""
    hessian, step = earlier["hessian"], positions - earlier["before"]
    change = earlier["forces"] - forces
    if np.abs(step).max() < 1e-7:
        return hessian
    along = hessian @ step
    updated: Matrix = hessian + np.outer(change, change) / (step @ change) - np.outer(along, along) / (step @ along)
    return updated
