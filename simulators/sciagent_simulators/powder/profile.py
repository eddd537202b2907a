"""A computed pattern on a grid: reflections broadened by pseudo-Voigt functions, with derivatives for the fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.powder.radiation import SpectralLine
from sciagent_simulators.powder.reflections import Reflections, lorentz_polarisation

Array = NDArray[np.float64]
REACH = 6.0
"""A peak ends this many full widths from its centre; a Lorentz function has 95 % of its area within."""
MOST = 300
"""Largest number of grid points on one side of a peak."""
LN2 = float(np.log(2.0))


class ProfileParameters(NamedTuple):
    """The parameters of a computed pattern, apart from its height."""

    cell: float
    """Factor of all cell lengths."""
    zero: float
    """Shift of all angles 2-theta, in degrees."""
    width: float
    """Full width of a peak at half maximum, in degrees, where its angle is 0."""
    slope: float
    """Increase of the width with the tangent of theta, in degrees."""
    lorentz: float
    """Share of the Lorentz function, 0 to 1; the rest is a Gauss function."""
    displacement: float
    """Isotropic displacement parameter B of all atoms, in angstrom**2."""


@dataclass(frozen=True)
class Peaks:
    """All peaks of a computed pattern: a peak for each reflection and line."""

    centre: Array
    """(m,) angle 2-theta in degrees, with the zero shift."""
    area: Array
    """(m,) integrated intensity."""
    width: Array
    """(m,) full width at half maximum in degrees."""
    tangent: Array
    """(m,) tangent of theta."""
    damping: Array
    """(m,) twice the square of sin(theta)/wavelength, in angstrom**-2: minus the logarithmic derivative of the area by
    the displacement parameter."""


def peaks_of(reflections: Reflections, lines: tuple[SpectralLine, ...], parameters: ProfileParameters) -> Peaks:
    """Returns the peaks below 179 degrees."""
    spacing = reflections.spacing * parameters.cell
    sine = np.concatenate([line.wavelength / 2 / spacing for line in lines])
    squared = np.tile(1 / (2 * spacing) ** 2, len(lines))
    strength = np.concatenate([line.weight * reflections.strength for line in lines])
    seen = sine < np.sin(np.radians(89.5))
    theta = np.arcsin(sine[seen])
    bare = np.degrees(2 * theta)
    area = strength[seen] * lorentz_polarisation(bare) * np.exp(-2 * parameters.displacement * squared[seen])
    tangent = np.tan(theta)
    width = parameters.width + parameters.slope * tangent
    return Peaks(bare + parameters.zero, area, width, tangent, 2 * squared[seen])


def rendered(grid: Array, peaks: Peaks, lorentz: float) -> Array:
    """Returns the pattern on a uniform grid. grid: (n,) in degrees."""
    place, distance = _windows(grid, peaks)
    u = distance / peaks.width[:, None]
    heights = _pseudo_voigt(*_shapes(u * u), lorentz) * (peaks.area / peaks.width)[:, None]
    return _summed(place, heights, len(grid))


def with_derivatives(grid: Array, peaks: Peaks, parameters: ProfileParameters) -> tuple[Array, Array]:
    """Returns the pattern, (n,), and its derivatives by the parameters in their order, (6, n)."""
    place, distance = _windows(grid, peaks)
    u = distance / peaks.width[:, None]
    squared_u, lorentz = u * u, parameters.lorentz
    bell, tail = _shapes(squared_u)
    shape, by_lorentz = _pseudo_voigt(bell, tail, lorentz), tail - bell
    by_u = -8 * u * (lorentz * tail / (1 + 4 * squared_u) + (1 - lorentz) * LN2 * bell)
    height = (peaks.area / peaks.width)[:, None]
    by_centre = -by_u * height / peaks.width[:, None]
    by_width = -(shape + u * by_u) * height / peaks.width[:, None]
    by_cell = by_centre * np.degrees(-2 * peaks.tangent / parameters.cell)[:, None]
    value = shape * height
    parts = (
        value, by_cell, by_centre, by_width, by_width * peaks.tangent[:, None], by_lorentz * height,
        -value * peaks.damping[:, None],
    )  # fmt: skip
    sums = [_summed(place, part, len(grid)) for part in parts]
    return sums[0], np.array(sums[1:])


def _summed(place: NDArray[np.int64], heights: Array, n: int) -> Array:
    """Returns the sums of the heights over the grid points; those at place n lie outside and are left out."""
    sums: Array = np.bincount(place.ravel(), heights.ravel(), n + 1)[:n].astype(float, copy=False)
    return sums


def _windows(grid: Array, peaks: Peaks) -> tuple[NDArray[np.int64], Array]:
    """Returns the grid points around each peak, (m, k), those outside as n; and their distances from it in degrees."""
    step, n = grid[1] - grid[0], len(grid)
    reach = int(min(MOST, np.ceil(REACH * peaks.width.max() / step))) if len(peaks.width) else 1
    middle = np.rint((peaks.centre - grid[0]) / step).astype(np.int64)
    place = middle[:, None] + np.arange(-reach, reach + 1)
    distance = grid[0] + place * step - peaks.centre[:, None]
    return np.where((place < 0) | (place >= n), n, place), distance


def _shapes(squared: Array) -> tuple[Array, Array]:
    """Returns the Gauss and the Lorentz function of unit area and full width at half maximum.

    squared: square of the distance from the centre, in full widths."""
    return 2 * np.sqrt(LN2 / np.pi) * np.exp(-4 * LN2 * squared), (2 / np.pi) / (1 + 4 * squared)


def _pseudo_voigt(bell: Array, tail: Array, lorentz: float) -> Array:
    return bell + lorentz * (tail - bell)
