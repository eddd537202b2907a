"""A computed pattern has the area of its peaks, and its derivatives are those of finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from pymatgen.core import Lattice, Structure

from sciagent_simulators.powder.powder_fit import ProfileParameters, peaks_of, rendered, with_derivatives
from sciagent_simulators.powder.reflections_and_spectral_lines import lines_of, reflections_of

EXACT = ProfileParameters(1.0, 0.0, 0.1, 0.05, 0.5, 0.3)


def test_a_pattern_has_the_area_of_its_peaks_and_the_derivatives_of_finite_differences() -> None:
    corundum = Structure.from_spacegroup(
        "R-3c", Lattice.hexagonal(4.759091, 12.991779), ["Al", "O"], [[0, 0, 0.35216], [0.30624, 0, 0.25]]
    )
    grid, reflections = np.arange(20.0, 80.0, 0.01), reflections_of(corundum, 1.5405929, 22, 78)
    lines = lines_of("CuKa")
    peaks = peaks_of(reflections, lines, EXACT)
    value, derivatives = with_derivatives(grid, peaks, EXACT)
    assert value == pytest.approx(rendered(grid, peaks, EXACT.lorentz))
    assert value.sum() * 0.01 == pytest.approx(peaks.area.sum(), rel=0.04)  # the tails end after 8 widths
    for i, step in enumerate((1e-6, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5)):
        moved = [
            EXACT._replace(**{EXACT._fields[i]: EXACT[i] + sign * step})  # type: ignore[arg-type]
            for sign in (1, -1)
        ]
        above, below = (rendered(grid, peaks_of(reflections, lines, p), p.lorentz) for p in moved)
        measured = (above - below) / (2 * step)
        error = np.linalg.norm(derivatives[i] - measured) / np.linalg.norm(measured)
        assert error < 0.05, EXACT._fields[i]
