"""Relaxation of a molecule by gradients of its density functional: a quasi-Newton method with a GFN2-xTB Hessian.

The first Hessian is a numerical one of GFN2-xTB at the first geometry (6N cheap gradients). A relaxation from a
GFN2-xTB geometry then needs only a few gradients (measured by `benchmarks/numbers/pyscf_relax.py`). The updates are
BFGS with Powell's damping, which keeps the Hessian positive. PySCF's gradient neglects that the integration grid moves
with the atoms. This leaves a net force and torque (0.2 eV/angstrom in HCl on the coarsest grid), which are removed.

After every step positions, forces and Hessian are saved to a file. A resumed run takes the same next step as an
uninterrupted run.

Source: Nocedal, Wright, Numerical Optimization, 2nd ed., ch. 6 and procedure 18.2.

The Hessian of a functional in the gas phase is PySCF's analytic one, with that of density fitting and of the dispersion
correction. PySCF has none for non-local correlation (VV10), for which central differences of gradients serve.
"""

from __future__ import annotations

import contextlib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry, check, failure
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import (
    DftSettings,
    build,
    gradient,
    hessian,
    mean_field,
)
from sciagent_simulators.scf_recovery import converge
from sciagent_simulators.tblite_engine import BOHR, HARTREE
from sciagent_simulators.thermochemistry.normal_modes_and_minimum_search import numerical_hessian
from sciagent_simulators.thermochemistry.tblite_hessian import tblite_hessian

Matrix = NDArray[np.float64]

SOFTEST = 2.0  # eV/angstrom^2; smaller eigenvalues of the xTB Hessian are raised to it
UNKNOWN = 70.0  # eV/angstrom^2; eigenvalue of all modes without an xTB Hessian, as in ASE
FLATTEST = 0.5  # eV/angstrom^2; smallest eigenvalue in a Newton step
LARGEST_STEP = 0.2  # angstrom


def relax(
    geometry: Geometry,
    settings: DftSettings,
    fmax: float = 0.02,
    max_steps: int = 100,
    checkpoint: Path | None = None,
    threads: int = 1,
    curvature: bool = True,
) -> tuple[Geometry, dict[str, Any]]:
    """Returns the geometry at which the largest force on an atom is at most fmax (eV/angstrom), and diagnostics.

    checkpoint: stem of the files to resume from (`.npz`; orbitals in `.chk`). curvature: whether to start from
    the xTB Hessian.
    Raises SimulatorError not_converged (geometry_not_converged, scf_not_converged), implausible (overlapping_atoms),
    and the errors of `geometry.check` and `scf_recovery.converge`. The caller checks the bonds.
    """
    from pyscf import lib

    check(geometry)
    if len(geometry.numbers) == 1:
        return geometry, {"dft_steps": 0, "dft_fmax": 0.0}
    orbital_file = checkpoint.with_suffix(".chk") if checkpoint else None
    state_file = checkpoint.with_suffix(".npz") if checkpoint else None
    gradients = Gradients(geometry, settings, orbital_file)
    state = _restore(state_file, len(geometry.numbers))
    n_steps_before = int(state["taken"]) if state else 0
    with lib.with_omp_threads(threads):
        if state is None:
            first_hessian = xtb_hessian(geometry) if curvature else None
            if first_hessian is None:
                first_hessian = UNKNOWN * np.eye(geometry.positions.size)
            _, forces = gradients.at(geometry.positions)
            state = {
                "positions": geometry.positions,
                "forces": forces,
                "hessian": first_hessian,
                "taken": np.array(0.0),  # number of steps
            }
        while _largest(state["forces"]) > fmax and state["taken"] < max_steps:
            step = newton_step(state["hessian"], state["forces"])
            positions = state["positions"] + step
            check(geometry.moved(positions))
            _, forces = gradients.at(positions)
            change_of_gradient = (state["forces"] - forces).ravel()
            hessian = updated(state["hessian"], step.ravel(), change_of_gradient)
            state = {"positions": positions, "forces": forces, "hessian": hessian, "taken": state["taken"] + 1}
            if state_file is not None:
                _save(state, state_file)
    force = _largest(state["forces"])
    facts: dict[str, Any] = {"dft_steps": int(state["taken"]), "dft_fmax": force}
    if force > fmax:
        raise failure(
            Reason.GEOMETRY_NOT_CONVERGED,
            f"largest force {force:.3f} eV/angstrom after {facts['dft_steps']} steps; asked for {fmax}",
            **facts,
        )
    facts["dft_gradients"] = gradients.count
    facts["resumed_at_step"] = n_steps_before
    return geometry.moved(state["positions"]), facts


def newton_step(hessian: Matrix, forces: Matrix) -> Matrix:
    """Returns the step to the minimum of the quadratic model, n x 3, angstrom; no atom moves beyond LARGEST_STEP."""
    values, modes = np.linalg.eigh(hessian)
    along_modes = (forces.ravel() @ modes) / np.maximum(values, FLATTEST)
    step: Matrix = (modes @ along_modes).reshape(-1, 3)
    length = max(_largest(step), 1e-12)  # no division by 0
    return step * min(1.0, LARGEST_STEP / length)


