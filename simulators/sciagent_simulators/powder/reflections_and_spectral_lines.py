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
LEFT_OUT_SHARE = 0.002
"""The weakest reflections are left out; together they have at most this share of the intensity."""


@dataclass(frozen=True)
class Reflections:
    """Reflections of a crystal, strongest first. Reflections with the same spacing are one."""

    spacing: Array
    """(n,) lattice spacing d in angstrom."""
    strength: Array
    """(n,) squared structure factor times multiplicity, over the volume squared; without the Lorentz-polarisation
    factor."""

    def __len__(self) -> int:
        return len(self.spacing)


def reflections_of(structure: Any, wavelength: float, low: float, high: float) -> Reflections:
    """Returns the reflections between the diffraction angles 2-theta `low` and `high`, in degrees.

    structure: a pymatgen Structure. wavelength: in angstrom. The atoms are neutral and at rest; absorption, extinction,
    anomalous scattering and preferred orientation are neglected.
    Raises ValueError for an element without scattering factors."""
    from pymatgen.analysis.diffraction.xrd import XRDCalculator

    try:
        pattern = XRDCalculator(wavelength=wavelength).get_pattern(structure, scaled=False, two_theta_range=(low, high))
    except ValueError as error:
        if "not enough values" not in str(error):  # which pymatgen says when no reflection lies in the range
            raise
        return Reflections(np.empty(0), np.empty(0))
    spacing = np.asarray(pattern.d_hkls, dtype=float)
    intensity = np.asarray(pattern.y, dtype=float)
    strength = intensity / lorentz_polarisation(np.asarray(pattern.x, dtype=float))
    strength /= float(structure.volume) ** 2
    strongest_first = np.argsort(-pattern.y, kind="stable")
    cumulative_share = np.cumsum(intensity[strongest_first]) / float(np.sum(pattern.y))
    n_kept = int(np.searchsorted(cumulative_share, 1 - LEFT_OUT_SHARE)) + 1
    kept = strongest_first[:n_kept]
    return Reflections(spacing[kept], strength[kept])


def lorentz_polarisation(two_theta: Array) -> Array:
    """Returns the factor of a powder in an unpolarised beam without a monochromator. two_theta: in degrees."""
    theta = np.radians(two_theta) / 2
    factor: Array = (1 + np.cos(2 * theta) ** 2) / (np.sin(theta) ** 2 * np.cos(theta))
    return factor


K_ALPHA = {
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
    element = radiation[:2]
    alpha_1, alpha_2 = K_ALPHA[element]
    if radiation.endswith("1"):
        return (SpectralLine(alpha_1, 1.0),)
    return (SpectralLine(alpha_1, 2 / 3), SpectralLine(alpha_2, 1 / 3))
