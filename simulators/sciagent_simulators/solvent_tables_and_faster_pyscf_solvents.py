"""Implicit solvents: SMD, IEF-PCM, C-PCM and ddCOSMO for PySCF, ALPB and GBSA for xTB, under common names.

SMD includes the terms for cavity, dispersion and solvent structure. The other three are electrostatic only.
Dielectric constants and refractive indices are taken from the table of SMD.

In every cycle PySCF recomputes the integrals for the potential on the cavity surface twice and solves the surface
equations anew, although their matrix is constant. This module keeps the integrals, if they fit in memory, and the
factorised matrix. The results agree within 1e-9 hartree (a test), and SMD of acetone takes a fifth of the time.

Sources: SMD: Marenich, Cramer, Truhlar, J. Phys. Chem. B 113, 6378 (2009). IEF-PCM: Cances, Mennucci, Tomasi, J. Chem.
Phys. 107, 3032 (1997). ddCOSMO: Cances, Maday, Stamm, J. Chem. Phys. 139, 054111 (2013).

ALPB and GBSA have parameters for the solvents listed here in GFN1-xTB and GFN2-xTB. A free energy of solvation is that
of the transfer from 1 mol/L of ideal gas to 1 mol/L of solution at 298.15 K (tblite's solution state `gsolv`), as in
hydration databases. The convention from 1 bar of gas to 1 mol/L, `bar1M` in `xtb`, gives values that are kT ln 24.79 =
0.0825 eV (1.90 kcal/mol) higher.

Sources: ALPB and GBSA in xtb: Ehlert, Stahn, Spicher, Grimme, J. Chem. Theory Comput. 17, 4250 (2021). States:
https://tblite.readthedocs.io/en/latest/spec/solvation.html. Each solvent was tested with tblite 0.8.0; formaldehyde
agrees with xtb 6.5.1 within 1e-7 hartree. GBSA has the same parameters for benzene and toluene.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

PyscfSolvent = Literal[
    "acetone", "acetonitrile", "aniline", "benzaldehyde", "benzene", "carbon disulfide", "chloroform", "cyclohexane",
    "1,2-dichloroethane", "dichloromethane", "diethyl ether", "dimethyl sulfoxide", "dimethylformamide", "dioxane",
    "ethanol", "ethyl acetate", "hexadecane", "hexane", "methanol", "nitromethane", "octanol", "tetrahydrofuran",
    "toluene", "water",
]  # fmt: skip
PYSCF_SOLVENTS: tuple[str, ...] = get_args(PyscfSolvent)
SolventModel = Literal["SMD", "IEF-PCM", "C-PCM", "ddCOSMO"]

# A solvent's name in the table of SMD, where it differs from the common name.
_SMD = {
    "diethyl ether": "diethylether",
    "dimethyl sulfoxide": "dimethylsulfoxide",
    "dimethylformamide": "N,N-dimethylformamide",
    "dioxane": "1,4-dioxane",
    "ethyl acetate": "ethylethanoate",
    "hexadecane": "n-hexadecane",
    "hexane": "n-hexane",
    "octanol": "1-octanol",
}
KEPT_SHARE = 0.5  # share of the molecule's memory limit for the surface integrals


def constants(solvent: str) -> tuple[float, float]:
    """Returns static dielectric constant and refractive index at 298 K. Raises KeyError for an unlisted solvent."""
    from pyscf.solvent.smd import solvent_db

    if solvent not in PYSCF_SOLVENTS:
        raise KeyError(solvent)
    row = solvent_db[_SMD.get(solvent, solvent)]
    permittivity = float(row[5])
    refractive_index = float(row[0])
    return permittivity, refractive_index


def in_solvent(mf: Any, solvent: str | None, model: str) -> Any:
    """Returns the mean field in the solvent; unchanged for None. Density fitting must be attached before."""
    if solvent is None:
        return mf
    from pyscf.solvent import ddCOSMO
    from pyscf.solvent._attach_solvent import _for_scf

    permittivity, _ = constants(solvent)
    if model == "ddCOSMO":
        mf = ddCOSMO(mf)
        mf.with_solvent.eps = permittivity
        return mf
    smd, pcm = _surface_models()
    if model == "SMD":
        return _for_scf(mf, smd(mf.mol, _SMD.get(solvent, solvent)))
    surface = pcm(mf.mol)
    surface.method = model
    surface.eps = permittivity
    return _for_scf(mf, surface)


def set_optical_permittivity(excitation: Any, solvent: str) -> None:
    """Sets a non-equilibrium solvent: only its electrons respond, with the squared refractive index as constant.

    excitation: a TDA or TDDFT object on a mean field in solvent. PySCF uses water's 1.78 for every solvent.
    """
    surface = excitation.with_solvent
    surface.reset()
    _, refractive_index = constants(solvent)
    surface.eps = refractive_index**2
    surface.build()


@lru_cache(maxsize=1)
def _surface_models() -> tuple[Any, Any]:
    """Returns PySCF's classes of SMD and PCM with the methods of `_KeptIntegrals`."""
    from pyscf.solvent import pcm, smd

    class SMD(_KeptIntegrals, smd.SMD):  # type: ignore[misc]
        pass

    class PCM(_KeptIntegrals, pcm.PCM):  # type: ignore[misc]
        pass

    return SMD, PCM


