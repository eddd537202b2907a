"""Fits the computed pattern of a crystal to a measured one: cell scale, zero shift, peak shape, displacement, height.

The fit maximises the match, which is the cosine of measured and computed intensities over the points of the pattern. It
begins at the best places of a search over cell and zero shift, and takes damped Gauss-Newton steps within limits; it
draws no random number.

The computed pattern has reflections broadened by pseudo-Voigt functions, with derivatives for the fit. The result is a
series: measured, computed, background, difference, and where the reflections are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.series import MAX_BYTES, CurveRole, Series, SeriesAxis, SeriesColumn, SeriesCurve
from sciagent.domain.text import escaped
from sciagent_simulators.powder.pattern import PreparedPattern, smoothed
from sciagent_simulators.powder.reflections import Reflections, SpectralLine, lorentz_polarisation

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
    squared_u = u * u
    lorentz = parameters.lorentz
    bell, tail = _shapes(squared_u)
    shape = _pseudo_voigt(bell, tail, lorentz)
    by_lorentz = tail - bell
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
    step = grid[1] - grid[0]
    n = len(grid)
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


SEARCH_WIDTHS = (0.08, 0.2, 0.5)
"""Peak widths of the search, in degrees."""
SEARCHED = 100
"""Number of strongest reflections that the search looks at."""
CELL_STEP = 5e-4
ZERO_STEP = 0.05  # degrees
STARTS = 2
PROMISING = 0.8
"""Share of the best estimated match that a place needs to be a start."""
FIRST_STEPS = 4
LAST_STEPS = 20
"""Steps from each start, and from the best of them."""
HOPELESS = 0.3
"""Match after the first steps below which the fit ends."""
UNMOVED = ProfileParameters(1.0, 0.0, 0.1, 0.0, 0.0, 0.5)
SMALLEST_GAIN = 1e-5
"""Gain in the match, over two steps, below which the fit ends."""
WIDEST = 1.5
STEEPEST = 1.0
LARGEST_DISPLACEMENT = 5.0
SIGNIFICANT = 3.0
"""Standard uncertainties above which a smoothed intensity counts as measured area."""


class FitLimits(NamedTuple):
    """The limits of the fit around the crystal as it is."""

    cell: float
    """Largest relative change of the cell lengths; 0 keeps the cell."""
    zero: float
    """Largest shift of all angles, in degrees."""


@dataclass(frozen=True)
class PowderFit:
    """A computed pattern that was fitted to a measured one."""

    match: float
    """Cosine of measured and computed intensities, 0 to 1."""
    rwp: float
    """Weighted profile residual, with the background subtracted from the measured pattern; 0 for a perfect fit."""
    unexplained: float
    """Share of the measured area above the background that lies above the computed pattern, 0 to 1."""
    parameters: ProfileParameters
    """The fitted parameters."""
    computed: Array
    """(n,) computed intensity on the grid of the measured pattern, without the background."""
    centres: Array
    """(m,) angles 2-theta of the reflections within the grid, in degrees, for the strongest line, strongest first."""
    at_limit: tuple[str, ...]
    """Names of the parameters that ended at a limit other than 0."""


def fit(
    measured: PreparedPattern, reflections: Reflections, lines: tuple[SpectralLine, ...], limits: FitLimits
) -> PowderFit | None:
    """Returns the fit, or None if no reflection of the crystal lies within the pattern."""
    if not len(reflections):
        return None
    problem = _Problem(measured, reflections, lines, limits)
    first = [problem.improved(start, FIRST_STEPS) for start in problem.starts()]
    first = [state for state in first if state.match > 0]
    if not first:
        return None
    best = max(first, key=lambda state: state.match)
    return problem.result(problem.improved(best.vector, LAST_STEPS) if best.match > HOPELESS else best)


class _State(NamedTuple):
    """A point of the fit."""

    vector: Array
    match: float


@dataclass(frozen=True)
class _Problem:
    """A measured pattern and the reflections of a crystal."""

    measured: PreparedPattern
    reflections: Reflections
    lines: tuple[SpectralLine, ...]
    limits: FitLimits

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The smallest and largest values of the parameters, in their order."""
        cell, zero = self.limits
        narrowest = max(1.5 * self.measured.step, 0.01)
        low = np.array([1 - cell, -zero, narrowest, 0.0, 0.0, 0.0])
        return low, np.array([1 + cell, zero, max(WIDEST, 2 * narrowest), STEEPEST, 1.0, LARGEST_DISPLACEMENT])

    def starts(self) -> Sequence[Array]:
        """Returns the best places of a search over cell, zero shift and width, each at another cell."""
        cells = _steps(self.limits.cell, CELL_STEP)
        zeros = _steps(self.limits.zero, ZERO_STEP)
        strongest = Reflections(self.reflections.spacing[:SEARCHED], self.reflections.strength[:SEARCHED])
        rows = []
        # the sum of measured times computed intensity over points is a sum of the smoothed measured one over peaks
        moved = [peaks_of(strongest, self.lines, UNMOVED._replace(cell=1 + float(cell))) for cell in cells]
        for width in SEARCH_WIDTHS:
            smooth, scale = self._smoothed(strongest, width)
            places = [peaks.centre[:, None] + zeros for peaks in moved]
            seen = [np.interp(place, self.measured.two_theta, smooth, left=0.0, right=0.0) for place in places]
            matches = np.array([peaks.area @ s for peaks, s in zip(moved, seen, strict=True)]) * scale
            best_zero = matches.argmax(axis=1)
            for i in _peaks(matches.max(axis=1), STARTS):
                vector = np.array([1 + cells[i], zeros[best_zero[i]], width, 0.0, 0.5, 0.5])
                rows.append(_State(np.clip(vector, *self.bounds), float(matches[i, best_zero[i]])))
        rows.sort(key=lambda state: -state.match)
        return [state.vector for state in rows[:STARTS] if state.match >= PROMISING * rows[0].match]

    def _smoothed(self, reflections: Reflections, width: float) -> tuple[Array, float]:
        """Returns the measured intensity smoothed with the shape of a peak, and one over the norms of both patterns."""
        grid = self.measured.two_theta
        net = self.measured.net
        n = int(np.ceil(2.5 * width / self.measured.step))
        u = np.arange(-n, n + 1) * self.measured.step / width
        kernel = np.exp(-4 * np.log(2) * u * u) * (2 * np.sqrt(np.log(2) / np.pi) / width)
        peaks = peaks_of(reflections, self.lines, UNMOVED._replace(width=width))
        norms = float(np.linalg.norm(rendered(grid, peaks, 0.0)) * np.linalg.norm(net))
        return np.convolve(net, kernel, mode="same"), 1 / norms if norms else 0.0

    def improved(self, vector: Array, steps: int) -> _State:
        """Returns the point after some damped Gauss-Newton steps, each of which raises the match."""
        low, high = self.bounds
        damping = 1e-2
        match = self._match(vector)
        gains = [1.0, 1.0]
        for _ in range(steps):
            gradient, curvature = self._equations(vector)
            free = ~(((vector <= low) & (gradient < 0)) | ((vector >= high) & (gradient > 0)))
            free &= np.diag(curvature) > 0
            if not free.any():
                break
            for _ in range(4):
                damped = curvature[np.ix_(free, free)]
                damped = damped + np.diag(damping * np.diag(damped))
                step = np.zeros(len(vector))
                step[free] = np.linalg.lstsq(damped, gradient[free], rcond=None)[0]
                new = np.clip(vector + step, low, high)
                reached = self._match(new)
                if reached > match:
                    break
                damping *= 10
            else:
                break
            gains.append(reached - match)
            vector = new
            match = reached
            damping = max(damping / 10, 1e-6)
            if gains[-1] + gains[-2] < SMALLEST_GAIN:
                break
        return _State(vector, match)

    def _match(self, vector: Array) -> float:
        computed = self._computed(vector)
        norm = float(np.linalg.norm(computed) * np.linalg.norm(self.measured.net))
        return min(1.0, max(0.0, float(computed @ self.measured.net) / norm)) if norm else 0.0

    def _computed(self, vector: Array) -> Array:
        parameters = ProfileParameters(*map(float, vector))
        peaks = peaks_of(self.reflections, self.lines, parameters)
        return rendered(self.measured.two_theta, peaks, parameters.lorentz)

    def _equations(self, vector: Array) -> tuple[Array, Array]:
        """Returns minus the gradient and the approximate Hessian of the squared residual; the height is eliminated.

        Source: Kaufman, BIT 15, 49 (1975)."""
        parameters = ProfileParameters(*map(float, vector))
        net = self.measured.net
        peaks = peaks_of(self.reflections, self.lines, parameters)
        value, derivatives = with_derivatives(self.measured.two_theta, peaks, parameters)
        squared = float(value @ value)
        if not squared:
            return np.zeros(len(vector)), np.zeros((len(vector), len(vector)))
        height = float(net @ value) / squared
        jacobian = height * (derivatives - np.outer(derivatives @ value / squared, value))
        return jacobian @ (net - height * value), jacobian @ jacobian.T

    def result(self, state: _State) -> PowderFit:
        parameters = ProfileParameters(*map(float, state.vector))
        net = self.measured.net
        error = self.measured.error
        computed = self._computed(state.vector)
        computed *= float(net @ computed) / float(computed @ computed)
        rwp = float(np.linalg.norm((net - computed) / error) / np.linalg.norm(net / error))
        low, high = self.bounds
        at_limit = [
            name
            for name, value, least, most in zip(ProfileParameters._fields, state.vector, low, high, strict=True)
            if most > least and (value >= most or (value <= least and least != 0))
        ]
        grid = self.measured.two_theta
        centres = peaks_of(self.reflections, self.lines[:1], parameters).centre
        centres = centres[(centres >= grid[0]) & (centres <= grid[-1])]
        share = unexplained(net, computed, error, parameters.width / self.measured.step)
        return PowderFit(state.match, rwp, share, parameters, computed, centres, tuple(at_limit))


