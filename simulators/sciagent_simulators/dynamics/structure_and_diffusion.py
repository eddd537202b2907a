"""Structure and diffusion from frames of a simulation: radial distribution functions, displacements, self-diffusion.

Boxes are periodic with right angles; distributions are also taken in cells of any shape. Lengths are in angstrom, times
in ps, masses in Da, coefficients of diffusion in m^2/s.

Sources: unwrapping in a box that changes: von Buelow, Bullerjahn, Hummer, J. Chem. Phys. 153, 021101 (2020), the
toroidal-view-preserving scheme. Mean squared displacement by Fourier transform: Calandrini et al., Collection SFN 12,
201 (2011). Correction of diffusion for the size of the box: Yeh, Hummer, J. Phys. Chem. B 108, 15873 (2004), eq. 12.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_simulators.geometry_and_its_checks import failure

Array = NDArray[np.float64]
Indices = NDArray[np.int_]
AtomSelection = str | Sequence[int]
"""The symbol of an element, or indices of atoms."""

BOLTZMANN = 1.380649e-23  # J/K
SQUARE_ANGSTROM_PER_PS = 1e-8  # m^2/s
CUBIC_LATTICE_CONSTANT = 2.837297  # of a simple cubic lattice of charges in a background, Yeh and Hummer 2004
PAIRS_AT_ONCE = 2_000_000
MAX_BINS = 10_000
MIN_REPLICAS = 3
MAX_JUMP = 0.4  # of a box edge, from one frame to the next; more than half of it looks like a jump back


@dataclass(frozen=True, eq=False)
class BoxFrames:
    """f frames of n atoms in a periodic box."""

    positions: Array
    """f x n x 3, angstrom, wrapped or not."""
    boxes: Array
    """f x 3, edges, or f x 3 x 3, the vectors of cells of any shape in their rows, angstrom."""
    elements: tuple[str, ...]
    """The symbol of each atom."""
    molecules: tuple[int, ...]
    """The number of each atom's molecule, from 0 without gaps."""

    def __post_init__(self) -> None:
        shape = self.positions.shape
        is_box = self.boxes.shape in ((shape[0], 3), (shape[0], 3, 3))
        if len(shape) != 3 or shape[2] != 3 or not shape[0] or not is_box:
            raise ValueError(f"positions {shape} and boxes {self.boxes.shape} are not f x n x 3 and f x 3 or f x 3 x 3")
        if not len(self.elements) == len(self.molecules) == shape[1]:
            raise ValueError(f"{shape[1]} atoms have {len(self.elements)} elements and {len(self.molecules)} molecules")
        if not (np.isfinite(self.positions).all() and np.isfinite(self.boxes).all() and self.widths.min() > 0):
            raise failure(Reason.NOT_FINITE, "a position or an edge of the box is not a finite number")

    @property
    def volumes(self) -> Array:
        """(f,), angstrom^3."""
        volumes: Array = np.prod(self.boxes, axis=1) if self.boxes.ndim == 2 else np.abs(np.linalg.det(self.boxes))
        return volumes

    @property
    def widths(self) -> Array:
        """(f,) least distance of opposite faces, angstrom."""
        if self.boxes.ndim == 2:
            narrowest: Array = self.boxes.min(axis=1)
            return narrowest
        first, second, third = (self.boxes[:, row] for row in range(3))
        normals = np.stack([np.cross(second, third), np.cross(third, first), np.cross(first, second)], axis=1)
        areas = np.linalg.norm(normals, axis=2).max(axis=1)
        widths: Array = self.volumes / np.maximum(areas, np.finfo(float).tiny)
        return widths

    def selected(self, atoms: AtomSelection) -> Indices:
        """Returns the indices of atoms. Raises ValueError if there are none, or one twice or outside."""
        if isinstance(atoms, str):
            indices = np.flatnonzero(np.array(self.elements) == atoms)
        else:
            indices = np.array(atoms, dtype=int)
        n = len(self.elements)
        if not len(indices) or len(np.unique(indices)) < len(indices) or indices.min() < 0 or indices.max() >= n:
            raise ValueError(f"{atoms!r} selects no atoms, or one twice, or one that is not among the {n}")
        return indices