class _KeptIntegrals:
    """A solvent model that keeps the integrals of surface charges with basis function pairs, and the factorised matrix.

    `_kept`: integrals, n(n+1)/2 x surface points; None before their first use. `_factors`: LU factors of PySCF's matrix
    K; the surface charges q of a potential v solve K q = R v. Except `_pairs` and `_charges`, the methods replace those
    of PySCF's classes.
    """

    _keys = {"_kept", "_factors"}  # attributes that PySCF does not know; it warns of others

    def build(self, ng: Any = None) -> Any:
        self._kept: Any = None
        self._factors: Any = None
        return super().build(ng)  # type: ignore[misc]

    def reset(self, mol: Any = None) -> Any:
        self._kept = None
        self._factors = None
        return super().reset(mol)  # type: ignore[misc]

    def _pairs(self) -> Any:
        """Returns the integrals, n(n+1)/2 x surface points; None if they exceed KEPT_SHARE of the memory."""
        from pyscf import df, gto

        this: Any = self  # with the attributes of PySCF's class
        mol = this.mol
        coordinates = this.surface["grid_coords"]
        n = int(mol.nao)
        n_integrals = n * (n + 1) // 2 * len(coordinates)
        megabytes = n_integrals * 8e-6  # 8 bytes each
        if megabytes > KEPT_SHARE * mol.max_memory:
            return None
        if self._kept is None:
            charges = gto.fakemol_for_charges(coordinates, expnt=this.surface["charge_exp"] ** 2)
            charges.cart = mol.cart
            self._kept = df.incore.aux_e2(mol, charges, intor=mol._add_suffix("int3c2e"), aosym="s2ij")
        return self._kept

    def _get_v(self, dms: Any) -> Any:
        """Returns the potentials of the density matrices at the surface points, m x points."""
        from pyscf import lib

        kept = self._pairs()
        if kept is None:
            return super()._get_v(dms)  # type: ignore[misc]
        n = dms.shape[-1]
        densities = np.asarray(dms).reshape(-1, n, n)
        # The integrals have one triangle of the pairs only, so the packed densities have the sum of both triangles.
        packed = lib.pack_tril(densities + densities.transpose(0, 2, 1))
        diagonal = np.arange(1, n + 1).cumsum() - 1  # places of the diagonal elements in a packed triangle
        packed[:, diagonal] *= 0.5  # they have been added to themselves
        return packed @ kept

    def _get_vmat(self, q: Any) -> Any:
        """Returns the matrices of the potential of surface charges, m x n x n."""
        from pyscf import lib

        kept = self._pairs()
        if kept is None:
            return super()._get_vmat(q)  # type: ignore[misc]
        charges = np.asarray(q).reshape(-1, kept.shape[1])
        return -lib.unpack_tril((kept @ charges.T).T.copy())

    def _charges(self, potential: Any) -> tuple[Any, Any]:
        """Returns the surface charges of the potentials, symmetrised and as solved; all m x points."""
        from scipy.linalg import lu_factor, lu_solve

        parts: Any = self._intermediates  # type: ignore[attr-defined]
        if self._factors is None:
            self._factors = lu_factor(parts["K"])
        q = lu_solve(self._factors, parts["R"] @ potential.T).T
        transposed_q = (parts["R"].T @ lu_solve(self._factors, potential.T, trans=1)).T
        return (q + transposed_q) / 2, q

    def _get_vind(self, dms: Any) -> Any:
        """Returns the energy of the solvent, hartree, and the matrix of its potential, n x n."""
        this: Any = self
        if not this._intermediates:
            this.build()
        n = dms.shape[-1]
        dms = dms.reshape(-1, n, n)
        if dms.shape[0] == 2:  # alpha and beta
            dms = (dms[0] + dms[1]).reshape(-1, n, n)
        potential = this.v_grids_n - self._get_v(dms)
        charges, unsymmetrised = self._charges(potential)
        # PySCF's gradient reads these values and recomputes the unsymmetrised charges from `dm`.
        values_for_gradient = {"q_sym": charges[0], "v_grids": potential[0], "dm": dms, "q": unsymmetrised[0]}
        this._intermediates.update(values_for_gradient)
        energy = 0.5 * float(charges[0] @ potential[0])
        return energy, self._get_vmat(charges)[0]

    def _B_dot_x(self, dms: Any) -> Any:
        """Returns the matrices by which the solvent responds to changes of the density, in the shape of `dms`."""
        this: Any = self
        if not this._intermediates:
            this.build()
        n = dms.shape[-1]
        potential = -self._get_v(dms.reshape(-1, n, n))
        charges, _ = self._charges(potential)
        return self._get_vmat(charges).reshape(dms.shape)


