"""Excitations by the Tamm-Dancoff approximation with PySCF's results, at a fraction of its cost.

PySCF's density fitting computes exchange for densities of any form. In the Tamm-Dancoff approximation they are
D = H C^T, where C are the occupied orbitals, and only K C of the exchange K is used. This saves a factor of basis
functions per occupied orbital. PySCF's solver also adds up to 20 trial vectors per cycle, where a few are enough.
Coumarin, CAM-B3LYP/def2-SVP, grid 1, two states: 46 core-seconds instead of 381.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

EXTRA_TRIALS = (
    4  # beyond the number of states: with one vector per state formaldehyde's third and coumarin's first are missed
)
SHARE = 0.2  # share of the free memory for a block of integrals and the arrays contracted with it
CYCLES = 200


def run_lowest(solver: Any, full: bool = False) -> None:
    """Solves a pyscf.tdscf.TDA (if full, TDDFT) object of a density-fitted, converged restricted mean field.

    The results are `solver.e`, `solver.xy` and `solver.converged`. Only TDA uses the faster exchange."""
    mf = solver._scf
    occupied = int(np.count_nonzero(mf.mo_occ))
    room = occupied * (len(mf.mo_occ) - occupied)
    if not full:
        solver._scf = mf.copy()
        solver._scf.with_df = _OccupiedExchange(mf)
    solver.max_cycle = CYCLES
    try:
        with _few_trials(solver.nstates) as trials:
            solver.kernel(x0=solver.get_init_guess(mf, min(trials, room)))
    finally:
        solver._scf = mf


@contextmanager
def _few_trials(states: int) -> Iterator[int]:
    """Limits PySCF's solver to `states + EXTRA_TRIALS` new trial vectors per cycle. Yields this number."""
    from pyscf.tdscf import _lr_eig

    before, _lr_eig.MAX_SPACE_INC = _lr_eig.MAX_SPACE_INC, states + EXTRA_TRIALS
    try:
        yield states + EXTRA_TRIALS
    finally:
        _lr_eig.MAX_SPACE_INC = before


class _OccupiedExchange:
    """A replacement of a mean field's density fitting object with faster exchange K.

    For densities that are not symmetric it returns K C C^T S, where C are the occupied orbitals and S the overlap.
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
        """Has the arguments and results of pyscf.df.DF.get_jk. dm: (..., nao, nao)."""
        if hermi != 0 or not with_k:
            whole = self._fitted.get_jk(dm, hermi, with_j, with_k, direct_scf_tol, omega)
            return whole[0], whole[1]
        vj = self._fitted.get_jk(dm, hermi, True, False, direct_scf_tol, omega)[0] if with_j else None
        if omega is None:
            return vj, self._exchange(self._fitted, np.asarray(dm), None)
        with self._fitted.range_coulomb(omega) as fitted:
            return vj, self._exchange(fitted, np.asarray(dm), omega)

    def _exchange(self, fitted: Any, dm: np.ndarray, omega: float | None) -> np.ndarray:
        nao, occupied = self._occupied.shape
        half = dm.reshape(-1, nao, nao) @ self._dual  # H of each density
        width = len(half) * occupied
        if omega not in self._pairs:
            small = [self._occupied.T @ block @ self._occupied for block in _blocks(fitted, nao, occupied)]
            self._pairs[omega] = np.vstack(small)
        product, done = np.zeros((nao, width)), 0
        for block in _blocks(fitted, nao, width):
            rows = len(block)
            right = half.reshape(-1, occupied) @ self._pairs[omega][done : done + rows]
            right = right.reshape(rows, len(half), nao, occupied).transpose(0, 2, 1, 3)
            product += block.reshape(rows * nao, nao).T @ right.reshape(rows * nao, width)
            done += rows
        on_occupied = product.reshape(nao, len(half), occupied).transpose(1, 0, 2)
        return np.asarray(on_occupied @ self._dual.T).reshape(dm.shape)


def _blocks(fitted: Any, nao: int, width: int) -> Iterator[np.ndarray]:
    """Yields the fitted integrals in blocks of auxiliary functions, (rows, nao, nao)."""
    from pyscf import lib

    left = max(200.0, fitted.max_memory - lib.current_memory()[0])  # MB
    rows = max(4, min(int(fitted.blockdim), int(SHARE * left * 1e6 / 8 / (nao * (nao + 2 * width)))))
    for packed in fitted.loop(rows):
        yield lib.unpack_tril(packed)
