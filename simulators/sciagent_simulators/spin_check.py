"""Tests whether the closed-shell singlet is the ground state, and whether one determinant describes it.

The ground state: a cheap screen, then two calculations in doubtful cases. The screen is the lowest triplet excitation
in the Tamm-Dancoff approximation on a coarse grid. Lowest triplets at PBE0/def2-SVP: benzene 4.22 eV, naphthoquinone
2.26 (both stable), rectangular cyclobutadiene 1.04, nitrosobenzene 0.37 (both have a broken-symmetry solution 0.016 eV
lower). Above SAFE the restricted solution is taken as stable. Below SAFE two calculations decide: the triplet, and the
broken-symmetry singlet from mixed frontier orbitals. PySCF's `stability()` gives the same answer at 13 times the cost
of the SCF (benzene, 80 s); the screen costs about one.

One determinant: a two-determinant model of frontier orbital pairs. In PBE0 the restricted solution of ozone is stable
and its triplet lies 1.2 eV higher, yet 0.3 electrons belong in an orbital that this solution leaves empty. For an
occupied orbital i and an empty orbital a, two determinants put both electrons into i or into a. They couple by the
exchange integral K = (ia|ia). Their energies differ by

    D = 2 (f_aa - f_ii) + (ii|ii) + (aa|aa) - 4 (ii|aa) + 2 K

where f is the Fock operator of the closed shell. The lower root puts n = 2 c^2 / (1 + c^2) electrons into a, with
c = (sqrt(D^2 + 4 K^2) - D) / 2K. The test uses the largest n over the frontier, which does not grow with the molecule.

PBE0/def2-SVP: ozone 0.30 (0.26 on its GFN2-xTB geometry), F2 0.12, carbonyl oxide 0.11, rectangular cyclobutadiene and
nitromethane 0.10, ethylene, diazomethane and SO2 0.08, benzoquinone 0.06, azulene 0.05, nitrobenzene, anthracene 0.04,
benzene, naphthoquinone, N2 0.03. More than 0.1 of the related M diagnostic in CASSCF is strongly multireference. The
limit here is higher, since the model has only two determinants and does not relax the orbitals.

Sources: Bauernschmitt, Ahlrichs, J. Chem. Phys. 104, 9047 (1996); Hirata, Head-Gordon, Chem. Phys. Lett. 314,
291 (1999); M diagnostic: Tishchenko, Zheng, Truhlar, J. Chem. Theory Comput. 4, 1208 (2008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sciagent.domain.outcomes import Reason
from sciagent_simulators.geometry import failure
from sciagent_simulators.pyscf_excited import run_lowest, transition
from sciagent_simulators.tblite_engine import HARTREE

if TYPE_CHECKING:
    from sciagent_simulators.pyscf_engine import DftSettings

SAFE = 1.5  # eV
LOWER = 1e-4  # hartree; a broken-symmetry solution must be lower by more than this
COARSE = 1  # grid level at which the solutions are compared
NEAR_DEGENERATE = 0.2
OCCUPIED, EMPTY = 6, 24  # numbers of frontier orbitals; diffuse functions add many empty orbitals at low energy


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
    reference = _energy(mf, settings, mf.make_rdm1())
    orbitals = np.asarray(mf.mo_coeff)
    parallel = np.array([c @ c.T for c in (orbitals[:, : occupied + 1], orbitals[:, : occupied - 1])])
    homo, lumo, rest = orbitals[:, occupied - 1], orbitals[:, occupied], orbitals[:, : occupied - 1]
    # HOMO and LUMO rotated by +45 degrees for alpha and -45 for beta, to break the spin symmetry
    turned = (np.column_stack([rest, (homo + sign * lumo) / np.sqrt(2)]) for sign in (1, -1))
    triplet = _energy(mf, settings, parallel, 2, reference)
    broken = _energy(mf, settings, np.array([c @ c.T for c in turned]), 0, reference)
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


def pair_occupation(mf: Any) -> dict[str, Any]:
    """Returns `pair_occupation`, the largest n (0 to 2 electrons), and `pair`, its orbitals, such as HOMO-1 > LUMO.

    mf: a converged restricted mean field with density fitting.
    """
    from pyscf import lib

    coefficients = np.asarray(mf.mo_coeff)
    occupied = int(np.count_nonzero(mf.mo_occ))
    inner = coefficients[:, max(0, occupied - OCCUPIED) : occupied]
    outer = coefficients[:, occupied : occupied + EMPTY]
    both = np.column_stack([inner, outer])
    coulomb, exchange = mf.with_df.get_jk(mf.make_rdm1())
    fock = mf.get_hcore() + coulomb - 0.5 * exchange
    if hasattr(mf, "with_solvent"):
        fock = fock + mf.with_solvent.v
    levels = np.einsum("pi,pq,qi->i", both, fock, both)
    blocks = [np.einsum("Lpq,pi,qj->Lij", lib.unpack_tril(b), both, both, optimize=True) for b in mf.with_df.loop()]
    fitted = np.concatenate(blocks)
    charges = np.einsum("Lii->Li", fitted)
    direct = charges.T @ charges
    n = inner.shape[1]
    mixed = fitted[:, :n, n:]
    coupling = np.einsum("Lia,Lia->ia", mixed, mixed)
    own = np.diag(direct)
    gap = 2 * (levels[None, n:] - levels[:n, None]) + own[:n, None] + own[None, n:] - 4 * direct[:n, n:] + 2 * coupling
    ratio = (np.sqrt(gap**2 + 4 * coupling**2) - gap) / (2 * np.maximum(coupling, 1e-12))
    filling = 2 * ratio**2 / (1 + ratio**2)
    i, a = (int(k) for k in np.unravel_index(int(filling.argmax()), filling.shape))
    return {"pair_occupation": float(filling[i, a]), "pair": transition(n - 1 - i, a)}


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


def _energy(mf: Any, settings: DftSettings, density: Any, spin: int = 0, reference: float | None = None) -> float:
    """Returns the energy of the solution from `density` on the grid of the comparison, hartree.

    spin: unpaired electrons. reference: the restricted energy; without it the calculation is restricted.
    """
    from pyscf import dft

    from sciagent_simulators.methods.pyscf_methods import set_method
    from sciagent_simulators.solvents import in_solvent

    mol = mf.mol.copy()
    mol.spin = spin
    mol.build(False, False)
    solver = (dft.RKS(mol) if reference is None else dft.UKS(mol)).density_fit()
    solver.with_df = mf.with_df
    set_method(solver, settings)
    solver.grids.level, solver.conv_tol, solver.max_cycle = COARSE, 1e-6, settings.max_cycles
    solver = in_solvent(solver, settings.solvent, settings.solvent_model)
    for second_order in (False, True):
        solver, density = (solver.newton(), solver.make_rdm1()) if second_order else (solver, density)
        solver.chkfile = None
        solver.kernel(dm0=density)
        # An unconverged energy below the reference decides too, since the converged energy is even lower.
        if solver.converged or (reference is not None and solver.e_tot < reference - LOWER):
            return float(solver.e_tot)
    raise failure(Reason.SCF_NOT_CONVERGED, "a calculation of the spin check did not converge")
