"""Fits the computed pattern of a crystal to a measured one: cell scale, zero shift, peaks, displacement, orientation.

The fit maximises the match, which is the cosine of measured and computed intensities over the points of the pattern. It
begins at the best places of a search over cell and zero shift, and takes damped Gauss-Newton steps within limits; it
draws no random number.

The module has four parts in this order: the computed pattern, which has reflections broadened by pseudo-Voigt
functions, and its derivatives; `fit` with its limits and result; the steps of the fit in `_Problem`; and the result as
a series for charts (`fitted_series`): measured, computed, background, difference, and the reflections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.safe_text_and_durations import escaped
from sciagent.domain.series import MAX_BYTES, CurveRole, Series, SeriesAxis, SeriesColumn, SeriesCurve
from sciagent_simulators.powder.measured_pattern import PreparedPattern, smoothed
from sciagent_simulators.powder.reflections_and_spectral_lines import Reflections, SpectralLine, lorentz_polarisation

Array = NDArray[np.float64]
REACH = 6.0
"""A peak ends this many full widths from its centre; a Lorentz function has 95 % of its area within."""
MAX_REACH_POINTS = 300
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
    march: float = 1.0
    """March's parameter of the preferred orientation of plates; 1 without one, and for a crystal that forms none."""


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
    orientation: Array
    """(m,) logarithmic derivative of the area by March's parameter; 0 for a crystal that forms no plates."""


def peaks_of(reflections: Reflections, lines: tuple[SpectralLine, ...], parameters: ProfileParameters) -> Peaks:
    """Returns the peaks below 179 degrees."""
    spacing = reflections.spacing * parameters.cell
    sine = np.concatenate([line.wavelength / 2 / spacing for line in lines])
    factors = np.ones(len(reflections))
    slopes = np.zeros(len(reflections))
    if reflections.tilts is not None:
        factors, slopes = reflections.tilts.factors(parameters.march)
    strength = np.concatenate([line.weight * reflections.strength * factors for line in lines])
    is_below_limit = sine < np.sin(np.radians(89.5))  # theta, half of 179 degrees
    theta = np.arcsin(sine[is_below_limit])
    two_theta = np.degrees(2 * theta)
    # (sin(theta)/wavelength)^2 = (1/(2 d))^2 is the same for all lines
    sine_over_wavelength_squared = np.tile(1 / (2 * spacing) ** 2, len(lines))[is_below_limit]
    displacement_factor = np.exp(-2 * parameters.displacement * sine_over_wavelength_squared)
    tangent = np.tan(theta)
    return Peaks(
        centre=two_theta + parameters.zero,
        area=strength[is_below_limit] * lorentz_polarisation(two_theta) * displacement_factor,
        width=parameters.width + parameters.slope * tangent,
        tangent=tangent,
        damping=2 * sine_over_wavelength_squared,
        orientation=np.tile(slopes / factors, len(lines))[is_below_limit],
    )


def rendered(grid: Array, peaks: Peaks, lorentz: float) -> Array:
    """Returns the pattern of the peaks on a uniform grid, (n,).

    grid: (n,) angles 2-theta in degrees. lorentz: share of the Lorentz function in the shape of a peak."""
    indices, distance = _windows(grid, peaks)
    u = distance / peaks.width[:, None]  # in full widths
    gauss_shape, lorentz_shape = _shapes(u * u)
    heights = _pseudo_voigt(gauss_shape, lorentz_shape, lorentz) * (peaks.area / peaks.width)[:, None]
    return _summed(indices, heights, len(grid))