Solvent = Literal[
    "acetone", "acetonitrile", "aniline", "benzaldehyde", "benzene", "carbon disulfide", "chloroform",
    "dichloromethane", "diethyl ether", "dimethyl sulfoxide", "dimethylformamide", "dioxane", "ethanol",
    "ethyl acetate", "furan", "hexadecane", "hexane", "methanol", "nitromethane", "octanol", "phenol",
    "tetrahydrofuran", "toluene", "water", "wet octanol",
]  # fmt: skip
SOLVENTS: tuple[str, ...] = get_args(Solvent)
Model = Literal["alpb", "gbsa"]

STATE = "gsolv"  # tblite's solution state of the transfer from 1 mol/L to 1 mol/L
# tblite's name of a solvent, where it differs from the common name
_TBLITE = {
    "carbon disulfide": "cs2",
    "chloroform": "chcl3",
    "dichloromethane": "ch2cl2",
    "diethyl ether": "ether",
    "dimethyl sulfoxide": "dmso",
    "dimethylformamide": "dmf",
    "ethyl acetate": "ethylacetate",
    "furan": "furane",
    "tetrahydrofuran": "thf",
    "wet octanol": "woctanol",
}
_GBSA_BOTH = frozenset({
    "acetone", "acetonitrile", "carbon disulfide", "chloroform", "dichloromethane", "diethyl ether",
    "dimethyl sulfoxide", "methanol", "tetrahydrofuran", "toluene", "water",
})  # fmt: skip
GBSA: dict[str, frozenset[str]] = {
    "GFN1-xTB": _GBSA_BOTH | {"benzene"},
    "GFN2-xTB": _GBSA_BOTH | {"benzene", "dimethylformamide", "hexane"},
}


@dataclass(frozen=True)
class Solvation:
    """A solvent and the implicit model that describes it."""

    solvent: str
    model: Model = "alpb"

    def arguments(self) -> tuple[str, str, str]:
        """Returns interaction, solvent and solution state in the spelling of tblite's calculator."""
        return f"{self.model}-solvation", _TBLITE.get(self.solvent, self.solvent), STATE


def unparametrised(method: str, model: str, solvent: str) -> str | None:
    """Returns why the solvent has no parameters, with a list of those that do, or None. IPEA1-xTB uses GFN1-xTB's."""
    known: Sequence[str] = SOLVENTS
    if model == "gbsa":
        parametrised_method = "GFN2-xTB" if method == "GFN2-xTB" else "GFN1-xTB"
        known = sorted(GBSA[parametrised_method])
    if solvent in known:
        return None
    return f'{model.upper()} has no parameters for "{solvent}" in {method}; it has: {", ".join(known)}'
