"""Errors that the mesh of k-points leaves in energies and moments of metals, as measured on a few of them.

Energies: root mean squares over Na, Al, Cu and Pd, two cells each, against 6 k-points per 1/angstrom
(benchmarks/crystals/metals.json). Moments: root mean squares of bcc iron with two cells against 4.5 k-points per
1/angstrom (benchmarks/crystals/README.md); no other ferromagnet has been measured.
"""

from __future__ import annotations

from collections.abc import Mapping

ENERGY = {1.2: 0.19, 2.5: 0.026, 3.5: 0.015, 4.5: 0.007}
"""eV per atom by the density of the mesh, in k-points per 1/angstrom."""
MOMENT = {2.5: 0.14, 3.5: 0.03}
"""Bohr magnetons per magnetic atom."""


def energy_error(mesh: float) -> float | None:
    """Returns the error of a metal's energy, eV per atom; None for a mesh coarser than all that were measured.

    mesh: k-points per 1/angstrom.
    """
    return _of_next_coarser(ENERGY, mesh)


def moment_error(mesh: float) -> float | None:
    """Returns the error of a metal's moment, Bohr magnetons per magnetic atom, as `energy_error` does."""
    return _of_next_coarser(MOMENT, mesh)


def _of_next_coarser(errors: Mapping[float, float], mesh: float) -> float | None:
    measured = [density for density in errors if density <= mesh]
    return errors[max(measured)] if measured else None