def with_derivatives(grid: Array, peaks: Peaks, parameters: ProfileParameters) -> tuple[Array, Array]:
    """Returns the pattern, (n,), and its derivatives by the parameters in their order, (7, n)."""
    indices, distance = _windows(grid, peaks)
    u = distance / peaks.width[:, None]  # in full widths
    squared_u = u * u
    lorentz = parameters.lorentz
    gauss_shape, lorentz_shape = _shapes(squared_u)
    shape = _pseudo_voigt(gauss_shape, lorentz_shape, lorentz)
    by_lorentz = lorentz_shape - gauss_shape
    by_u = -8 * u * (lorentz * lorentz_shape / (1 + 4 * squared_u) + (1 - lorentz) * LN2 * gauss_shape)
    height = (peaks.area / peaks.width)[:, None]
    by_centre = -by_u * height / peaks.width[:, None]
    by_width = -(shape + u * by_u) * height / peaks.width[:, None]
    by_cell = by_centre * np.degrees(-2 * peaks.tangent / parameters.cell)[:, None]
    value = shape * height
    by_slope = by_width * peaks.tangent[:, None]
    by_displacement = -value * peaks.damping[:, None]
    # in the order of ProfileParameters; the zero shift moves the centres
    by_march = value * peaks.orientation[:, None]
    derivatives = (by_cell, by_centre, by_width, by_slope, by_lorentz * height, by_displacement, by_march)
    summed_derivatives = [_summed(indices, derivative, len(grid)) for derivative in derivatives]
    return _summed(indices, value, len(grid)), np.array(summed_derivatives)


def _summed(indices: NDArray[np.int64], heights: Array, n: int) -> Array:
    """Returns the sum of the heights at each of the n grid points, (n,). Heights with the index n are left out."""
    sums: Array = np.bincount(indices.ravel(), weights=heights.ravel(), minlength=n + 1)[:n].astype(float, copy=False)
    return sums


def _windows(grid: Array, peaks: Peaks) -> tuple[NDArray[np.int64], Array]:
    """Returns the indices of the k grid points around each peak, and their distances from it in degrees, both (m, k).

    Points outside the grid have the index n, the number of grid points."""
    step = grid[1] - grid[0]
    n = len(grid)
    reach = 1
    if len(peaks.width):
        reach = int(min(MAX_REACH_POINTS, np.ceil(REACH * peaks.width.max() / step)))
    middle = np.rint((peaks.centre - grid[0]) / step).astype(np.int64)
    indices = middle[:, None] + np.arange(-reach, reach + 1)
    distance = grid[0] + indices * step - peaks.centre[:, None]
    is_outside = (indices < 0) | (indices >= n)
    return np.where(is_outside, n, indices), distance


def _shapes(squared: Array) -> tuple[Array, Array]:
    """Returns the Gauss and the Lorentz function of unit area and full width at half maximum.

    squared: square of the distance from the centre, in full widths."""
    return 2 * np.sqrt(LN2 / np.pi) * np.exp(-4 * LN2 * squared), (2 / np.pi) / (1 + 4 * squared)


def _pseudo_voigt(gauss_shape: Array, lorentz_shape: Array, lorentz: float) -> Array:
    """Returns the mixture of a Gauss and a Lorentz function. lorentz: share of the Lorentz function."""
    return gauss_shape + lorentz * (lorentz_shape - gauss_shape)


SEARCH_WIDTHS = (0.08, 0.2, 0.5)
"""Peak widths of the search, in degrees."""
N_SEARCHED = 100
"""Number of strongest reflections that the search looks at."""
CELL_STEP = 5e-4
"""Step of the search for the factor of the cell lengths."""
ZERO_STEP = 0.05
"""Step of the search for the zero shift, in degrees."""
MAX_STARTS = 2
"""Largest number of starts of the fit."""
PROMISING_SHARE = 0.8
"""Share of the best estimated match that a place needs to be a start."""
FIRST_STEPS = 4
"""Largest number of steps from each start."""
LAST_STEPS = 20
"""Largest number of steps that follow from the best point of the first steps."""
HOPELESS_MATCH = 0.3
"""Match after the first steps up to which the fit ends."""
UNMOVED = ProfileParameters(cell=1.0, zero=0.0, width=0.1, slope=0.0, lorentz=0.0, displacement=0.5)
"""Parameters of the search, which varies some of them."""
MIN_GAIN = 1e-5
"""Gain in the match, over two steps, below which the fit ends."""
MAX_WIDTH = 1.5  # degrees
MAX_SLOPE = 1.0  # degrees
MAX_DISPLACEMENT = 5.0  # angstrom**2
MIN_MARCH = 0.2
"""Smallest parameter of March; plates in a pressed powder have 0.3 to 0.8."""
ORIENTED_MARCH = 0.5
"""Parameter of March from which the fit of a crystal that grows as plates starts, too."""
SIGNIFICANT = 3.0
"""Number of standard uncertainties above which a smoothed intensity counts as measured area."""


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
    starts = list(problem.starts())
    if reflections.tilts is not None:
        starts += [np.array([*start[:-1], ORIENTED_MARCH]) for start in starts]
    improved_starts = [problem.improved(start, FIRST_STEPS) for start in starts]
    matching = [state for state in improved_starts if state.match > 0]
    if not matching:
        return None
    best = max(matching, key=lambda state: state.match)
    if best.match > HOPELESS_MATCH:
        best = problem.improved(best.vector, LAST_STEPS)
    return problem.result(best)


