"""Vertical excitations by full TDDFT or its Tamm-Dancoff approximation, and the checks of the result.

The spatial overlap of an excitation, Lambda = sum k_ia^2 <|i| | |a|> / sum k_ia^2 with k = X + Y, is near 1 where the
hole and the electron lie in the same place. Functionals without long-range exchange give much too low energies to
charge-transfer excitations: errors exceed 0.5 eV for Lambda below 0.3 (hybrids) or 0.4 (other functionals).

Energies in eV, oscillator strengths in the length gauge.

Sources: Peach, Benfield, Helgaker, Tozer, J. Chem. Phys. 128, 044118 (2008). TDA: Hirata, Head-Gordon, Chem. Phys.
Lett. 314, 291 (1999). CAM-B3LYP: Yanai, Tew, Handy, Chem. Phys. Lett. 393, 51 (2004).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sciagent.domain.outcomes import Reason
from sciagent_simulators.geometry import failure
from sciagent_simulators.pyscf_response import run_lowest
from sciagent_simulators.pyscf_solvent import answer_fast
from sciagent_simulators.spin_check import transition
from sciagent_simulators.tblite_engine import HARTREE

NANOMETRE_EV = 1239.841984  # hc: wavelength in nm = this over the energy in eV (exact in the SI of 2019)
OVERLAP_HYBRID, OVERLAP_LOCAL = 0.3, 0.4
NEAR = 0.02  # eV; excitations closer than this share their oscillator strength arbitrarily
GRID_BLOCK = 20000
RESIDUAL = 1e-3  # hartree; against 1e-5, S1 changes by 2e-5 eV and f by 0.001, at half of the cost (coumarin)


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
    occupied = int(np.count_nonzero(mf.mo_occ))
    room = occupied * (len(mf.mo_occ) - occupied)
    if room == 0:
        raise failure(Reason.NO_EXCITED_STATE, "the basis leaves no empty orbital to excite to")
    solver = mf.TDDFT() if full else mf.TDA()
    solver.singlet, solver.nstates, solver.conv_tol, solver.verbose = singlet, min(states, room), conv_tol, 0
    if not full:
        solver.positive_eig_threshold = -np.inf  # keeps negative roots; in full TDDFT they would be imaginary
    if solvent is not None:
        answer_fast(solver, solvent)
    run_lowest(solver, full)
    name = "singlet" if singlet else "triplet"
    energies = np.asarray(solver.e, dtype=float) * HARTREE
    if len(energies) < solver.nstates and full:
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
    sums = [np.asarray(x) + (np.asarray(y) if full else 0.0) for x, y in solver.xy]
    overlaps = overlap(mf, sums)
    excitations = [
        Excitation(float(e), float(f), float(o), _main(k, occupied))
        for e, f, o, k in zip(energies, strengths, overlaps, sums, strict=True)
    ]
    return sorted(excitations, key=lambda state: state.energy)


def overlap(mf: Any, amplitudes: list[Any]) -> list[float]:
    """Returns Lambda of each excitation, on the coarsest grid (error 0.01). amplitudes: X + Y, occupied x empty."""
    from pyscf import dft

    coefficients, occupied = np.asarray(mf.mo_coeff), int(np.count_nonzero(mf.mo_occ))
    grids = dft.gen_grid.Grids(mf.mol)
    grids.level = 0
    grids.build()
    total = np.zeros((occupied, coefficients.shape[1] - occupied))
    for start in range(0, len(grids.weights), GRID_BLOCK):
        block = slice(start, start + GRID_BLOCK)
        orbitals = np.abs(mf.mol.eval_gto("GTOval", grids.coords[block]) @ coefficients)
        total += (orbitals[:, :occupied] * grids.weights[block, None]).T @ orbitals[:, occupied:]
    return [float((a**2 * total).sum() / (a**2).sum()) for a in amplitudes]


def check_charge_transfer(excitation: Excitation, mf: Any) -> None:
    """Raises SimulatorError unstable (charge_transfer) if Lambda is below the limit of the functional."""
    omega, _, exchange = mf._numint.rsh_and_hybrid_coeff(mf.xc)
    limit = OVERLAP_HYBRID if exchange > 0 else OVERLAP_LOCAL
    if omega == 0 and exchange < 1 and excitation.overlap < limit:
        raise failure(
            Reason.CHARGE_TRANSFER,
            f"S1 at {excitation.energy:.2f} eV has an overlap of {excitation.overlap:.2f}, and {mf.xc} places such an "
            "excitation far too low; a range-separated functional (CAM-B3LYP, wB97X) does not",
            s1=excitation.as_dict(),
        )


def _main(amplitudes: Any, occupied: int) -> str:
    share = amplitudes**2 / (amplitudes**2).sum()
    i, a = (int(k) for k in np.unravel_index(int(share.argmax()), share.shape))
    return f"{transition(occupied - 1 - i, a)} {share[i, a]:.2f}"
