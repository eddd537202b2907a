"""The reflections of a crystal in the kinematic approximation, by pymatgen, for X-ray tubes and single wavelengths.

Wavelengths: Deslattes et al., Rev. Mod. Phys. 75, 35 (2003), as in NIST SRD 128; copper after Hölzer et al., Phys. Rev.
A 56, 4554 (1997). The weight of alpha 2 is half of that of alpha 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LEFT_OUT = 0.002
"""Share of the intensity that the weakest reflections have together, which are left out."""


@dataclass(frozen=True)
class Reflections:
    """Reflections of a crystal, strongest first; those of one spacing are one."""

    spacing: Array
    """(n,) lattice spacing d in angstrom."""
    strength: Array
    """(n,) squared structure factor times multiplicity, over the volume squared; without the Lorentz-polarisation
    factor."""

    def __len__(self) -> int:
        return len(self.spacing)


def reflections_of(structure: Any, wavelength: float, low: float, high: float) -> Reflections:
    """Returns the reflections between two diffraction angles 2-theta, in degrees.

    structure: a pymatgen Structure. Neutral atoms at rest, without absorption, extinction, anomalous scattering and
    preferred orientation. Raises ValueError for an element without scattering factors."""
    from pymatgen.analysis.diffraction.xrd import XRDCalculator

    try:
        pattern = XRDCalculator(wavelength=wavelength).get_pattern(structure, scaled=False, two_theta_range=(low, high))
    except ValueError as error:
        if "not enough values" not in str(error):  # which pymatgen says when no reflection lies in the range
            raise
        return Reflections(np.empty(0), np.empty(0))
    spacing = np.asarray(pattern.d_hkls, dtype=float)
    strength = np.asarray(pattern.y, dtype=float) / lorentz_polarisation(np.asarray(pattern.x, dtype=float))
    strength /= float(structure.volume) ** 2
    order = np.argsort(-pattern.y, kind="stable")
    share = np.cumsum(np.asarray(pattern.y, dtype=float)[order]) / float(np.sum(pattern.y))
    order = order[: int(np.searchsorted(share, 1 - LEFT_OUT)) + 1]
    return Reflections(spacing[order], strength[order])


def lorentz_polarisation(two_theta: Array) -> Array:
    """Returns the factor of a powder in an unpolarised beam without a monochromator. two_theta: in degrees."""
    theta = np.radians(two_theta) / 2
    factor: Array = (1 + np.cos(2 * theta) ** 2) / (np.sin(theta) ** 2 * np.cos(theta))
    return factor


ALPHA = {
    "Cr": (2.2897260, 2.2936510),
    "Fe": (1.9360410, 1.9399730),
    "Co": (1.7889960, 1.7928350),
    "Cu": (1.5405929, 1.5444274),
    "Mo": (0.7093171, 0.7136070),
    "Ag": (0.5594218, 0.5638131),
}
"""{element: wavelengths of K-alpha 1 and 2, in angstrom}."""


class SpectralLine(NamedTuple):
    """One wavelength of a radiation."""

    wavelength: float
    """In angstrom."""
    weight: float
    """Share of the intensity; the weights of a radiation add up to 1."""


def lines_of(radiation: str | float) -> tuple[SpectralLine, ...]:
    """Returns the lines of a radiation, the strongest first.

    radiation: wavelength in angstrom, or a tube such as CuKa; CuKa1 stands behind a monochromator that removes alpha 2.
    Raises KeyError for an unknown tube."""
    if not isinstance(radiation, str):
        return (SpectralLine(float(radiation), 1.0),)
    first, second = ALPHA[radiation[:2]]
    return (
        (SpectralLine(first, 1.0),)
        if radiation.endswith("1")
        else (SpectralLine(first, 2 / 3), SpectralLine(second, 1 / 3))
    )
