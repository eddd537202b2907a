"""A measured pattern on a grid, and the background below its peaks."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent_simulators.powder.measured_pattern import MAX_GRID, PowderPattern, background_of, prepared

GRID = np.arange(15.0, 85.0, 0.02)


def test_the_background_follows_the_hump_and_leaves_the_peaks() -> None:
    curve = 120 + 400 * np.exp(-(GRID - 15) / 18) + 60 * np.exp(-(((GRID - 25) / 7) ** 2))
    peaks = sum(3000 * np.exp(-(((GRID - centre) / 0.15) ** 2)) for centre in (20, 25, 26, 38, 55, 70))
    counts = np.random.default_rng(3).poisson(curve + peaks) * 1.0
    found = prepared(PowderPattern(GRID, counts, None), 3.0)
    off = np.abs(found.background - np.interp(found.two_theta, GRID, curve))
    assert np.median(off) < 10 and off.max() < 90
    flat = background_of(np.full(500, 40.0), np.full(500, 6.0), 50)
    assert flat == pytest.approx(np.full(500, 40.0), abs=1e-6)


def test_a_fine_pattern_is_averaged_and_a_gap_is_bridged() -> None:
    x = np.sort(np.concatenate([np.arange(10.0, 40.0, 0.002), np.arange(45.0, 80.0, 0.002)]))
    found = prepared(PowderPattern(x, 100 + x, np.full(len(x), 2.0)), 3.0)
    assert MAX_GRID / 2 < len(found.two_theta) <= MAX_GRID
    assert found.intensity == pytest.approx(100 + found.two_theta, abs=0.05)
    assert found.error.min() == pytest.approx(2 / np.sqrt(8), rel=0.2)
