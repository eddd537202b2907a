"""Powder patterns as a diffractometer would measure them, by another model than that of the fit of `crystal.xrd`.

Peak widths follow Caglioti, peaks are asymmetric at low angles, the sample is displaced, intensities scatter by
grains, each element has its own displacement parameter; there are both K-alpha lines of copper, an impurity, a
background with a glassy hump, and counting noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pymatgen.analysis.diffraction.xrd import XRDCalculator

Array = NDArray[np.float64]
K_ALPHA = ((1.5405929, 1.0), (1.5444274, 0.5))
GRID = np.round(np.arange(12.0, 90.0, 0.02), 2)


@dataclass(frozen=True)
class MeasuredSample:
    """The sample in the diffractometer, and the settings of the measurement."""

    structure: Any
    """The main phase, a pymatgen Structure."""
    impurity: Any
    """The other phase."""
    share: float = 0.1
    """Mass fraction of the impurity."""
    cell: float = 1.01
    """Factor of the main phase's cell lengths."""
    counts: float = 4000.0
    """Counts at the highest peak above the background."""
    seed: int = 0


def measured(sample: MeasuredSample) -> Array:
    """Returns the counts on GRID, (n,)."""
    rng = np.random.default_rng(sample.seed)
    main = _stretched(sample.structure, sample.cell)
    other = sample.impurity
    instrument = _Instrument.drawn(rng)
    signal = (1 - sample.share) * _phase(main, instrument, rng) + sample.share * _phase(other, instrument, rng)
    signal *= sample.counts / signal.max()
    slope = rng.uniform(0.05, 0.15)
    hump = rng.uniform(0.0, 0.04)
    background = 0.03 + slope * np.exp(-(GRID - 12) / 15) + hump * np.exp(-(((GRID - 24) / 6) ** 2))
    return rng.poisson(signal + sample.counts * background).astype(float)


@dataclass(frozen=True)
class _Instrument:
    """The peaks of a diffractometer: parameters of Caglioti, share of the Lorentz function, asymmetry, displacement."""

    u: float
    v: float
    w: float
    lorentz: float
    asymmetry: float
    zero: float
    displacement: float

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> _Instrument:
        w = rng.uniform(0.003, 0.03)
        return cls(
            rng.uniform(0.005, 0.05), -w * rng.uniform(0.1, 0.5), w, rng.uniform(0.3, 0.8), rng.uniform(0.0, 0.3),
            rng.uniform(-0.03, 0.03), rng.uniform(-0.04, 0.04),
        )  # fmt: skip


def _stretched(structure: Any, factor: float) -> Any:
    copy = structure.copy()
    copy.scale_lattice(structure.volume * factor**3)
    return copy


def _phase(structure: Any, instrument: _Instrument, rng: np.random.Generator) -> Array:
    """Returns the pattern of a phase per mass, on GRID."""
    displaced = {element.symbol: float(rng.uniform(0.3, 1.2)) for element in structure.composition.elements}
    pattern = np.zeros(len(GRID))
    for wavelength, weight in K_ALPHA:
        calculator = XRDCalculator(wavelength=wavelength, debye_waller_factors=displaced)
        found = calculator.get_pattern(structure, scaled=False, two_theta_range=(5, 95))
        grains = np.random.default_rng(len(found.x)).lognormal(0.0, 0.1, len(found.x))
        for angle, height in zip(found.x, np.asarray(found.y) * grains, strict=True):
            pattern += weight * height * _peak(float(angle), instrument)
    return pattern / (structure.density * structure.volume**2)


def _peak(angle: float, instrument: _Instrument) -> Array:
    """Returns a peak of unit area on GRID; its low side is wider at low angles."""
    theta = np.radians(angle / 2)
    centre = angle + instrument.zero + instrument.displacement * np.cos(theta)
    width = np.sqrt(max(instrument.u * np.tan(theta) ** 2 + instrument.v * np.tan(theta) + instrument.w, 1e-3))
    skew = 1 + instrument.asymmetry * max(0.0, 1 - angle / 60)
    u = (GRID - centre) / width
    u = np.where(u < 0, u / skew, u)
    bell = np.exp(-4 * np.log(2) * u * u)
    tail = 1 / (1 + 4 * u * u)
    peak = instrument.lorentz * tail + (1 - instrument.lorentz) * bell
    return peak / (peak.sum() * 0.02)
