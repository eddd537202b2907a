"""The fit of a computed pattern finds the parameters that made a pattern, and tells the right crystal from others."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from pymatgen.core import Lattice, Structure

from sciagent.domain.series import MAX_BYTES, CurveRole, read_series
from sciagent_simulators.powder.measured_pattern import PowderPattern, prepared
from sciagent_simulators.powder.powder_fit import (
    FitLimits,
    PowderFit,
    ProfileParameters,
    fit,
    fitted_series,
    peaks_of,
    rendered,
)
from sciagent_simulators.powder.reflections_and_spectral_lines import Reflections, lines_of, reflections_of

TUBE = lines_of("CuKa")
LIMITS = FitLimits(0.02, 0.1)
TRUE = ProfileParameters(1.012, 0.04, 0.15, 0.1, 0.6, 0.9)
GRID = np.arange(15.0, 85.0, 0.02)


@cache
def anatase() -> Structure:
    return Structure.from_spacegroup(
        "I4_1/amd", Lattice.tetragonal(3.7842, 9.5146), ["Ti", "O"], [[0, 0, 0], [0, 0, 0.2081]]
    )


@cache
def rutile() -> Structure:
    return Structure.from_spacegroup(
        "P4_2/mnm", Lattice.tetragonal(4.5937, 2.9587), ["Ti", "O"], [[0, 0, 0], [0.3053, 0.3053, 0]]
    )


def background() -> np.ndarray:
    """A smooth background with a broad hump."""
    return 120 + 400 * np.exp(-(GRID - 15) / 18) + 60 * np.exp(-(((GRID - 25) / 7) ** 2))


def measured(structure: Structure | None = None, *, noise: bool = True) -> PowderPattern:
    """A pattern of 5,000 counts with the background. structure: that of anatase if none is given."""
    signal = rendered(GRID, peaks_of(reflections(structure or anatase()), TUBE, TRUE), TRUE.lorentz)
    counts = 5000 * signal / signal.max() + background()
    return PowderPattern(GRID, np.random.default_rng(3).poisson(counts) * 1.0 if noise else counts, None)


def reflections(structure: Structure) -> Reflections:
    return reflections_of(structure, TUBE[0].wavelength, 12, 88)


def fitted(pattern: PowderPattern, structure: Structure, limits: FitLimits = LIMITS) -> PowderFit:
    found = fit(prepared(pattern, 3.0), reflections(structure), TUBE, limits)
    assert found is not None
    return found


def test_the_parameters_that_made_a_pattern_are_found() -> None:
    found = fitted(measured(), anatase())
    assert found.parameters.cell == pytest.approx(TRUE.cell, abs=3e-4)
    assert found.parameters.zero == pytest.approx(TRUE.zero, abs=0.02)
    middle = np.tan(np.radians(20.0))
    assert found.parameters.width + middle * found.parameters.slope == pytest.approx(0.15 + middle * 0.1, rel=0.05)
    assert found.parameters.lorentz == pytest.approx(TRUE.lorentz, abs=0.15)
    assert found.parameters.displacement == pytest.approx(TRUE.displacement, abs=0.8)  # heights hardly tell
    assert found.match > 0.995 and found.rwp < 0.3 and found.unexplained < 0.08 and found.at_limit == ()


def test_another_crystal_matches_far_less_and_an_element_of_the_mixture_leaves_area() -> None:
    pattern = measured()
    other = fitted(pattern, rutile())
    assert other.match < 0.5 and other.rwp > 0.8 and other.unexplained > 0.7
    both = replace(pattern, intensity=pattern.intensity + 0.3 * measured(rutile()).intensity)
    assert 0.1 < fitted(both, anatase()).unexplained < 0.3


def test_a_cell_outside_the_tolerance_is_not_found_and_says_so() -> None:
    found = fitted(measured(), anatase(), FitLimits(0.005, 0.02))
    assert found.match < 0.9 and "cell" in found.at_limit
    kept = fitted(measured(), anatase(), FitLimits(0.0, 0.0))
    assert (kept.parameters.cell, kept.parameters.zero) == (1.0, 0.0)


def test_the_fit_gives_the_same_bits_each_time() -> None:
    first, second = fitted(measured(), anatase()), fitted(measured(), anatase())
    assert first.match == second.match and first.parameters == second.parameters


def test_scaled_intensities_change_nothing() -> None:
    pattern = measured(noise=False)
    tiny = replace(pattern, intensity=pattern.intensity * 1e-6)
    assert fitted(tiny, anatase()).match == pytest.approx(fitted(pattern, anatase()).match, abs=2e-3)


def test_a_crystal_without_a_reflection_in_the_range_has_no_fit() -> None:
    assert fit(prepared(measured(), 3.0), Reflections(np.empty(0), np.empty(0)), TUBE, LIMITS) is None
    flat = PowderPattern(GRID, np.random.default_rng(1).normal(100, 10, len(GRID)), None)
    noise = fit(prepared(flat, 3.0), reflections(anatase()), TUBE, LIMITS)
    assert noise is None or noise.match < 0.3


def test_the_series_of_the_largest_pattern_is_small_enough_and_adds_up() -> None:
    x = np.arange(5.0, 140.0, 0.005)
    intensity = np.random.default_rng(2).uniform(1e8, 9e8, len(x))
    found = prepared(PowderPattern(x, intensity, None), 3.0)
    result = fit(found, reflections(anatase()), TUBE, LIMITS)
    assert result is not None
    data = fitted_series(found, replace(result, centres=np.linspace(20, 80, 5000)), "noise\n").to_json()
    assert len(data) < MAX_BYTES
    series = read_series(data)
    assert [curve.role for curve in series.curves] == [
        CurveRole.MEASURED, CurveRole.COMPUTED, CurveRole.BACKGROUND, CurveRole.DIFFERENCE, CurveRole.MARKS,
    ]  # fmt: skip
    seen, computed, off = (np.array(series.column(name).values) for name in ("measured", "computed", "difference"))
    assert seen - computed == pytest.approx(off, abs=1e5)


@cache
def bismuth_telluride() -> Structure:
    """Nakajima, J. Phys. Chem. Solids 24, 479 (1963)."""
    places = [[0, 0, 0.4000], [0, 0, 0], [0, 0, 0.2097]]
    return Structure.from_spacegroup("R-3m", Lattice.hexagonal(4.386, 30.497), ["Bi", "Te", "Te"], places)


def test_plates_that_lie_flat_are_found_with_their_orientation() -> None:
    plates = reflections(bismuth_telluride().get_primitive_structure())
    true = TRUE._replace(march=0.35)
    signal = rendered(GRID, peaks_of(plates, TUBE, true), true.lorentz)
    counts = np.random.default_rng(3).poisson(5000 * signal / signal.max() + background()) * 1.0
    pattern = prepared(PowderPattern(GRID, counts, None), 3.0)
    found = fit(pattern, plates, TUBE, LIMITS)
    without = fit(pattern, replace(plates, tilts=None), TUBE, LIMITS)
    assert found is not None and without is not None
    assert found.parameters.march == pytest.approx(0.35, abs=0.03)
    assert found.match > 0.99 and without.match < 0.8
    assert without.parameters.march == 1.0 and "march" not in found.at_limit


def test_a_powder_without_orientation_has_the_parameter_one() -> None:
    found = fitted(measured(bismuth_telluride()), bismuth_telluride().get_primitive_structure())
    assert found.parameters.march == pytest.approx(1.0, abs=0.05) and found.match > 0.99
