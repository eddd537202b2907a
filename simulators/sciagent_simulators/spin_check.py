"""A test whether the closed-shell singlet is the ground state: a cheap screen, then two calculations in doubtful cases.

The screen is the lowest triplet excitation in the Tamm-Dancoff approximation on a coarse grid. Lowest triplets at
PBE0/def2-SVP: benzene 4.22 eV, naphthoquinone 2.26 (both stable), rectangular cyclobutadiene 1.04, nitrosobenzene 0.37
(both have a broken-symmetry solution 0.016 eV lower). Above SAFE the restricted solution is taken as stable.
Below SAFE two calculations decide: the triplet, and the broken-symmetry singlet from mixed frontier orbitals.

PySCF's `stability()` gives the same answer at 13 times the cost of the SCF (benzene, 80 s); the screen costs about one.

Sources: Bauernschmitt, Ahlrichs, J. Chem. Phys. 104, 9047 (1996); Hirata, Head-Gordon, Chem. Phys. Lett. 314,
291 (1999).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sciagent.domain.outcomes import Reason
from sciagent_simulators.geometry import failure
from sciagent_simulators.near_degeneracy import NEAR_DEGENERATE, pair_occupation
from sciagent_simulators.pyscf_response import run_lowest
from sciagent_simulators.tblite_engine import HARTREE

if TYPE_CHECKING:
    from sciagent_simulators.pyscf_engine import DftSettings

SAFE = 1.5  # eV
LOWER = 1e-4  # hartree; a broken-symmetry solution must be lower by more than this
COARSE = 1  # grid level at which the solutions are compared


def check_spin(mf: Any, settings: DftSettings) -> dict[str, Any]:
    """Returns the energy of the screen and, if they were computed, both comparisons, eV.

    mf: a converged restricted mean field. Raises SimulatorError unstable (near_degenerate, triplet_ground_state,
    scf_unstable), not_converged (scf_not_converged).
    """
    occupied = int(np.count_nonzero(mf.mo_occ))
    if occupied == len(mf.mo_occ):
        return {"skipped": "no empty orbital"}
    diagnostics: dict[str, Any] = pair_occupation(mf)
    diagnostics["triplet_tda"] = screen = lowest_triplet(mf)
    if settings.spin_check == "auto" and screen > SAFE:
        return _one_determinant(diagnostics)
    reference = _run(mf.mol, mf, settings, mf.make_rdm1(), None)
    triplet = _lower(mf, settings, _triplet_density(mf, occupied), 2, reference)
    broken = _lower(mf, settings, _mixed_density(mf, occupied), 0, reference)
    diagnostics["triplet_minus_singlet"] = (triplet - reference) * HARTREE
    diagnostics["broken_minus_restricted"] = (broken - reference) * HARTREE
    # The triplet of a singlet diradical (p-benzyne) lies below the restricted but above the broken-symmetry solution.
    if triplet < min(reference, broken):
        raise failure(
            Reason.TRIPLET_GROUND_STATE,
            f"the triplet lies {(reference - triplet) * HARTREE:.3f} eV below the singlet",
            spin_check=diagnostics,
        )
    if broken < reference - LOWER:
        raise failure(
            Reason.SCF_UNSTABLE,
            f"a broken-symmetry solution lies {(reference - broken) * HARTREE:.3f} eV below the restricted one",
            spin_check=diagnostics,
        )
    return _one_determinant(diagnostics)


def _one_determinant(diagnostics: dict[str, Any]) -> dict[str, Any]:
    """Checks that one determinant describes the state; a stable restricted solution can fail (ozone)."""
    if diagnostics["pair_occupation"] > NEAR_DEGENERATE:
        raise failure(
            Reason.NEAR_DEGENERATE,
            f"{diagnostics['pair_occupation']:.2f} electrons would leave {diagnostics['pair']}: "
            "one determinant does not describe the state",
            spin_check=diagnostics,
        )
    return diagnostics


def lowest_triplet(mf: Any) -> float:
    """Returns the lowest triplet excitation, TDA, eV; it is negative where the restricted solution is no minimum.

    The grid has level 0: within 3 meV of level 1 for benzene, nitrosobenzene and cyclobutadiene.
    """
    from pyscf import dft, tdscf

    # A triplet excitation does not change the density, so the solvent does not respond.
    coarse = (mf.undo_solvent() if hasattr(mf, "with_solvent") else mf).copy()
    coarse.chkfile = None
    coarse.grids = dft.gen_grid.Grids(mf.mol)
    coarse.grids.level = 0
    excitation = tdscf.TDA(coarse)
    excitation.singlet = False
    excitation.nstates = 1
    excitation.conv_tol = 1e-3
    excitation.positive_eig_threshold = -np.inf  # keeps negative roots, which show the instability
    excitation.verbose = 0
    run_lowest(excitation)
    if not np.all(excitation.converged):
        return 0.0  # without convergence the two calculations decide
    return float(np.min(excitation.e)) * HARTREE


def _lower(mf: Any, settings: DftSettings, density: Any, spin: int, reference: float) -> float:
    """Returns the energy, hartree, of the unrestricted solution from `density`, 2 x n x n. spin: unpaired electrons."""
    mol = mf.mol.copy()
    mol.spin = spin
    mol.build(False, False)
    return _run(mol, mf, settings, density, reference)


def _run(mol: Any, mf: Any, settings: DftSettings, density: Any, reference: float | None) -> float:
    """Returns the energy on the grid of the comparison, hartree. The calculation is restricted if reference is None."""
    from pyscf import dft

    from sciagent_simulators.pyscf_solvent import in_solvent

    solver = (dft.RKS(mol) if reference is None else dft.UKS(mol)).density_fit()
    solver.with_df = mf.with_df
    solver.xc = settings.functional
    if settings.dispersion:
        solver.disp = settings.dispersion
    solver.grids.level = COARSE
    solver.conv_tol = 1e-6
    solver.max_cycle = settings.max_cycles
    solver = in_solvent(solver, settings.solvent, settings.solvent_model)
    solver.chkfile = None
    solver.kernel(dm0=density)
    if not solver.converged and not (reference is not None and solver.e_tot < reference - LOWER):
        solver = solver.newton()
        solver.chkfile = None
        solver.kernel(dm0=solver.make_rdm1())
    # An unconverged energy below the reference decides too, since the converged energy is even lower.
    if not solver.converged and not (reference is not None and solver.e_tot < reference - LOWER):
        raise failure(Reason.SCF_NOT_CONVERGED, "a calculation of the spin check did not converge")
    return float(solver.e_tot)


def _mixed_density(mf: Any, occupied: int) -> Any:
    """Returns alpha and beta densities with HOMO and LUMO rotated by +45 and -45 degrees, to break spin symmetry."""
    orbitals = np.asarray(mf.mo_coeff)
    homo, lumo = orbitals[:, occupied - 1], orbitals[:, occupied]
    rest = orbitals[:, : occupied - 1]
    turned = (np.column_stack([rest, (homo + sign * lumo) / np.sqrt(2)]) for sign in (1, -1))
    return np.array([c @ c.T for c in turned])


def _triplet_density(mf: Any, occupied: int) -> Any:
    orbitals = np.asarray(mf.mo_coeff)
    return np.array([c @ c.T for c in (orbitals[:, : occupied + 1], orbitals[:, : occupied - 1])])