class _State(NamedTuple):
    """A point of the fit."""

    vector: Array
    """(7,) the values of ProfileParameters, in their order."""
    match: float
    """The match there; during the search an estimate."""


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
        least_march = 1.0 if self.reflections.tilts is None else MIN_MARCH
        min_width = max(1.5 * self.measured.step, 0.01)  # a narrower peak would fall between the points
        max_width = max(MAX_WIDTH, 2 * min_width)
        low = np.array([1 - cell, -zero, min_width, 0.0, 0.0, 0.0, least_march])
        high = np.array([1 + cell, zero, max_width, MAX_SLOPE, 1.0, MAX_DISPLACEMENT, 1.0])
        return low, high

    def starts(self) -> Sequence[Array]:
        """Returns the best places of a search over cell, zero shift and width, best first; at most MAX_STARTS.

        The match of a place is estimated: the sum of measured times computed intensity over the grid points equals the
        sum, over the peaks, of a peak's area times the smoothed measured intensity at its centre.
        """
        cells = _values_around_zero(self.limits.cell, CELL_STEP)
        zeros = _values_around_zero(self.limits.zero, ZERO_STEP)
        strongest = Reflections(self.reflections.spacing[:N_SEARCHED], self.reflections.strength[:N_SEARCHED])
        peaks_by_cell = [peaks_of(strongest, self.lines, UNMOVED._replace(cell=1 + float(cell))) for cell in cells]
        low, high = self.bounds
        places = []
        for width in SEARCH_WIDTHS:
            smooth, scale = self._smoothed_by_peak(strongest, width)
            products = []
            for peaks in peaks_by_cell:
                centres = peaks.centre[:, None] + zeros
                at_centres = np.interp(centres, self.measured.two_theta, smooth, left=0.0, right=0.0)
                products.append(peaks.area @ at_centres)
            matches = np.array(products) * scale  # (cells, zeros)
            best_zeros = matches.argmax(axis=1)  # index of the best zero shift for each cell
            for i in _largest_maxima(matches.max(axis=1), MAX_STARTS):
                zero_index = best_zeros[i]
                place = ProfileParameters(
                    cell=1 + cells[i], zero=zeros[zero_index], width=width, slope=0.0, lorentz=0.5, displacement=0.5
                )
                vector = np.clip(np.array(place), low, high)
                places.append(_State(vector, float(matches[i, zero_index])))
        places.sort(key=lambda state: -state.match)
        needed = PROMISING_SHARE * places[0].match
        return [state.vector for state in places[:MAX_STARTS] if state.match >= needed]

    def _smoothed_by_peak(self, reflections: Reflections, width: float) -> tuple[Array, float]:
        """Returns the measured intensity smoothed with a Gauss function, (n,), and a scale.

        The scale is one over the product of the norms of the measured and the computed pattern; 0 if one is empty.
        width: full width of the Gauss function at half maximum, degrees."""
        grid = self.measured.two_theta
        net = self.measured.net
        n = int(np.ceil(2.5 * width / self.measured.step))  # points of the kernel on each side of its centre
        u = np.arange(-n, n + 1) * self.measured.step / width  # in full widths
        kernel = np.exp(-4 * np.log(2) * u * u) * (2 * np.sqrt(np.log(2) / np.pi) / width)
        peaks = peaks_of(reflections, self.lines, UNMOVED._replace(width=width))
        norms = float(np.linalg.norm(rendered(grid, peaks, 0.0)) * np.linalg.norm(net))
        scale = 1 / norms if norms else 0.0
        return np.convolve(net, kernel, mode="same"), scale

    def improved(self, vector: Array, steps: int) -> _State:
        """Returns the point after at most `steps` damped Gauss-Newton steps, each of which raises the match."""
        low, high = self.bounds
        damping = 1e-2  # added to the diagonal of the curvature, relative to it
        match = self._match(vector)
        last_gain = 1.0  # large, so that the fit does not end after its first step
        for _ in range(steps):
            descent, curvature = self._equations(vector)
            leaves_low = (vector <= low) & (descent < 0)
            leaves_high = (vector >= high) & (descent > 0)
            is_free = ~(leaves_low | leaves_high) & (np.diag(curvature) > 0)
            if not is_free.any():
                break
            for _ in range(4):  # with ten times the damping each time
                damped = curvature[np.ix_(is_free, is_free)]
                damped = damped + np.diag(damping * np.diag(damped))
                step = np.zeros(len(vector))
                step[is_free] = np.linalg.lstsq(damped, descent[is_free], rcond=None)[0]
                new_vector = np.clip(vector + step, low, high)
                new_match = self._match(new_vector)
                if new_match > match:
                    break
                damping *= 10
            else:  # no damping has raised the match
                break
            gain = new_match - match
            vector = new_vector
            match = new_match
            damping = max(damping / 10, 1e-6)
            if gain + last_gain < MIN_GAIN:
                break
            last_gain = gain
        return _State(vector, match)

    def _match(self, vector: Array) -> float:
        """Returns the cosine of measured and computed intensities, 0 to 1; 0 if one of the patterns is empty."""
        computed = self._computed(vector)
        norms = float(np.linalg.norm(computed) * np.linalg.norm(self.measured.net))
        if not norms:
            return 0.0
        cosine = float(computed @ self.measured.net) / norms
        return min(1.0, max(0.0, cosine))

    def _computed(self, vector: Array) -> Array:
        """Returns the computed pattern on the grid of the measured one, (n,), before it is scaled to its height."""
        parameters = ProfileParameters(*map(float, vector))
        peaks = peaks_of(self.reflections, self.lines, parameters)
        return rendered(self.measured.two_theta, peaks, parameters.lorentz)

    def _equations(self, vector: Array) -> tuple[Array, Array]:
        """Returns minus the gradient, (7,), and the approximate Hessian, (7, 7), of the squared residual.

        The height is eliminated. Source: Kaufman, BIT 15, 49 (1975)."""
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
        """Returns the fit that ended at this point."""
        parameters = ProfileParameters(*map(float, state.vector))
        net = self.measured.net
        error = self.measured.error
        computed = self._computed(state.vector)
        height = float(net @ computed) / float(computed @ computed)
        computed *= height
        rwp = float(np.linalg.norm((net - computed) / error) / np.linalg.norm(net / error))
        low, high = self.bounds
        at_limit = []
        for name, value, least, most in zip(ProfileParameters._fields, state.vector, low, high, strict=True):
            is_at_low_limit = value <= least and least != 0
            is_at_high_limit = value >= most and name != "march"  # 1 means that there is no preferred orientation
            is_fitted = most > least  # a limit of 0 keeps the cell or the zero shift
            if is_fitted and (is_at_low_limit or is_at_high_limit):
                at_limit.append(name)
        grid = self.measured.two_theta
        centres = peaks_of(self.reflections, self.lines[:1], parameters).centre
        centres = centres[(centres >= grid[0]) & (centres <= grid[-1])]
        return PowderFit(
            match=state.match,
            rwp=rwp,
            unexplained=unexplained(net, computed, error, parameters.width / self.measured.step),
            parameters=parameters,
            computed=computed,
            centres=centres,
            at_limit=tuple(at_limit),
        )


