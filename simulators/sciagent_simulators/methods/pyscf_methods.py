"""Sets a method on a PySCF mean field: functional, dispersion, the grid of VV10, and the parts of composite methods.

r2SCAN-3c is r2SCAN in def2-mTZVPP with D4 (its own charge scaling: 2 and 1) and the geometric counterpoise correction.
wB97X-3c is wB97X-V without VV10 in vDZP, which has core potentials from boron on, with D4. PySCF 2.14 knows neither by
name, and its D4 has no charge scaling of r2SCAN-3c. The parts: r2SCAN and wB97X-V by libxc, def2-mTZVPP by PySCF, vDZP
from the Basis Set Exchange (in `basis_sets`), D4 and gCP by pyscf-dispersion.

Sources: r2SCAN-3c: Grimme, Hansen, Ehlert, Mewes, J. Chem. Phys. 154, 064103 (2021). wB97X-3c: Mueller, Hansen, Grimme,
J. Chem. Phys. 158, 014103 (2023). VV10: Vydrov, Van Voorhis, J. Chem. Phys. 133, 244103 (2010). wB97X-V: Mardirossian,
Head-Gordon, PCCP 16, 9904 (2014); wB97M-V: J. Chem. Phys. 144, 214110 (2016). Basis Set Exchange: Pritchard et al.,
J. Chem. Inf. Model. 59, 4814 (2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sciagent_simulators.pyscf_engine import DftSettings

Array = NDArray[np.float64]

VV10_COARSER = 3  # levels by which the grid of VV10 is coarser, since its cost grows with the square of the points
STEP = 1e-4  # bohr, for the Hessian of the corrections
VDZP = "vdzp"
_FILE = Path(__file__).parent / "basis_sets" / "vdzp.nwchem"
_AUXILIARY = {VDZP: "def2-universal-jkfit"}  # for density fitting, where PySCF has no default
_POTENTIALS = {"def2-mtzvpp": "def2-tzvpp"}  # the basis set whose core potentials are used, if not its own


@dataclass(frozen=True)
class Composite:
    """A composite method."""

    functional: str
    """Name of the functional in PySCF's spelling."""
    basis: str
    """Name of its basis set in PySCF's spelling, or `vdzp`."""
    dispersion: str | None
    """PySCF's name of the dispersion correction; None where `corrections` has it."""


COMPOSITES = {
    "r2scan-3c": Composite("r2scan", "def2-mtzvpp", None),
    "wb97x-3c": Composite("wb97x-v", VDZP, "d4:wb97x-3c"),
}
"""The composite methods by the lower-case name that is the `functional` of their settings."""


def auxiliary(basis: str) -> str | None:
    """Returns the auxiliary basis set for density fitting; None for PySCF's default."""
    return _AUXILIARY.get(basis)


def basis_and_potentials(basis: str, symbols: list[str], heavy: list[str]) -> tuple[Any, Mapping[str, Any]]:
    """Returns PySCF's `basis` and `ecp` for these elements. heavy: those that have a core potential in def2.

    Raises pyscf.lib.exceptions.BasisNotFoundError for an element that vDZP lacks.
    """
    if basis != VDZP:
        return basis, dict.fromkeys(heavy, _POTENTIALS.get(basis, basis))
    elements = {symbol: _vdzp(symbol) for symbol in symbols}
    return {s: functions for s, (functions, _) in elements.items()}, {
        s: core for s, (_, core) in elements.items() if core
    }


@cache
def _vdzp(symbol: str) -> tuple[Any, Any]:
    """Returns the basis functions and the core potential, or None, of an element."""
    from pyscf.gto.basis import parse_nwchem, parse_nwchem_ecp

    functions, _, potentials = _FILE.read_text(encoding="utf-8").partition("\nECP\n")
    core = parse_nwchem_ecp.parse(potentials, symbol) if f"\n{symbol} nelec" in f"\n{potentials}" else None
    return parse_nwchem.parse(functions, symbol), core


def set_method(mf: Any, settings: DftSettings) -> None:
    """Sets functional and dispersion of a Kohn-Sham object, and the corrections of a composite method."""
    composite = COMPOSITES.get(settings.functional)
    mf.nlcgrids.level = max(0, settings.grid_level - VV10_COARSER)
    if composite is None:
        mf.xc, mf.disp = settings.functional, settings.dispersion
        return
    mf.xc, mf.disp, mf.nlc = composite.functional, composite.dispersion, False
    if composite.dispersion is None:
        mol = mf.mol
        mf.do_disp = lambda disp=None: True
        mf.get_dispersion = lambda *_, **__: corrections(mol)[0]


def gradient(mf: Any, settings: DftSettings) -> Any:
    """Returns the object that computes the gradient of a mean field, with the corrections of a composite method."""
    slope = mf.nuc_grad_method()
    slope.verbose = 0
    if _is_corrected(settings):
        slope.get_dispersion = lambda *_, **__: corrections(mf.mol)[1]
    return slope


def hessian(mf: Any, settings: DftSettings) -> Any:
    """Returns the object that computes the Hessian of a mean field, with the corrections of a composite method."""
    second = mf.Hessian()
    second.verbose = 0
    if _is_corrected(settings):
        second.get_dispersion = lambda *_, **__: _second_derivatives(mf.mol)
    return second


def _is_corrected(settings: DftSettings) -> bool:
    composite = COMPOSITES.get(settings.functional)
    return composite is not None and composite.dispersion is None


def corrections(mol: Any) -> tuple[float, Array]:
    """Returns D4 and counterpoise correction of r2SCAN-3c, hartree, and their gradient, n x 3, hartree/bohr."""
    from pyscf.dispersion.dftd4 import DFTD4Dispersion
    from pyscf.dispersion.gcp import GCP

    parts = (
        DFTD4Dispersion(mol, xc="r2scan-3c", ga=2.0, gc=1.0).get_dispersion(grad=True),
        GCP(mol, method="r2scan3c").get_counterpoise(grad=True),
    )
    return sum(float(part["energy"]) for part in parts), np.sum([part["gradient"] for part in parts], axis=0)


def _second_derivatives(mol: Any) -> Array:
    """Returns the Hessian of the corrections, n x n x 3 x 3, by central differences."""
    moved, start = mol.copy(), np.asarray(mol.atom_coords())
    result = np.zeros((mol.natm, mol.natm, 3, 3))
    for atom, axis in np.ndindex(start.shape):
        ends = []
        for sign in (1, -1):
            positions = start.copy()
            positions[atom, axis] += sign * STEP
            moved.set_geom_(positions, unit="bohr")
            ends.append(corrections(moved)[1])
        result[atom, :, axis, :] = (ends[0] - ends[1]) / (2 * STEP)
    return result
