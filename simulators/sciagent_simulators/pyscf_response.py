"""Excitations by the Tamm-Dancoff approximation at a fraction of PySCF's cost, with its numbers.

Two things take its time. Density fitting contracts exchange for densities of any form, yet those of the Tamm-Dancoff
approximation are D = H C^T with C the occupied orbitals, and only K C is used of their exchange K: with both, the work
falls by the number of basis functions over that of occupied orbitals. And the eigenvalue solver adds up to 20 trial
vectors a cycle, where a few do. Coumarin, CAM-B3LYP/def2-SVP, grid 1, two states: 46 core-seconds for 381.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

EXTRA_TRIALS = (
    4  # beyond the states asked for: with a vector a state formaldehyde's third and coumarin's first are missed
)
SHARE = 0.2  # of the memory that is left, for a block of integrals and what they are contracted with
CYCLES = 200


def run_lowest(solver: Any, full: bool = False) -> None:
    """Solve pyscf.tdscf.TDA, or in full TDDFT, of a density-fitted, converged restricted mean field: `solver.e`, `xy`,
    `converged`. What the module says of exchange holds for the former only."""
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
    """While it lasts, a search starts with `states + EXTRA_TRIALS` vectors and adds as many a cycle. Gives the sum."""
    from pyscf.tdscf import _lr_eig

    before, _lr_eig.MAX_SPACE_INC = _lr_eig.MAX_SPACE_INC, states + EXTRA_TRIALS
    try:
        yield states + EXTRA_TRIALS
    finally:
        _lr_eig.MAX_SPACE_INC = before


class _OccupiedExchange:
    """Stands for a mean field's density fitting. Of exchange for densities that are not symmetric it gives K C C^T S:
    K as far as the occupied orbitals C see it.

    `_pairs`: by omega, the fitted integrals (auxiliary, occupied, occupied).
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
        """As pyscf.df.DF.get_jk. dm: (..., nao, nao)."""
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
    """The fitted integrals, (some of the auxiliary functions, nao, nao) at a time."""
    from pyscf import lib

    left = max(200.0, fitted.max_memory - lib.current_memory()[0])  # MB
    rows = max(4, min(int(fitted.blockdim), int(SHARE * left * 1e6 / 8 / (nao * (nao + 2 * width)))))
    for packed in fitted.loop(rows):
        yield lib.unpack_tril(packed)