@dataclass(frozen=True, eq=False)
class RadialDistribution:
    """The density of second atoms at a distance from first atoms, over that of an ideal gas."""

    r: Array
    """(b,), middles of the bins, angstrom."""
    g: Array
    """(b,), 1 for an ideal gas."""
    uncertainty: Array | None
    """(b,), standard error from the scatter of blocks of frames; None for one block."""
    neighbours: Array
    """(b,), mean number of second atoms up to the end of the bin around a first atom."""

    @property
    def highest_peak(self) -> tuple[float, float]:
        """Distance (angstrom) and height of the highest value; the distance by a parabola through three bins."""
        top = int(np.argmax(self.g))
        shift = 0.0
        if 0 < top < len(self.g) - 1:
            left = self.g[top - 1]
            right = self.g[top + 1]
            curvature = left - 2 * self.g[top] + right
            shift = 0.5 * float((left - right) / curvature) if curvature < 0 else 0.0
        return float(self.r[top] + shift * (self.r[1] - self.r[0])), float(self.g[top])


@dataclass(frozen=True)
class SelfDiffusion:
    """A self-diffusion coefficient; all values in m^2/s but the exponents."""

    uncorrected: float
    """In the periodic box, as simulated."""
    corrected: float | None
    """For an infinite box; None before the correction."""
    uncertainty: float
    """Standard error of the uncorrected value, from the scatter of the replicas; after the correction also with that
    of the viscosity."""
    replicas: tuple[float, ...]
    """The uncorrected value of each replica."""
    exponents: tuple[float, ...]
    """For each replica the power of time with which the displacement grows: 1 if it diffuses, near 0 in a solid."""


def radial_distribution(
    frames: BoxFrames,
    first: AtomSelection,
    second: AtomSelection,
    reach: float | None = None,
    n_bins: int = 200,
    n_blocks: int = 5,
    between_molecules: bool = False,
) -> RadialDistribution:
    """Returns the radial distribution function of two selections of atoms, equal or without a common atom.

    With between_molecules they may share some of their atoms, too.

    reach: largest distance, angstrom; None for half of the narrowest edge. n_blocks: blocks of consecutive frames from
    whose scatter the error is taken; they must be longer than the structure is correlated. between_molecules: leaves
    out pairs within a molecule.

    Raises SimulatorError unstable (box_too_small) for a reach of more than half of the narrowest edge, ValueError for
    selections, bins and blocks that do not fit.
    """
    atoms = frames.selected(first)
    others = frames.selected(second)
    is_same = np.array_equal(np.sort(atoms), np.sort(others))
    if not between_molecules and not is_same and len(np.intersect1d(atoms, others)):
        raise ValueError("the two selections share some of their atoms; they must be equal or share none")
    if not 1 <= n_bins <= MAX_BINS or not 1 <= n_blocks <= len(frames.positions):
        raise ValueError(f"1 to {MAX_BINS} bins and 1 to {len(frames.positions)} blocks, not {n_bins} and {n_blocks}")
    half = float(frames.widths.min()) / 2
    reach = half if reach is None else reach
    if not 0 < reach <= half * (1 + 1e-9):
        raise failure(Reason.BOX_TOO_SMALL, f"the distribution reaches {reach:g} angstrom, half of the box is {half:g}")
    molecules = np.array(frames.molecules)
    is_pair = atoms[:, None] != others[None]
    if between_molecules:
        is_pair &= molecules[atoms][:, None] != molecules[others][None]
    n_pairs = int(is_pair.sum())
    if not n_pairs:
        raise ValueError("the selections have no pairs")
    counts = np.array(
        [
            _pair_counts(positions[atoms], positions[others], box, is_pair, reach, n_bins)
            for positions, box in zip(frames.positions, frames.boxes, strict=True)
        ]
    )
    edges = np.linspace(0, reach, n_bins + 1)
    shells = 4 / 3 * math.pi * np.diff(edges**3)
    g_of_frame = counts * frames.volumes[:, None] / (n_pairs * shells)
    uncertainty = None
    if n_blocks > 1:
        blocks = np.array([block.mean(axis=0) for block in np.array_split(g_of_frame, n_blocks)])
        uncertainty = blocks.std(axis=0, ddof=1) / math.sqrt(n_blocks)
    return RadialDistribution(
        r=(edges[1:] + edges[:-1]) / 2,
        g=g_of_frame.mean(axis=0),
        uncertainty=uncertainty,
        neighbours=np.cumsum(counts.mean(axis=0)) / len(atoms),
    )


