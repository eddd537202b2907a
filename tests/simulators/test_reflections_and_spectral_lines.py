"""Computed reflections lie where NIST's reference materials have them."""

from __future__ import annotations

import numpy as np
import pytest
from pymatgen.analysis.diffraction.xrd import XRDCalculator
from pymatgen.core import Lattice, Structure

from sciagent_simulators.powder.powder_fit import ProfileParameters, peaks_of
from sciagent_simulators.powder.reflections_and_spectral_lines import (
    PlateletTilts,
    SpectralLine,
    lines_of,
    platelet_tilts,
    reflections_of,
)

CU_K_ALPHA_1 = lines_of("CuKa1")
EXACT = ProfileParameters(1.0, 0.0, 0.1, 0.05, 0.5, 0.3)


@pytest.fixture(scope="module")
def silicon() -> Structure:
    return Structure.from_spacegroup("Fd-3m", Lattice.cubic(5.43102), ["Si"], [[0, 0, 0]])


@pytest.fixture(scope="module")
def corundum() -> Structure:
    return Structure.from_spacegroup(
        "R-3c", Lattice.hexagonal(4.759091, 12.991779), ["Al", "O"], [[0, 0, 0.35216], [0.30624, 0, 0.25]]
    )


@pytest.mark.parametrize(
    ("name", "positions"),
    [
        ("silicon", [28.441, 47.300, 56.119, 69.127, 76.373, 88.026]),  # SRM 640
        ("corundum", [25.574, 35.149, 43.351, 52.548, 57.496, 66.513, 68.203]),  # SRM 676; its strong reflections
    ],
)
def test_reference_materials_have_their_positions(
    name: str, positions: list[float], request: pytest.FixtureRequest
) -> None:
    reflections = reflections_of(request.getfixturevalue(name), CU_K_ALPHA_1[0].wavelength, 10, 89)
    peaks = peaks_of(reflections, CU_K_ALPHA_1, EXACT)
    strong = peaks.centre[: len(positions) + 3]
    for position in positions:
        assert np.abs(strong - position).min() < 0.02


def test_peaks_of_the_cell_as_it_is_are_those_of_pymatgen(corundum: Structure) -> None:
    reflections = reflections_of(corundum, CU_K_ALPHA_1[0].wavelength, 10, 89)
    peaks = peaks_of(reflections, CU_K_ALPHA_1, EXACT._replace(displacement=0.0))
    pattern = XRDCalculator(wavelength=CU_K_ALPHA_1[0].wavelength).get_pattern(corundum, two_theta_range=(10, 89))
    order = np.argsort(-np.asarray(pattern.y))[: len(peaks.centre)]
    assert peaks.centre == pytest.approx(np.asarray(pattern.x)[order])
    assert 100 * peaks.area / peaks.area.max() == pytest.approx(np.asarray(pattern.y)[order])


def test_a_larger_cell_moves_peaks_as_a_cell_built_larger_does(corundum: Structure) -> None:
    larger = corundum.copy()
    larger.scale_lattice(larger.volume * 1.01**3)
    built = peaks_of(reflections_of(larger, 1.5405929, 10, 89), CU_K_ALPHA_1, EXACT)
    scaled = peaks_of(reflections_of(corundum, 1.5405929, 10, 89), CU_K_ALPHA_1, EXACT._replace(cell=1.01))
    n = 12
    assert np.sort(built.centre[:n]) == pytest.approx(np.sort(scaled.centre[:n]), abs=1e-6)


def test_a_tube_has_both_lines_unless_a_monochromator_removes_the_second(silicon: Structure) -> None:
    assert lines_of("CuKa") == (SpectralLine(1.5405929, 2 / 3), SpectralLine(1.5444274, 1 / 3))
    assert lines_of("CoKa1") == (SpectralLine(1.788996, 1.0),) and lines_of(0.4) == (SpectralLine(0.4, 1.0),)
    peaks = peaks_of(reflections_of(silicon, 1.5405929, 10, 89), lines_of("CuKa"), EXACT)
    assert len(peaks.centre) == 12 and peaks.area[6] == pytest.approx(peaks.area[0] / 2, rel=0.02)


def test_the_function_of_march_and_dollase() -> None:
    """r^-3 for planes along the plates, r^(3/2) for planes across them; Dollase, J. Appl. Cryst. 19, 267 (1986)."""
    tilts = PlateletTilts(np.array([0, 1, 2, 2]), np.array([1.0, 0.0, 1.0, 0.0]))
    factors, slopes = tilts.factors(0.5)
    assert factors == pytest.approx([8, 0.5**1.5, (8 + 0.5**1.5) / 2])
    step = 1e-6
    assert slopes == pytest.approx((tilts.factors(0.5 + step)[0] - factors) / step, rel=1e-4)
    assert tilts.factors(1.0)[0] == pytest.approx([1, 1, 1])


def test_crystals_with_one_wide_spacing_grow_as_plates() -> None:
    a = 4.386  # hexagonal cell of Bi2Te3, angstrom
    c = 30.497
    side = a / 3**0.5
    lattice = Lattice([[a / 2, side / 2, c / 3], [-a / 2, side / 2, c / 3], [0, -side, c / 3]])
    spacing = np.array([c / 15, a / 2])  # 0 0 15 and 1 1 0
    telluride = platelet_tilts(lattice, spacing)
    assert telluride is not None
    tilts = [set(np.round(telluride.cosine_squared[telluride.reflection == place], 3)) for place in (0, 1)]
    assert tilts[1] == {0.0} and 1.0 in tilts[0]
    assert platelet_tilts(Lattice.cubic(4), np.array([4.0])) is None
    assert platelet_tilts(Lattice.tetragonal(3.78, 4.76), np.array([3.78])) is None
