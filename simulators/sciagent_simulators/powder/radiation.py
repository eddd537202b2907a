"""X-ray tubes by name, and single wavelengths.

Wavelengths: Deslattes et al., Rev. Mod. Phys. 75, 35 (2003), as in NIST SRD 128; copper after Hölzer et al., Phys. Rev.
A 56, 4554 (1997). The weight of alpha 2 is half of that of alpha 1.
"""

from __future__ import annotations

from typing import NamedTuple

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
