"""The equation of state of relaxed crystals: energies at scaled volumes, and the fit by Birch and Murnaghan.

The third-order equation is a cubic polynomial in V^(-2/3), so the fit is linear. The shape of the cell is scaled
uniformly and positions are relaxed at each volume; for cells that are not cubic the modulus is thus an upper bound.

Source: Birch, Phys. Rev. 71, 809 (1947).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciagent.domain.outcomes import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.potentials.potential import Potential
from sciagent_simulators.potentials.relaxing import relax

GPA = 160.21766208  # GPa in an eV/angstrom**3
STRAINS = (-0.06, -0.04, -0.02, 0.0, 0.02, 0.04, 0.06)
"""Changes of the volume."""


@dataclass(frozen=True)
class StateFit:
    """The minimum of an equation of state."""

    volume: float
    """At zero pressure, in angstrom**3."""
    bulk_modulus: float
    """In GPa."""
    derivative: float
    """The derivative of the bulk modulus by pressure, without unit."""
    residual: float
    """Root mean square of the fit's errors, in eV."""


def fit(volumes: Sequence[float], energies: Sequence[float]) -> StateFit:
    """Returns the minimum of the third-order Birch-Murnaghan equation. volumes: angstrom**3; energies: eV.

    Raises SimulatorError if there is no minimum among the volumes, or the energies are no smooth curve."""
    v, e = np.asarray(volumes, dtype=float), np.asarray(energies, dtype=float)
    curve = np.polynomial.Polynomial.fit(v ** (-2 / 3), e, 3)
    roots = np.asarray(curve.deriv().roots(), dtype=complex)
    real = [float(x) for x in roots[np.abs(roots.imag) < 1e-12].real if x > 0]
    inside = [x for x in real if v.min() <= x**-1.5 <= v.max() and float(curve.deriv(2)(x)) > 0]
    if not inside:
        raise SimulatorError(Outcome.NOT_CONVERGED, Reason.GEOMETRY_NOT_CONVERGED, "no minimum among the volumes")
    x = inside[0]
    second, third = float(curve.deriv(2)(x)), float(curve.deriv(3)(x))
    volume = x**-1.5
    modulus = 4 / 9 * second * x**5 * volume  # V d2E/dV2, with dx/dV = -2/3 x^(5/2)
    derivative = 4 + 2 / 3 * third * x / second
    residual = float(np.sqrt(np.mean((curve(v ** (-2 / 3)) - e) ** 2)))
    return StateFit(volume, modulus * GPA, derivative, residual)


def equations_of_state(
    potential: Potential, batch: Sequence[Any], fmax: float, steps: int
) -> list[StateFit | SimulatorError]:
    """Returns the equation of state of each relaxed ase.Atoms, or why there is none. All volumes share the calls."""
    scaled = [_scaled(atoms, strain) for atoms in batch for strain in STRAINS]
    found = relax(potential, scaled, fmax, steps, fixed_cells=True)
    fits: list[StateFit | SimulatorError] = []
    for place in range(len(batch)):
        points = found[place * len(STRAINS) : (place + 1) * len(STRAINS)]
        try:
            energies = [point.energy_per_atom * len(point.atoms) for point in points]
            fits.append(fit([float(point.atoms.cell.volume) for point in points], energies))
        except SimulatorError as error:
            fits.append(error)
    return fits


def _scaled(atoms: Any, strain: float) -> Any:
    copy = atoms.copy()
    copy.set_cell(atoms.cell.array * (1 + strain) ** (1 / 3), scale_atoms=True)
    return copy
