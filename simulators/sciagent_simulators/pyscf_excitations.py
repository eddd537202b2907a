"""Vertical excitations by full TDDFT or its Tamm-Dancoff approximation, and the checks of the result.

The spatial overlap of an excitation, Lambda = sum k_ia^2 <|i| | |a|> / sum k_ia^2 with k = X + Y, is near 1 where the
hole and the electron lie in the same place. Functionals without long-range exchange give much too low energies to
charge-transfer excitations: errors exceed 0.5 eV for Lambda below 0.3 (hybrids) or 0.4 (other functionals).

Energies in eV, oscillator strengths in the length gauge.

The Tamm-Dancoff approximation has PySCF's results at a fraction of its cost. PySCF's density fitting computes exchange
for densities of any form. Here they are D = H C^T, where C are the occupied orbitals, and only K C of the exchange K is
used. The cost falls by the ratio of basis functions to occupied orbitals. PySCF's solver also adds up to 20 trial
vectors per cycle, where a few are enough. Coumarin, CAM-B3LYP/def2-SVP, grid 1, two states: 46 core-seconds instead of
381.

Sources: Peach, Benfield, Helgaker, Tozer, J. Chem. Phys. 128, 044118 (2008). TDA: Hirata, Head-Gordon, Chem. Phys.
Lett. 314, 291 (1999). CAM-B3LYP: Yanai, Tew, Handy, Chem. Phys. Lett. 393, 51 (2004).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_simulators.geometry_and_its_checks import failure
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import set_optical_permittivity
from sciagent_simulators.tblite_engine import HARTREE

NANOMETRE_EV = 1239.841984  # hc: wavelength in nm = this over the energy in eV (exact in the SI of 2019)
OVERLAP_HYBRID = 0.3  # smallest accepted Lambda with a global hybrid
OVERLAP_LOCAL = 0.4  # smallest accepted Lambda with a functional without exact exchange
NEAR = 0.02  # eV; excitations closer than this share their oscillator strength arbitrarily
GRID_BLOCK = 20000  # grid points at a time
RESIDUAL = 1e-3  # hartree; against 1e-5, S1 changes by 2e-5 eV and f by 0.001, at half of the cost (coumarin)

# Trial vectors beyond one per state. Without them formaldehyde's third and coumarin's first state are missed.
EXTRA_TRIALS = 4
MEMORY_SHARE = 0.2  # share of the free memory for a block of integrals and the arrays contracted with it
CYCLES = 200  # largest number of cycles of PySCF's solver


@dataclass(frozen=True)
class Excitation:
    """A vertical excitation."""

    energy: float
    """eV."""
    strength: float
    """Oscillator strength; 0 for a triplet."""
    overlap: float
    """Lambda, 0 to 1."""
    main: str
    """The largest transition between orbitals and its share."""

    @property
    def wavelength(self) -> float:
        """The wavelength, nm."""
        return NANOMETRE_EV / self.energy

    def as_dict(self) -> dict[str, Any]:
        return {"energy": self.energy, "f": self.strength, "overlap": self.overlap, "main": self.main}


def excite(
    mf: Any,
    states: int,
    singlet: bool = True,
    full: bool = False,
    solvent: str | None = None,
    conv_tol: float = RESIDUAL,
) -> list[Excitation]:
    """Returns the lowest excitations of a converged restricted mean field, by ascending energy.

    full: full TDDFT instead of the Tamm-Dancoff approximation. solvent: the solvent of mf; only its electrons
    respond to the excitation. conv_tol: length of the residual, hartree.
    Raises SimulatorError refused (no_excited_state), not_converged (scf_not_converged), unstable (scf_unstable: a
    negative or imaginary root).
    """
    n_occupied = int(np.count_nonzero(mf.mo_occ))
    n_transitions = n_occupied * (len(mf.mo_occ) - n_occupied)
    if n_transitions == 0:
        raise failure(Reason.NO_EXCITED_STATE, "the basis leaves no empty orbital to excite to")
    solver = mf.TDDFT() if full else mf.TDA()
    solver.singlet = singlet
    solver.nstates = min(states, n_transitions)
    solver.conv_tol = conv_tol
    solver.verbose = 0
    if not full:
        solver.positive_eig_threshold = -np.inf  # keeps negative roots; in full TDDFT they would be imaginary
    if solvent is not None:
        set_optical_permittivity(solver, solvent)
    run_lowest(solver, full)
    name = "singlet" if singlet else "triplet"
    energies = np.asarray(solver.e, dtype=float) * HARTREE
    if len(energies) < solver.nstates and full:  # the solver leaves out imaginary ones
        raise failure(
            Reason.SCF_UNSTABLE,
            f"{solver.nstates - len(energies)} of {solver.nstates} {name} excitations are imaginary: the ground state "
            "is not stable",
        )
    if len(energies) < solver.nstates or not np.all(np.atleast_1d(solver.converged)):
        raise failure(Reason.SCF_NOT_CONVERGED, f"the {name} excitations did not converge")
    if energies.min() <= 0:
        raise failure(
            Reason.SCF_UNSTABLE,
            f"the lowest {name} excitation is {energies.min():.3f} eV: another state lies below this ground state",
        )
    strengths = np.asarray(solver.oscillator_strength(gauge="length")) if singlet else np.zeros(len(energies))
    sums = []  # X + Y of each excitation; X alone in the Tamm-Dancoff approximation
    for x, y in solver.xy:
        amplitudes = np.asarray(x)
        if full:
            amplitudes = amplitudes + np.asarray(y)
        sums.append(amplitudes)
    overlaps = overlap(mf, sums)
    excitations = [
        Excitation(float(energy), float(strength), float(lambda_), main=_main_transition(x_plus_y, n_occupied))
        for energy, strength, lambda_, x_plus_y in zip(energies, strengths, overlaps, sums, strict=True)
    ]
    return sorted(excitations, key=lambda state: state.energy)


def overlap(mf: Any, amplitudes: list[Any]) -> list[float]:
    """Returns Lambda of each excitation, on the coarsest grid (error 0.01). amplitudes: X + Y, occupied x empty."""
    from pyscf import dft

    coefficients = np.asarray(mf.mo_coeff)
    n_occupied = int(np.count_nonzero(mf.mo_occ))
    grids = dft.gen_grid.Grids(mf.mol)
    grids.level = 0
    grids.build()
    overlaps = np.zeros((n_occupied, coefficients.shape[1] - n_occupied))  # <|i| | |a|>
    for start in range(0, len(grids.weights), GRID_BLOCK):
        block = slice(start, start + GRID_BLOCK)
        orbitals = np.abs(mf.mol.eval_gto("GTOval", grids.coords[block]) @ coefficients)
        weighted_occupied = orbitals[:, :n_occupied] * grids.weights[block, None]
        overlaps += weighted_occupied.T @ orbitals[:, n_occupied:]
    return [float((k**2 * overlaps).sum() / (k**2).sum()) for k in amplitudes]


def check_charge_transfer(excitation: Excitation, mf: Any) -> None:
    """Raises SimulatorError unstable (charge_transfer) if Lambda is below the limit of the functional."""
    omega, _, exchange = mf._numint.rsh_and_hybrid_coeff(mf.xc)
    limit = OVERLAP_HYBRID if exchange > 0 else OVERLAP_LOCAL
    # A range-separated functional (omega not 0) and Hartree-Fock (exchange 1) have the long-range exchange.
    if omega == 0 and exchange < 1 and excitation.overlap < limit:
        raise failure(
            Reason.CHARGE_TRANSFER,
            f"S1 at {excitation.energy:.2f} eV has an overlap of {excitation.overlap:.2f}, and {mf.xc} places such an "
            "excitation far too low; a range-separated functional (CAM-B3LYP, wB97X) does not",
            s1=excitation.as_dict(),
        )


def _main_transition(amplitudes: Any, n_occupied: int) -> str:
    """Returns the largest transition and its share, such as `HOMO > LUMO 0.95`."""
    share = amplitudes**2 / (amplitudes**2).sum()
    largest = np.unravel_index(int(share.argmax()), share.shape)
    i = int(largest[0])
    a = int(largest[1])
    below_homo = n_occupied - 1 - i  # the last occupied orbital is the HOMO
    return f"{transition(below_homo, a)} {share[i, a]:.2f}"


def transition(below: int, above: int) -> str:
    """Returns the name of a pair of orbitals, such as HOMO-1 > LUMO; both numbers count from the frontier."""
    occupied = f"HOMO-{below}" if below else "HOMO"
    empty = f"LUMO+{above}" if above else "LUMO"
    return f"{occupied} > {empty}"


def run_lowest(solver: Any, full: bool = False) -> None:
    """Solves a pyscf.tdscf.TDA (if full, TDDFT) object of a density-fitted, converged restricted mean field.

    The results are `solver.e`, `solver.xy` and `solver.converged`. Only TDA uses the faster exchange."""
    from pyscf.tdscf import _lr_eig

    mf = solver._scf
    n_occupied = int(np.count_nonzero(mf.mo_occ))
    n_transitions = n_occupied * (len(mf.mo_occ) - n_occupied)
    if not full:
        solver._scf = mf.copy()
        solver._scf.with_df = _OccupiedExchange(mf)
    solver.max_cycle = CYCLES
    n_trials = solver.nstates + EXTRA_TRIALS
    limit_before = _lr_eig.MAX_SPACE_INC
    _lr_eig.MAX_SPACE_INC = n_trials  # new trial vectors per cycle
    try:
        first_vectors = solver.get_init_guess(mf, min(n_trials, n_transitions))
        solver.kernel(x0=first_vectors)
    finally:
        _lr_eig.MAX_SPACE_INC = limit_before
        solver._scf = mf


class _OccupiedExchange:
    """A replacement of a mean field's density fitting object with faster exchange K.

    For densities that are not symmetric it returns K C C^T S, where C are the occupied orbitals and S the overlap. Such
    a density D is H C^T.
    `_pairs`: fitted integrals (auxiliary, occupied, occupied) by omega.
    """

    def __init__(self, mf: Any) -> None:
        self._fitted = mf.with_df
        self._occupied = np.asarray(mf.mo_coeff)[:, np.asarray(mf.mo_occ) > 0]
        self._dual = mf.get_ovlp() @ self._occupied  # S C: its transpose times C is 1
        self._pairs: dict[float | None, np.ndarray] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fitted, name)

    def get_jk(
        self,
        dm: Any,
        hermi: int = 1,
        with_j: bool = True,
        with_k: bool = True,
        direct_scf_tol: float = 1e-13,
        omega: float | None = None,
    ) -> tuple[Any, Any]:
        """Returns Coulomb J and exchange K of the densities, as pyscf.df.DF.get_jk. dm: (..., nao, nao)."""
        if hermi != 0 or not with_k:  # PySCF's own serves symmetric densities, and J alone
            vj, vk = self._fitted.get_jk(dm, hermi, with_j, with_k, direct_scf_tol, omega)
            return vj, vk
        vj = None
        if with_j:
            vj, _ = self._fitted.get_jk(
                dm, hermi, with_j=True, with_k=False, direct_scf_tol=direct_scf_tol, omega=omega
            )
        if omega is None:
            return vj, self._exchange(self._fitted, np.asarray(dm), omega=None)
        with self._fitted.range_coulomb(omega) as fitted:
            return vj, self._exchange(fitted, np.asarray(dm), omega)

    def _exchange(self, fitted: Any, dm: np.ndarray, omega: float | None) -> np.ndarray:
        """Returns K C C^T S of the densities, in the shape of `dm`. fitted: the integrals for this omega."""
        nao, n_occupied = self._occupied.shape
        h = dm.reshape(-1, nao, nao) @ self._dual  # H of each density, since D S C = H
        n_columns = len(h) * n_occupied
        if omega not in self._pairs:
            occupied_blocks = [self._occupied.T @ block @ self._occupied for block in _blocks(fitted, nao, n_occupied)]
            self._pairs[omega] = np.vstack(occupied_blocks)
        product = np.zeros((nao, n_columns))  # K C, the columns of all densities side by side
        n_rows_before = 0
        for block in _blocks(fitted, nao, n_columns):
            rows = len(block)
            pairs = self._pairs[omega][n_rows_before : n_rows_before + rows]
            right = h.reshape(-1, n_occupied) @ pairs
            right = right.reshape(rows, len(h), nao, n_occupied).transpose(0, 2, 1, 3)
            product += block.reshape(rows * nao, nao).T @ right.reshape(rows * nao, n_columns)
            n_rows_before += rows
        on_occupied = product.reshape(nao, len(h), n_occupied).transpose(1, 0, 2)
        return np.asarray(on_occupied @ self._dual.T).reshape(dm.shape)


def _blocks(fitted: Any, nao: int, n_columns: int) -> Iterator[np.ndarray]:
    """Yields the fitted integrals in blocks of auxiliary functions, (rows, nao, nao).

    n_columns: of the arrays, (rows, nao, n_columns), that the caller makes of a block."""
    from pyscf import lib

    free_memory = max(200.0, fitted.max_memory - lib.current_memory()[0])  # MB
    numbers_per_row = nao * (nao + 2 * n_columns)
    rows_in_memory = int(MEMORY_SHARE * free_memory * 1e6 / 8 / numbers_per_row)  # 8 bytes each
    rows = max(4, min(int(fitted.blockdim), rows_in_memory))
    for packed in fitted.loop(rows):
        yield lib.unpack_tril(packed)