def unexplained(net: Array, computed: Array, error: Array, width: float) -> float:
    """Returns the share of the significant measured area that lies above the computed pattern, 0 to 1.

    net: measured intensities without the background. width: width of a peak, in grid points. The intensities are
    averaged over half of it, so that noise does not count as area. Without significant area the share is 1."""
    half_width = max(1, round(width / 2))
    n = half_width // 2 * 2 + 1  # number of points that are averaged, odd
    noise = SIGNIFICANT * np.sqrt(smoothed(error**2, n) / n)
    measured = smoothed(net, n)
    missing = smoothed(net - computed, n)
    is_significant = measured > noise
    area = float(measured[is_significant].sum())
    if area <= 0:
        return 1.0
    missing_area = float(missing[(missing > noise) & is_significant].sum())
    return min(1.0, missing_area / area)


def _values_around_zero(limit: float, step: float) -> Array:
    """Returns an odd number of values from -limit to limit, at most `step` apart."""
    n = int(np.ceil(limit / step))
    return np.linspace(-limit, limit, 2 * n + 1)


def _largest_maxima(values: Array, n: int) -> Sequence[int]:
    """Returns the indices of the n largest local maxima, largest first."""
    padded = np.pad(values, 1, constant_values=-np.inf)
    is_peak = (values >= padded[:-2]) & (values >= padded[2:])
    indices = np.flatnonzero(is_peak)
    largest_first = indices[np.argsort(-values[indices], kind="stable")]
    return [int(index) for index in largest_first[:n]]


