"""Getting a self-consistent field to converge, and to go on after it was broken off.

The ladder: plain DIIS; damped with a level shift; second order; and last a Fermi smearing that is cooled down and then
taken away: what counts is always converged with whole electrons. A solution with an empty orbital below an occupied
orbital is a saddle point, so the ladder goes on from there too.

Sources: DIIS: Pulay, J. Comput. Chem. 3, 556 (1982). Second order: Sun, arXiv 1610.08423 (co-iterative augmented
Hessian). Smearing as a way to convergence: Rabuck, Scuseria, J. Chem. Phys. 110, 695 (1999).
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from sciagent.domain.outcomes import Reason
from sciagent_simulators.geometry import failure
from sciagent_simulators.tblite_engine import HARTREE

STEPS = ("diis", "damped", "newton", "smeared")
AUFBAU_TOLERANCE = 1e-4  # hartree
SMEARING = (0.03, 0.01, 0.003)  # hartree, in this order
LEVEL_SHIFT, DAMPING = 0.3, 0.3


def converge(
    mf: Any, max_cycles: int, checkpoint: Path | None = None, recover: bool = True, density: Any = None
) -> tuple[Any, dict[str, Any]]:
    """The converged mean field and which of STEPS did it, over which it went, and whether it was resumed.

    density: where to start; a checkpoint, which PySCF writes at each cycle, comes first. Raises SimulatorError
    not_converged (scf_not_converged), unstable (scf_unstable: converged only to states that are not aufbau).
    """
    first, kept = _resume(mf, checkpoint)
    resumed = kept is not None
    density = kept if resumed else density
    mf.chkfile = str(checkpoint) if checkpoint else None
    tried: list[str] = []
    saddle: float | None = None
    for step in STEPS[STEPS.index(first) :] if recover else STEPS[:1]:
        tried.append(step)
        _note(checkpoint, step)
        solved = _climb(mf, step, density, max_cycles)
        if solved.converged:
            saddle = below_aufbau(solved)
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


def below_aufbau(mf: Any) -> float | None:
    """By how much, hartree, an empty orbital lies below an occupied orbital of the same spin; None where none does.

    The second-order solver converges to such states where DIIS oscillates (singlet O2, O=C=C=O): saddle points.
    """
    worst = 0.0
    for energies, filled in zip(np.atleast_2d(mf.mo_energy), np.atleast_2d(mf.mo_occ), strict=True):
        occupied, empty = energies[filled > 0], energies[filled == 0]
        if occupied.size and empty.size:
            worst = max(worst, float(occupied.max() - empty.min()))
    return worst if worst > AUFBAU_TOLERANCE else None


def _climb(mf: Any, step: str, density: Any, max_cycles: int) -> Any:
    """Run a step of the ladder; the mean field that it returns is no longer damped, shifted or smeared."""
    mf.level_shift, mf.damp, mf.max_cycle = 0.0, 0.0, max_cycles
    if step == "damped":
        mf.level_shift, mf.damp = LEVEL_SHIFT, DAMPING
    if step == "newton":
        return _second_order(mf, density)
    if step == "smeared":
        density = _cooled(mf, density)
        mf.level_shift = LEVEL_SHIFT
    mf.kernel(dm0=density)
    mf.level_shift, mf.damp = 0.0, 0.0
    if step == "smeared" and not mf.converged:
        return _second_order(mf, mf.make_rdm1())
    return mf


def _second_order(mf: Any, density: Any) -> Any:
    solver = mf.newton()
    solver.max_cycle = 50
    solver.kernel(dm0=density)
    return solver.undo_newton()


def _cooled(mf: Any, density: Any) -> Any:
    """The density at the lowest electronic temperature with the same spin; it is a starting point, converged or not."""
    from pyscf.scf.addons import smearing

    warm = smearing(mf.copy(), sigma=SMEARING[0], method="fermi", fix_spin=bool(mf.mol.spin))
    warm.chkfile = None
    warm.conv_tol, warm.conv_tol_grad = 1e-6, 1e-3
    for sigma in SMEARING:
        warm.sigma = sigma
        warm.kernel(dm0=density)
        density = warm.make_rdm1()
    return density


def _note(checkpoint: Path | None, step: str) -> None:
    """Write down the current step, for a later attempt."""
    if checkpoint is not None:
        checkpoint.with_suffix(".step").write_text(step, encoding="ascii")


def _resume(mf: Any, checkpoint: Path | None) -> tuple[str, Any]:
    """The step and the density of an earlier attempt; the first step and None where its file was cut short.

    The file is removed: what was cut short may still be read and then fail to be written.
    """
    if checkpoint is None or not checkpoint.exists():
        return STEPS[0], None
    from pyscf import lib

    density = None
    # the orbitals alone: PySCF's own reader would also evaluate the molecule's text from the file
    with contextlib.suppress(OSError, KeyError, ValueError, RuntimeError, TypeError, AttributeError, IndexError):
        orbitals, filled = (lib.chkfile.load(str(checkpoint), f"scf/{name}") for name in ("mo_coeff", "mo_occ"))
        density = np.asarray(mf.make_rdm1(orbitals, filled))
    checkpoint.unlink()
    step = STEPS[0]
    with contextlib.suppress(OSError, UnicodeDecodeError), checkpoint.with_suffix(".step").open() as file:
        step = file.read(16)
    n = mf.mol.nao
    if density is None or density.shape not in ((n, n), (2, n, n)) or not np.isfinite(density).all():
        return STEPS[0], None
    return (step if step in STEPS else STEPS[0]), density
