"""Convergence of a self-consistent field by a series of recovery steps, with resumption of interrupted calculations.

The steps are DIIS, DIIS with damping and level shift, a second-order solver, and Fermi smearing that is cooled and then
removed. The final solution always has integer occupations. A solution with an empty orbital below an occupied orbital
is a saddle point; the next step then starts from it.

Sources: DIIS: Pulay, J. Comput. Chem. 3, 556 (1982). Second order: Sun, arXiv 1610.08423 (co-iterative augmented
Hessian). Smearing as a way to convergence: Rabuck, Scuseria, J. Chem. Phys. 110, 695 (1999).
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_simulators.geometry_and_its_checks import failure
from sciagent_simulators.tblite_engine import HARTREE

STEPS = ("diis", "damped", "newton", "smeared")
AUFBAU_TOLERANCE = 1e-4  # hartree
SMEARING = (0.03, 0.01, 0.003)  # hartree; electronic temperatures in the order of use
LEVEL_SHIFT = 0.3  # hartree
DAMPING = 0.3  # share of the last Fock matrix in the next one


def converge(
    mf: Any, max_cycles: int, checkpoint: Path | None = None, density: Any = None
) -> tuple[Any, dict[str, Any]]:
    """Returns the converged mean field and diagnostics: the step of STEPS that converged, the steps tried, resumption.

    density: initial guess; a checkpoint, which PySCF writes at each cycle, has precedence. Raises SimulatorError
    not_converged (scf_not_converged), unstable (scf_unstable: all converged solutions violate the aufbau principle).
    """
    first_step, saved_density = _resume(mf, checkpoint)
    resumed = saved_density is not None
    if resumed:
        density = saved_density
    mf.chkfile = str(checkpoint) if checkpoint else None
    tried: list[str] = []
    saddle: float | None = None  # hartree, by which the last converged solution violates the aufbau principle
    for step in STEPS[STEPS.index(first_step) :]:
        tried.append(step)
        if checkpoint is not None:
            checkpoint.with_suffix(".step").write_text(step, encoding="ascii")  # for a later attempt
        solved = _run_step(mf, step, density, max_cycles)
        if solved.converged:
            saddle = aufbau_violation(solved)
            if saddle is None:
                return solved, {"scf_step": step, "scf_tried": tried, "resumed": resumed}
        density = solved.make_rdm1()
    facts = {"scf_tried": tried, "last_energy_hartree": float(solved.e_tot), "resumed": resumed}
    if saddle is not None:
        raise failure(
            Reason.SCF_UNSTABLE,
            f"an empty orbital lies {saddle * HARTREE:.3f} eV below an occupied one: not the ground state of the "
            "method",
            **facts,
        )
    raise failure(
        Reason.SCF_NOT_CONVERGED,
        f"{' and '.join(tried)} did not reach {mf.conv_tol:g} hartree in {max_cycles} cycles",
        **facts,
    )


def aufbau_violation(mf: Any) -> float | None:
    """Returns the largest energy, hartree, by which an empty orbital lies below an occupied one of its spin, or None.

    Such solutions are saddle points. The second-order solver converges to them where DIIS oscillates (singlet O2,
    O=C=C=O)."""
    worst = 0.0
    for energies, occupations in zip(np.atleast_2d(mf.mo_energy), np.atleast_2d(mf.mo_occ), strict=True):
        occupied = energies[occupations > 0]
        empty = energies[occupations == 0]
        if occupied.size and empty.size:
            worst = max(worst, float(occupied.max() - empty.min()))
    return worst if worst > AUFBAU_TOLERANCE else None


def _run_step(mf: Any, step: str, density: Any, max_cycles: int) -> Any:
    """Runs a recovery step. Returns the mean field without damping, level shift or smearing."""
    mf.level_shift = 0.0
    mf.damp = 0.0
    mf.max_cycle = max_cycles
    if step == "damped":
        mf.level_shift = LEVEL_SHIFT
        mf.damp = DAMPING
    if step == "newton":
        return _second_order(mf, density)
    if step == "smeared":
        density = _cooled(mf, density)
        mf.level_shift = LEVEL_SHIFT
    mf.kernel(dm0=density)
    mf.level_shift = 0.0
    mf.damp = 0.0
    if step == "smeared" and not mf.converged:
        return _second_order(mf, mf.make_rdm1())
    return mf


def _second_order(mf: Any, density: Any) -> Any:
    """Returns the mean field after the second-order solver; it may be unconverged."""
    solver = mf.newton()
    solver.max_cycle = 50
    solver.kernel(dm0=density)
    return solver.undo_newton()


def _cooled(mf: Any, density: Any) -> Any:
    """Returns a density after fields at falling electronic temperatures with the same spin; it may be unconverged."""
    from pyscf.scf.addons import smearing

    warm = smearing(mf.copy(), sigma=SMEARING[0], method="fermi", fix_spin=bool(mf.mol.spin))
    warm.chkfile = None
    warm.conv_tol = 1e-6
    warm.conv_tol_grad = 1e-3
    for sigma in SMEARING:
        warm.sigma = sigma
        warm.kernel(dm0=density)
        density = warm.make_rdm1()
    return density


def _resume(mf: Any, checkpoint: Path | None) -> tuple[str, Any]:
    """Returns step and density of an earlier attempt; the first step and None if there is no complete checkpoint.

    The file is removed, since writing to a truncated file can fail even where reading succeeded.
    """
    if checkpoint is None or not checkpoint.exists():
        return STEPS[0], None
    from pyscf import lib

    density = None
    # Only the orbitals are read: PySCF's own reader would also evaluate the text of the molecule in the file.
    with contextlib.suppress(OSError, KeyError, ValueError, RuntimeError, TypeError, AttributeError, IndexError):
        orbitals = lib.chkfile.load(str(checkpoint), "scf/mo_coeff")
        occupations = lib.chkfile.load(str(checkpoint), "scf/mo_occ")
        density = np.asarray(mf.make_rdm1(orbitals, occupations))
    checkpoint.unlink()
    step = STEPS[0]
    with contextlib.suppress(OSError, UnicodeDecodeError), checkpoint.with_suffix(".step").open() as file:
        step = file.read(16)
    n = mf.mol.nao
    # the file may be damaged or belong to another molecule
    if density is None or density.shape not in ((n, n), (2, n, n)) or not np.isfinite(density).all():
        return STEPS[0], None
    if step not in STEPS:
        step = STEPS[0]
    return step, density