def molecule_centres(frames: BoxFrames, masses: ArrayLike, max_jump: float = MAX_JUMP) -> Array:
    """Returns the centres of mass of the molecules, f x m x 3, angstrom, on continuous paths through the box.

    masses: (n,), Da, positive. A molecule may be broken by the box, but must be smaller than half of it.

    max_jump: longest step from one frame to the next, as a share of the box edge; math.inf: any step is allowed.

    Raises SimulatorError implausible (implausible_value) for a longer step, ValueError.
    """
    if frames.boxes.ndim != 2:
        raise ValueError("molecules are followed in boxes with right angles only")
    weights = np.asarray(masses, dtype=float)
    molecules = np.array(frames.molecules)
    n_molecules = int(molecules.max()) + 1
    if weights.shape != molecules.shape or not weights.min() > 0:
        raise ValueError(f"{len(molecules)} atoms need a positive mass each")
    if len(np.unique(molecules)) < n_molecules or molecules.min() < 0:
        raise ValueError("molecules are numbered from 0 without gaps")
    first_atoms = np.array([np.flatnonzero(molecules == k)[0] for k in range(n_molecules)])
    anchors = frames.positions[:, first_atoms]
    box = frames.boxes[:, None]
    arms = frames.positions - anchors[:, molecules]
    arms = arms - box * np.round(arms / box)
    sums = np.zeros((n_molecules, len(arms), 3))
    np.add.at(sums, molecules, (arms * weights[:, None]).swapaxes(0, 1))
    centres = anchors + sums.swapaxes(0, 1) / np.bincount(molecules, weights)[:, None]
    return unwrapped(centres, frames.boxes, max_jump)


def unwrapped(points: Array, boxes: Array, max_jump: float = MAX_JUMP) -> Array:
    """Returns the continuous paths of points, f x m x 3, in boxes with edges, f x 3, angstrom.

    Raises SimulatorError implausible (implausible_value) for a step of more than `max_jump` of the box from one frame
    to the next: frames so far apart do not show which way a point went.
    """
    edges = boxes[1:, None]
    steps = np.diff(points, axis=0)
    steps = steps - edges * np.round(steps / edges)
    largest = float((np.abs(steps) / edges).max()) if len(steps) else 0.0
    if largest > max_jump:
        raise failure(
            Reason.IMPLAUSIBLE_VALUE,
            f"a molecule moves by {largest:.2f} of the box from one frame to the next: take frames more often",
        )
    return np.concatenate([points[:1], points[0] + np.cumsum(steps, axis=0)])


def mean_squared_displacement(
    paths: Array, masses: ArrayLike | None = None, chosen: Sequence[int] | None = None
) -> Array:
    """Returns the mean squared displacement of m paths, f x m x 3, for each lag of frames, (f,), angstrom^2.

    It is averaged over all starts, and over all molecules or the chosen ones. masses: (m,), Da; with them the motion of
    the common centre, which a thermostat lets drift, is taken off, which lowers the result by a factor 1 - 1 / m.
    """
    if masses is not None:
        weights = np.asarray(masses, dtype=float)
        drift = np.einsum("m,fmx->fx", weights, paths) / weights.sum()
        paths = paths - drift[:, None]
    if chosen is not None:
        paths = paths[:, list(chosen)]
    n = len(paths)
    length = 1 << (2 * n - 1).bit_length()
    centred = paths - paths.mean(axis=0)
    spectrum = np.abs(np.fft.rfft(centred, length, axis=0)) ** 2
    products = np.fft.irfft(spectrum.sum(axis=(1, 2)), length)[:n]
    squares = (centred**2).sum(axis=(1, 2))
    ends = np.concatenate([[0.0], np.cumsum(squares)])
    lags = np.arange(n)
    # |x(i + t) - x(i)|^2 summed: the last n - t squares and the first n - t squares, less twice the products
    sums = (ends[n] - ends[lags]) + ends[n - lags] - 2 * products
    result: Array = np.maximum(sums, 0.0) / (n - lags) / paths.shape[1]
    result[0] = 0.0
    return result


