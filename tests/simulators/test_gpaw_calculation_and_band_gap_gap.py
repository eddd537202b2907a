"""The band gap by counting electrons, on a mesh and along lines."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent_simulators.periodic.gpaw_calculation_and_band_gap import METAL, BandSet, gap_of


def bands(points: list[tuple[float, ...]], *spins: list[list[float]]) -> BandSet:
    return BandSet(np.array(points, dtype=float), np.array(spins, dtype=float))


GAMMA, X, NEAR_X = (0.0, 0, 0), (0.5, 0, 0), (0.42, 0, 0)


def test_the_gap_is_the_lowest_over_mesh_and_lines() -> None:
    mesh = bands([GAMMA, X], [[-5, 0, 3], [-6, -2, 0.8]])
    lines = bands([NEAR_X], [[-6, -1.5, 0.6]])
    gap = gap_of([mesh, lines], 4, 0)
    assert (gap.value, gap.direct) == (pytest.approx(0.6), pytest.approx(2.1))
    assert (gap.valence_point, gap.conduction_point, gap.is_on_mesh) == (GAMMA, NEAR_X, False)
    assert gap_of([mesh, bands([X], [[-6, -2, 0.9]])], 4, 0).is_on_mesh


@pytest.mark.parametrize("lines", [[], [BandSet(np.empty((0, 3)), np.empty((1, 0, 2)))]], ids=["none", "no point"])
def test_a_mesh_alone_gives_no_gap(lines: list[BandSet]) -> None:
    with pytest.raises(ValueError, match="not a mesh alone"):
        gap_of([bands([GAMMA], [[0, 1]]), *lines], 2, 0)


@pytest.mark.parametrize(
    ("electrons", "moment"),
    [(3, 0), (2, 0.4), (2.5, 0)],
    ids=["an odd number of electrons", "a moment that is not whole", "a part of an electron"],
)
def test_numbers_that_are_not_whole_are_a_metal(electrons: float, moment: float) -> None:
    sets = [bands([GAMMA], [[0, 5, 9]], [[0, 5, 9]])] * 2
    assert gap_of(sets, electrons, moment) == METAL and METAL.value == 0 and METAL.is_metal


def test_bands_that_overlap_at_two_points_are_a_metal() -> None:
    assert gap_of([bands([GAMMA], [[0.5, 2]]), bands([X], [[-1, 0.2]])], 2, 0) == METAL


def test_each_spin_has_its_own_filled_bands() -> None:
    mesh = bands([GAMMA], [[-3, -2, -1, 4]], [[-3, 1, 2, 5]])
    gap = gap_of([mesh, mesh], 4, 2)  # three of the first spin, one of the second
    assert gap.value == pytest.approx(2)
    assert gap_of([mesh, mesh], 4, -2) == METAL


def test_too_few_bands_are_an_error() -> None:
    with pytest.raises(ValueError, match="2 bands for 2 filled ones"):
        gap_of([bands([GAMMA], [[-1, 1]])] * 2, 4, 0)
