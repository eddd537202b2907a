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


PLATY = 2.0
"""Ratio of the two largest lattice spacings in different directions from which on crystals grow as plates."""
SAME_SPACING = 1e-5
"""Largest relative difference between the spacings of lattice planes that make one reflection."""


@dataclass(frozen=True)
class PlateletTilts:
    """Angles between the lattice planes of each reflection and the face of the plates that a crystal forms."""

    reflection: NDArray[np.int64]
    """(m,) index of the reflection that a set of planes belongs to; each reflection has at least one."""
    cosine_squared: Array
    """(m,) squared cosine of the angle between the normals of the planes and of the plates."""

    def factors(self, march: float) -> tuple[Array, Array]:
        """Returns the factor of each reflection's intensity, (n,), and its derivative by the parameter, (n,).

        march: parameter of March, 1 for a powder without preferred orientation, smaller for plates that lie in the
        surface of the sample. Source: Dollase, J. Appl. Cryst. 19, 267 (1986)."""
        inner = march**2 * self.cosine_squared + (1 - self.cosine_squared) / march
        slope = 2 * march * self.cosine_squared - (1 - self.cosine_squared) / march**2
        counts = np.bincount(self.reflection)
        means = np.bincount(self.reflection, weights=inner**-1.5) / counts
        slopes = np.bincount(self.reflection, weights=-1.5 * inner**-2.5 * slope) / counts
        return means, slopes


@dataclass(frozen=True)
class Reflections:
    """Reflections of a crystal, strongest first. Reflections with the same spacing are one."""

    spacing: Array
    """(n,) lattice spacing d in angstrom."""
    strength: Array
    """(n,) squared structure factor times multiplicity, over the volume squared; without the Lorentz-polarisation
    factor."""
    tilts: PlateletTilts | None = None
    """The tilts of a crystal that grows as plates; None for any other crystal."""

    def __len__(self) -> int:
        return len(self.spacing)


def reflections_of(structure: Any, wavelength: float, low: float, high: float) -> Reflections:
    """Returns the reflections between the diffraction angles 2-theta `low` and `high`, in degrees.

    structure: a pymatgen Structure. wavelength: in angstrom. The atoms are neutral and at rest; absorption, extinction,
    anomalous scattering are neglected. Strengths are those without preferred orientation.
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
    return Reflections(spacing[kept], strength[kept], platelet_tilts(structure.lattice, spacing[kept]))


def platelet_tilts(lattice: Any, spacing: Array) -> PlateletTilts | None:
    """Returns the tilts of the planes of each reflection; None for a crystal that does not grow as plates.

    lattice: a pymatgen Lattice, of a primitive cell. spacing: (n,) lattice spacings of the reflections, in angstrom.
    The face of the plates has the largest spacing of all planes, by the rule of Bravais and Friedel. Planes of one
    spacing count alike, also where their structure factors differ.
    """
    reciprocal = lattice.reciprocal_lattice_crystallographic
    reach = max(1 / float(spacing.min()), 2 / float(spacing.max())) * (1 + SAME_SPACING)
    indices, lengths, _, _ = reciprocal.get_points_in_sphere([[0, 0, 0]], [0, 0, 0], reach, zip_results=False)
    is_plane = lengths > 1e-8  # without the origin
    vectors = reciprocal.get_cartesian_coords(indices[is_plane])
    lengths = lengths[is_plane]
    shortest = int(np.argmin(lengths))
    normal = vectors[shortest] / lengths[shortest]
    cosine_squared = (vectors @ normal / lengths) ** 2
    is_other = cosine_squared < 1 - SAME_SPACING
    if not is_other.any() or lengths[is_other].min() < PLATY * lengths[shortest]:
        return None
    ascending = np.argsort(spacing)
    places = np.searchsorted(spacing[ascending], 1 / lengths)
    reflections = []
    tilts = []
    for shift in (-1, 0):  # the nearest spacing is one of the two neighbours
        index = np.clip(places + shift, 0, len(spacing) - 1)
        reflection = ascending[index]
        is_same = np.abs(spacing[reflection] * lengths - 1) < SAME_SPACING
        is_same &= (places + shift >= 0) & (places + shift < len(spacing))
        reflections.append(reflection[is_same])
        tilts.append(cosine_squared[is_same])
    found = PlateletTilts(np.concatenate(reflections), np.concatenate(tilts))
    has_all = len(np.unique(found.reflection)) == len(spacing)
    return found if has_all else None


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
