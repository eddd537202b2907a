"""A test whether a single determinant describes a closed shell: a two-determinant model of frontier orbital pairs.

In PBE0 the restricted solution of ozone is stable and its triplet lies 1.2 eV higher, yet 0.3 electrons belong in an
orbital that this solution leaves empty. For an occupied orbital i and an empty orbital a, two determinants put both
electrons into i or into a. They couple by the exchange integral K = (ia|ia). Their energies differ by

    D = 2 (f_aa - f_ii) + (ii|ii) + (aa|aa) - 4 (ii|aa) + 2 K

where f is the Fock operator of the closed shell. The lower root puts n = 2 c^2 / (1 + c^2) electrons into a, with
c = (sqrt(D^2 + 4 K^2) - D) / 2K. The test uses the largest n over the frontier, which does not grow with the molecule.

PBE0/def2-SVP: ozone 0.30 (0.26 on its GFN2-xTB geometry), F2 0.12, carbonyl oxide 0.11, rectangular cyclobutadiene and
nitromethane 0.10, ethylene, diazomethane and SO2 0.08, benzoquinone 0.06, azulene 0.05, nitrobenzene, anthracene 0.04,
benzene, naphthoquinone, N2 0.03. The test is related to the M diagnostic of Tishchenko, Zheng, Truhlar, J. Chem. Theory
Comput. 4, 1208 (2008), where more than 0.1 in CASSCF is strongly multireference. The limit here is higher, since the
model has only two determinants and does not relax the orbitals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

NEAR_DEGENERATE = 0.2
OCCUPIED, EMPTY = 6, 24  # numbers of frontier orbitals; diffuse functions add many empty orbitals at low energy


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
    below, above = n - 1 - i, a
    name = ("HOMO" + (f"-{below}" if below else "")) + " > " + ("LUMO" + (f"+{above}" if above else ""))
    return {"pair_occupation": float(filling[i, a]), "pair": name}