def unexplained(net: Array, computed: Array, error: Array, width: float) -> float:
    """Returns the share of the significant measured area that lies above the computed pattern. width: of a peak, in
    points; measured and computed intensities are averaged over it, so that noise is no area."""
    n = max(1, round(width / 2)) // 2 * 2 + 1
    noise = SIGNIFICANT * np.sqrt(smoothed(error**2, n) / n)
    measured = smoothed(net, n)
    missing = smoothed(net - computed, n)
    area = float(measured[measured > noise].sum())
    return min(1.0, float(missing[(missing > noise) & (measured > noise)].sum()) / area) if area > 0 else 1.0


def _steps(limit: float, step: float) -> Array:
    """Returns an odd number of values from -limit to limit, at most `step` apart."""
    n = int(np.ceil(limit / step))
    return np.linspace(-limit, limit, 2 * n + 1)


def _peaks(values: Array, n: int) -> Sequence[int]:
    """Returns the places of the n largest local maxima, largest first."""
    padded = np.pad(values, 1, constant_values=-np.inf)
    is_peak = (values >= padded[:-2]) & (values >= padded[2:])
    places = np.flatnonzero(is_peak)
    return [int(place) for place in places[np.argsort(-values[places], kind="stable")][:n]]


DIGITS = 5
"""Significant digits of intensities."""
MARKS = 1000
"""Largest number of reflections that are marked, the strongest first."""