DIGITS = 5
"""Significant digits of intensities."""
MAX_MARKS = 1000
"""Largest number of reflections that are marked, the strongest first."""


def fitted_series(measured: PreparedPattern, fitted: PowderFit, title: str) -> Series:
    """Returns the series of the fit, of at most MAX_BYTES.

    It has all points of the pattern if they fit in, otherwise every second point, or every third, and so on."""
    for spacing in count(1):
        series = _thinned_series(spacing, measured, fitted, title)
        if len(series.model_dump_json()) < MAX_BYTES:
            return series
    raise AssertionError  # never reached, since `count` has no end


def _thinned_series(spacing: int, measured: PreparedPattern, fitted: PowderFit, title: str) -> Series:
    """Returns the series with every point (spacing 1), every second point (spacing 2), and so on."""
    computed = fitted.computed + measured.background
    intensities = {
        "measured": measured.intensity,
        "computed": computed,
        "background": measured.background,
        "difference": measured.intensity - computed,
    }
    angles = {"two_theta": measured.two_theta[::spacing], "reflections": np.sort(fitted.centres[:MAX_MARKS])}
    columns = []
    for name, values in angles.items():
        columns.append(SeriesColumn(name=name, axis="two_theta", values=np.round(values, 4).tolist()))
    for name, values in intensities.items():
        columns.append(SeriesColumn(name=name, axis="intensity", values=_rounded(values[::spacing])))
    curves = [SeriesCurve(name=name, role=CurveRole(name), x="two_theta", y=name) for name in intensities]
    curves.append(SeriesCurve(name="reflections", role=CurveRole.MARKS, x="reflections"))
    return Series(
        title=escaped(title)[:200],
        axes=[
            SeriesAxis(name="two_theta", meaning="diffraction angle 2θ", unit="degree"),
            SeriesAxis(name="intensity", meaning="intensity as measured"),
        ],
        columns=columns,
        curves=curves,
    )


def _rounded(values: Array) -> list[float]:
    """Returns the values with DIGITS significant digits.

    Values are scaled by powers of ten from 1 up to 1e22, which are exact numbers, so that the results have few digits
    as texts."""
    with np.errstate(divide="ignore"):
        decimals = DIGITS - 1 - np.floor(np.log10(np.abs(values)))  # infinite for a value of 0
    decimals = np.where(np.isfinite(decimals), np.clip(decimals, -22, 22), 0.0)
    multiplier = 10.0 ** np.maximum(decimals, 0)
    divisor = 10.0 ** np.maximum(-decimals, 0)
    rounded: list[float] = (np.rint(values * multiplier / divisor) * divisor / multiplier).tolist()
    return rounded
