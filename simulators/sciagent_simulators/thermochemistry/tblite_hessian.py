"""The Hessian of GFN2-xTB by central differences of tblite's gradients, in the gas phase or in a solvent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvation
from sciagent_simulators.tblite_engine import translated
from sciagent_simulators.thermochemistry.normal_modes_and_minimum_search import numerical_hessian

Array = NDArray[np.float64]

STEP = 0.005  # angstrom, as in xtb


def tblite_hessian(
    geometry: Geometry, solvation: Solvation | None = None, damping: float = 0.4, accuracy: float = 1.0
) -> Array:
    """Returns the Hessian, 3n x 3n, eV/angstrom^2, from 6n gradients; it is not symmetrised.

    damping: of tblite's mixer. accuracy: tblite's factor on all thresholds; smaller is tighter. Both have tblite's
    defaults.
    Raises SimulatorError not_converged (scf_not_converged), and crashed (exception) for other errors of tblite.
    """
    from ase.calculators.calculator import CalculationFailed
    from tblite.ase import TBLite

    atoms = geometry.atoms

    ase_solvation = None
    if solvation is not None:
        _, solvent, state = solvation.arguments()
        ase_solvation = (solvation.model, solvent, state)

    def forces(positions: Array) -> Array:
        atoms.positions = positions
        return np.asarray(atoms.get_forces(), dtype=float)

    try:
        atoms.calc = TBLite(
            method="GFN2-xTB",
            charge=geometry.charge,
            multiplicity=geometry.multiplicity,
            verbosity=0,
            accuracy=accuracy,
            max_iterations=1000,
            mixer_damping=damping,
            solvation=ase_solvation,
        )
        return numerical_hessian(forces, geometry.positions, STEP)
    except (CalculationFailed, RuntimeError) as error:
        raise translated(error, "in the numerical Hessian: ") from error