def updated(hessian: Matrix, step: Matrix, change: Matrix) -> Matrix:
    """Returns the BFGS update of the Hessian, damped so that it stays positive. change: change of the gradient."""
    expected_change = hessian @ step
    expected_curvature = float(step @ expected_change)
    curvature = float(step @ change)
    if expected_curvature < 1e-12:  # no step
        return hessian
    if curvature < 0.2 * expected_curvature:  # Powell's damping
        share = 0.8 * expected_curvature / (expected_curvature - curvature)
        change = share * change + (1 - share) * expected_change
        curvature = float(step @ change)
    added = np.outer(change, change) / curvature
    removed = np.outer(expected_change, expected_change) / expected_curvature
    new: Matrix = hessian + added - removed
    return new


class Gradients:
    """Energies and forces at a series of geometries; each calculation starts from the density of the last."""

    def __init__(self, geometry: Geometry, settings: DftSettings, checkpoint: Path | None = None) -> None:
        self.geometry = geometry
        self.settings = settings
        self.checkpoint = checkpoint
        self.density: Any = None  # of the last calculation; None before the first
        self.count = 0  # number of calculations

    def at(self, positions: Matrix) -> tuple[float, Matrix]:
        """Returns energy (eV) and forces (n x 3, eV/angstrom). Raises SimulatorError as `converge` does."""
        settings = self.settings
        mf = mean_field(build(self.geometry.moved(positions), settings), settings)
        mf, _ = converge(mf, settings.max_cycles, self.checkpoint, self.density)
        self.density = mf.make_rdm1()
        self.count += 1
        forces = -np.asarray(gradient(mf, settings).kernel()) * HARTREE / BOHR
        return float(mf.e_tot) * HARTREE, without_rigid_motion(forces, positions)


def without_rigid_motion(forces: Matrix, positions: Matrix) -> Matrix:
    """Returns the forces, n x 3, without net force and torque."""
    arms = positions - positions.mean(axis=0)
    translations = [np.tile(axis, (len(arms), 1)).ravel() for axis in np.eye(3)]
    rotations = [np.cross(axis, arms).ravel() for axis in np.eye(3)]
    rigid_motions = np.array(translations + rotations).T
    basis, sizes, _ = np.linalg.svd(rigid_motions, full_matrices=False)
    basis = basis[:, sizes > 1e-6]  # a linear molecule has two rotations
    flat = forces.ravel()
    projected: Matrix = (flat - basis @ (basis.T @ flat)).reshape(-1, 3)
    return projected


def xtb_hessian(geometry: Geometry) -> Matrix | None:
    """Returns the Hessian of GFN2-xTB, 3n x 3n, eV/angstrom^2, or None if tblite fails (elements beyond radon).

    Eigenvalues are made positive and raised to SOFTEST.
    """
    try:
        hessian = tblite_hessian(geometry)
    except SimulatorError:
        return None
    values, modes = np.linalg.eigh((hessian + hessian.T) / 2)
    stiff: Matrix = (modes * np.maximum(np.abs(values), SOFTEST)) @ modes.T
    return stiff


def _largest(vectors: Matrix) -> float:
    """Returns the largest norm of the vectors, n x 3."""
    return float(np.linalg.norm(vectors, axis=1).max())


def _save(state: dict[str, Matrix], file: Path) -> None:
    """Writes the state to the file, which is replaced in one step."""
    partial = file.with_suffix(".part")
    with partial.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **state)
    partial.replace(file)


def _restore(file: Path | None, n: int) -> dict[str, Matrix] | None:
    """Returns the state that an earlier run saved for n atoms, or None if the file is missing or damaged."""
    if file is None or not file.exists():
        return None
    shapes = {"positions": (n, 3), "forces": (n, 3), "hessian": (3 * n, 3 * n), "taken": ()}
    with contextlib.suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile), file.open("rb") as stream:
        saved = np.load(stream, allow_pickle=False)
        arrays = {name: np.asarray(saved[name], dtype=float) for name in shapes}
        has_shapes = all(arrays[name].shape == shape for name, shape in shapes.items())
        if has_shapes and all(np.isfinite(array).all() for array in arrays.values()):
            return arrays
    return None


STEP = 0.01  # angstrom, of an atom in the numerical Hessian


def pyscf_hessian(
    mf: Any, geometry: Geometry, settings: DftSettings, checkpoint: Path | None = None, threads: int = 1
) -> tuple[Matrix, str]:
    """Returns the Hessian, 3n x 3n, eV/angstrom^2, and how it was made: `analytic` or `numerical`.

    mf: the converged mean field at the geometry, without a solvent. checkpoint: file of the orbitals of the gradients.
    Raises SimulatorError as `Gradients.at` does.
    """
    from pyscf import lib

    with lib.with_omp_threads(threads):
        if not needs_numerical_hessian(mf):
            blocks = np.asarray(hessian(mf, settings).kernel())  # n x n x 3 x 3, hartree/bohr^2
            flat = blocks.transpose(0, 2, 1, 3).reshape(geometry.positions.size, -1)
            return flat * HARTREE / BOHR**2, "analytic"
        gradients = Gradients(geometry, settings, checkpoint)
        gradients.density = mf.make_rdm1()

        def forces_at(positions: Matrix) -> Matrix:
            _, forces = gradients.at(positions)
            return forces

        return numerical_hessian(forces_at, geometry.positions, STEP), "numerical"


def needs_numerical_hessian(mf: Any) -> bool:
    """Returns whether the mean field has no analytic Hessian in PySCF."""
    return hasattr(mf, "do_nlc") and bool(mf.do_nlc())
