"""The Hessian of a density functional in the gas phase: PySCF's analytic one, else central differences of gradients.

PySCF has no analytic Hessian for non-local correlation (VV10). The analytic Hessian is that of the density-fitted
energy, with the dispersion correction.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.geometry import Geometry
from sciagent_simulators.methods.pyscf_methods import hessian
from sciagent_simulators.pyscf_engine import DftSettings
from sciagent_simulators.pyscf_relax import Gradients
from sciagent_simulators.tblite_engine import BOHR, HARTREE
from sciagent_simulators.thermochemistry.normal_modes import numerical_hessian

Array = NDArray[np.float64]

STEP = 0.01  # angstrom


def pyscf_hessian(
    mf: Any, geometry: Geometry, settings: DftSettings, checkpoint: Path | None = None, threads: int = 1
) -> tuple[Array, str]:
    """Returns the Hessian, 3n x 3n, eV/angstrom^2, and how it was made: `analytic` or `numerical`.

    mf: the converged mean field at the geometry, without a solvent. checkpoint: file of the orbitals of the gradients.
    Raises SimulatorError as `Gradients.at` does.
    """
    from pyscf import lib

    with lib.with_omp_threads(threads):
        if not is_numerical(mf):
            blocks = np.asarray(hessian(mf, settings).kernel())  # n x n x 3 x 3, hartree/bohr^2
            flat = blocks.transpose(0, 2, 1, 3).reshape(geometry.positions.size, -1)
            return flat * HARTREE / BOHR**2, "analytic"
        gradients = Gradients(geometry, settings, checkpoint)
        gradients.density = mf.make_rdm1()
        return numerical_hessian(lambda positions: gradients.at(positions)[1], geometry.positions, STEP), "numerical"


def is_numerical(mf: Any) -> bool:
    """Returns whether the mean field has no analytic Hessian in PySCF."""
    return bool(mf.do_nlc()) if hasattr(mf, "do_nlc") else False