def fitted_series(measured: PreparedPattern, fitted: PowderFit, title: str) -> Series:
    """Returns the series; of a pattern that is too large for one, every second point, or every third, …"""
    for every in count(1):
        series = _every(every, measured, fitted, title)
        if len(series.model_dump_json()) < MAX_BYTES:
            return series
    raise AssertionError


def _every(every: int, measured: PreparedPattern, fitted: PowderFit, title: str) -> Series:
    computed = fitted.computed + measured.background
    columns = {
        "measured": measured.intensity,
        "computed": computed,
        "background": measured.background,
        "difference": measured.intensity - computed,
    }
    angles = {"two_theta": measured.two_theta[::every], "reflections": np.sort(fitted.centres[:MARKS])}
    return Series(
        title=escaped(title)[:200],
        axes=[
            SeriesAxis(name="two_theta", meaning="diffraction angle 2θ", unit="degree"),
            SeriesAxis(name="intensity", meaning="intensity as measured"),
        ],
        columns=[
            *(SeriesColumn(name=name, axis="two_theta", values=np.round(x, 4).tolist()) for name, x in angles.items()),
            *(SeriesColumn(name=name, axis="intensity", values=_rounded(y[::every])) for name, y in columns.items()),
        ],
        curves=[
            *(SeriesCurve(name=name, role=CurveRole(name), x="two_theta", y=name) for name in columns),
            SeriesCurve(name="reflections", role=CurveRole.MARKS, x="reflections"),
        ],
    )


def _rounded(values: Array) -> list[float]:
    """Returns the values with DIGITS significant digits; powers of ten from 1 up are exact, so texts stay short."""
    with np.errstate(divide="ignore"):
        places = DIGITS - 1 - np.floor(np.log10(np.abs(values)))
    places = np.where(np.isfinite(places), np.clip(places, -22, 22), 0.0)
    up = 10.0 ** np.maximum(places, 0)
    down = 10.0 ** np.maximum(-places, 0)
    rounded: list[float] = (np.rint(values * up / down) * down / up).tolist()
    return rounded