def self_diffusion(
    displacements: Sequence[ArrayLike], interval: float, window: tuple[float, float] = (0.1, 0.5)
) -> SelfDiffusion:
    """Returns the self-diffusion coefficient from the slopes of mean squared displacements, a sixth of each.

    displacements: for each of 3 or more replicas the mean squared displacement at each lag, (f,), angstrom^2.
    interval: ps from one frame to the next. window: shares of the longest lag between which a line is fitted.

    Raises ValueError for fewer than 3 replicas, from which no error can be told, and for windows of under 3 lags.
    """
    if len(displacements) < MIN_REPLICAS:
        raise ValueError(f"{len(displacements)} replicas; the error of a diffusion coefficient takes {MIN_REPLICAS}")
    if not interval > 0 or not 0 <= window[0] < window[1] <= 1:
        raise ValueError(f"the interval {interval:g} ps or the window {window} is impossible")
    values = []
    exponents = []
    for displacement in displacements:
        msd = np.asarray(displacement, dtype=float)
        low = max(1, math.ceil(window[0] * (len(msd) - 1)))
        lags = np.arange(low, math.floor(window[1] * (len(msd) - 1)) + 1)
        if len(lags) < 3 or not np.isfinite(msd).all():
            raise ValueError(f"{len(msd)} finite displacements are needed with 3 lags or more in the window")
        times = interval * lags
        values.append(float(np.polyfit(times, msd[lags], 1)[0]) / 6 * SQUARE_ANGSTROM_PER_PS)
        grows = msd[lags] > 0
        exponents.append(float(np.polyfit(np.log(times), np.log(msd[lags]), 1)[0]) if grows.all() else 0.0)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return SelfDiffusion(float(np.mean(values)), None, error, tuple(values), tuple(exponents))


def corrected_for_box(
    diffusion: SelfDiffusion,
    temperature: float,
    edges: ArrayLike,
    viscosity: float | None,
    viscosity_uncertainty: float = 0.0,
) -> SelfDiffusion:
    """Returns the coefficient with its value for an infinite box: D + 2.837297 kT / (6 pi viscosity edge).

    temperature: K. edges: (3,), angstrom, of a cubic box. viscosity and its standard error: Pa s, of the simulated
    liquid, not the measured one, whose difference is an error of the force field.

    Raises SimulatorError refused (viscosity_unknown) without a viscosity, ValueError for other boxes.
    """
    if viscosity is None:
        raise failure(
            Reason.VISCOSITY_UNKNOWN,
            f"a diffusion coefficient of {diffusion.uncorrected:.3g} m2/s in a periodic box is too small by an amount "
            "that depends on the viscosity, which is not known",
            uncorrected=diffusion.uncorrected,
        )
    lengths = np.asarray(edges, dtype=float)
    if lengths.shape != (3,) or not lengths.min() > 0 or np.ptp(lengths) > 1e-3 * lengths.min():
        raise ValueError(f"the correction is that of a cubic box, not of one with the edges {lengths}")
    if not (viscosity > 0 and viscosity_uncertainty >= 0 and temperature > 0):
        raise ValueError("temperature and viscosity are positive, the error of the viscosity is 0 or more")
    edge = float(lengths.mean()) * 1e-10
    shift = CUBIC_LATTICE_CONSTANT * BOLTZMANN * temperature / (6 * math.pi * viscosity * edge)
    uncertainty = math.hypot(diffusion.uncertainty, shift * viscosity_uncertainty / viscosity)
    return replace(diffusion, corrected=diffusion.uncorrected + shift, uncertainty=uncertainty)


def _pair_counts(
    first: Array, second: Array, box: Array, is_pair: NDArray[np.bool_], reach: float, n_bins: int
) -> NDArray[np.int_]:
    """Returns the number of ordered pairs in each bin of distance, (b,), in a frame. box: (3,) or 3 x 3."""
    counts = np.zeros(n_bins, dtype=int)
    n_rows = max(1, PAIRS_AT_ONCE // len(second))
    for row in range(0, len(first), n_rows):
        vectors = first[row : row + n_rows, None] - second[None]
        if box.ndim == 1:
            vectors -= box * np.round(vectors / box)
        else:  # a vector shorter than half of the least width has no share of a cell vector above one half
            vectors -= np.round(vectors @ np.linalg.inv(box)) @ box
        distances = np.sqrt(np.einsum("ijx,ijx->ij", vectors, vectors))[is_pair[row : row + n_rows]]
        bins = (distances[distances < reach] * (n_bins / reach)).astype(int)
        counts += np.bincount(np.minimum(bins, n_bins - 1), minlength=n_bins)
    return counts
