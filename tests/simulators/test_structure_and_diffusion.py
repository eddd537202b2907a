"""Ideal gases, lattices and random walks, whose structure and diffusion are known exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.dynamics.structure_and_diffusion import (
    CUBIC_LATTICE_CONSTANT,
    Array,
    BoxFrames,
    SelfDiffusion,
    corrected_for_box,
    mean_squared_displacement,
    molecule_centres,
    radial_distribution,
    self_diffusion,
    unwrapped,
)


def gas(f: int, n: int, boxes: Array, seed: int = 1) -> BoxFrames:
    """Returns points without any order, in molecules of two atoms, O and H in turn."""
    points = np.random.default_rng(seed).random((f, n, 3)) * boxes[:, None]
    return BoxFrames(points, boxes, ("O", "H") * (n // 2), tuple(k // 2 for k in range(n)))


@pytest.mark.parametrize("between_molecules", [False, True])
@pytest.mark.parametrize(("first", "second"), [("O", "O"), ("O", "H")])
def test_an_ideal_gas_has_no_structure(first: str, second: str, between_molecules: bool) -> None:
    """Also in a box whose size and shape change. 40 x 100 x 99 pairs: each bin scatters by a few percent."""
    boxes = np.linspace([20.0, 24.0, 30.0], [22.0, 23.0, 27.0], 40)
    found = radial_distribution(gas(40, 200, boxes), first, second, n_bins=20, between_molecules=between_molecules)
    assert found.uncertainty is not None
    assert found.r[-1] < 10
    outer = slice(5, None)
    assert found.g[outer] == pytest.approx(np.ones(15), abs=0.06)
    assert found.g[outer].mean() == pytest.approx(1, abs=0.01)
    deviations = (found.g[outer] - 1) / found.uncertainty[outer]
    assert np.sqrt(np.mean(deviations**2)) < 3  # errors of 5 blocks


def test_a_primitive_cell_has_the_distribution_of_its_conventional_one() -> None:
    """Face-centred cubic, edge 4: 3 x 3 x 3 primitive cells reach 3.46 angstrom; there are 12 neighbours at 2.83."""
    vectors = 2.0 * np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    steps = np.array(np.meshgrid(*[np.arange(3)] * 3)).reshape(3, -1).T
    points = (steps @ vectors)[None] + 0.1
    frames = BoxFrames(points, 3 * vectors[None], ("Ar",) * 27, tuple(range(27)))
    assert frames.widths == pytest.approx([3 * 4 / math.sqrt(3)])
    assert frames.volumes == pytest.approx([27 * 16])
    found = radial_distribution(frames, "Ar", "Ar", n_bins=100, n_blocks=1)
    assert found.r[-1] == pytest.approx(3.464 * 0.995, abs=1e-3)
    assert found.r[np.flatnonzero(found.g)] == pytest.approx([2.83], abs=0.03)
    assert found.neighbours[-1] == pytest.approx(12)
    with pytest.raises(ValueError, match="right angles"):
        molecule_centres(frames, np.ones(27))


def test_pairs_within_a_molecule_are_left_out_if_asked() -> None:
    positions = np.array([[[0.0, 0, 0], [1.0, 0, 0], [9.5, 0, 0], [8.5, 0, 0]]])
    frames = BoxFrames(positions, np.full((1, 3), 10.0), ("O", "H", "O", "H"), (0, 0, 1, 1))
    every = radial_distribution(frames, "O", "H", reach=4.0, n_bins=40, n_blocks=1)
    between = radial_distribution(frames, "O", "H", reach=4.0, n_bins=40, n_blocks=1, between_molecules=True)
    assert every.uncertainty is None
    assert every.neighbours[-1] == pytest.approx(2)  # at 1.0 within, at 1.5 through the box
    assert between.neighbours[-1] == pytest.approx(1)
    assert between.r[np.flatnonzero(between.g)] == pytest.approx([1.55])


def test_a_lattice_has_its_peaks_and_counts() -> None:
    """Face-centred cubic, edge a: 12 neighbours at a / sqrt 2, 6 at a, 24 at a sqrt 1.5, 12 at a sqrt 2."""
    a = 4.0
    cells = np.array(np.meshgrid(*[np.arange(4)] * 3)).reshape(3, -1).T
    base = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    points = (cells[:, None] + base[None]).reshape(1, -1, 3) * a
    n = points.shape[1]
    frames = BoxFrames(points, np.full((1, 3), 4 * a), ("Ar",) * n, tuple(range(n)))
    found = radial_distribution(frames, "Ar", range(n), reach=6.01, n_bins=601, n_blocks=1)
    peaks = found.r[found.g > 0]
    assert peaks == pytest.approx([a / math.sqrt(2), a, a * math.sqrt(1.5), a * math.sqrt(2)], abs=0.01)
    counts = [found.neighbours[np.searchsorted(found.r, r)] for r in (3.4, 4.5, 5.2, 5.9)]
    assert counts == pytest.approx([12, 18, 42, 54])
    assert found.highest_peak[0] == pytest.approx(a / math.sqrt(2), abs=0.01)


def test_a_random_walk_diffuses_as_its_steps_say() -> None:
    """Steps of variance s^2 in each direction every t: D = s^2 / (2 t). Wrapped into the box, and back again."""
    generator = np.random.default_rng(3)
    step = 0.3  # angstrom
    interval = 0.5  # ps
    exact = step**2 / (2 * interval) * 1e-8
    displacements = []
    for _ in range(4):
        walk = np.cumsum(step * generator.standard_normal((300, 60, 3)), axis=0) + 5
        boxes = np.full((300, 3), 12.0)
        paths = unwrapped(walk % 12.0, boxes)
        assert np.abs((paths - paths[0]) - (walk - walk[0])).max() < 1e-9
        displacements.append(mean_squared_displacement(paths))
    found = self_diffusion(displacements, interval)
    assert abs(found.uncorrected - exact) < 4 * found.uncertainty
    assert found.uncorrected == pytest.approx(exact, rel=0.1)
    assert found.exponents == pytest.approx([1] * 4, abs=0.15)
    assert found.corrected is None


def test_the_transform_gives_the_sum_over_all_starts() -> None:
    paths = np.cumsum(np.random.default_rng(4).standard_normal((30, 7, 3)), axis=0)
    found = mean_squared_displacement(paths)
    for lag in (0, 1, 13, 29):
        differences = paths[lag:] - paths[: 30 - lag]
        assert found[lag] == pytest.approx((differences**2).sum(axis=2).mean(), abs=1e-9)


def test_a_common_drift_is_taken_off() -> None:
    generator = np.random.default_rng(5)
    still = 0.1 * generator.standard_normal((50, 20, 3))
    moving = still + np.arange(50)[:, None, None] * np.array([1.0, 2.0, 0.0])
    masses = np.linspace(1, 3, 20)
    assert mean_squared_displacement(moving, masses) == pytest.approx(
        mean_squared_displacement(still, masses), abs=1e-8
    )
    assert mean_squared_displacement(moving)[10] > 400


def test_a_solid_has_no_power_of_time() -> None:
    generator = np.random.default_rng(6)
    solids = [mean_squared_displacement(0.2 * generator.standard_normal((200, 40, 3))) for _ in range(3)]
    found = self_diffusion(solids, 1.0)
    assert found.exponents == pytest.approx([0] * 3, abs=0.1)
    assert abs(found.uncorrected) < 1e-12


def test_molecules_that_the_box_broke_are_made_whole() -> None:
    """A molecule of masses 16, 1 and 1 crosses the border of the box atom by atom."""
    whole = np.array([[0.0, 0, 0], [0.6, 0.7, 0], [0.6, -0.7, 0]])
    path = np.array([9.0 + 0.1 * k for k in range(20)])[:, None, None] * np.array([1.0, 0, 0]) + [0, 5.0, 5.0]
    boxes = np.full((20, 3), 10.0)
    frames = BoxFrames((whole + path) % 10.0, boxes, ("O", "H", "H"), (0, 0, 0))
    centres = molecule_centres(frames, [16.0, 1.0, 1.0])
    assert centres[:, 0] == pytest.approx(path[:, 0] + np.array([1.2 / 18, 0, 0]), abs=1e-9)


def test_frames_too_far_apart_are_refused() -> None:
    points = np.array([[[1.0, 1, 1]], [[5.5, 1, 1]]])
    with pytest.raises(SimulatorError, match="take frames more often") as error:
        unwrapped(points, np.full((2, 3), 10.0))
    assert error.value.reason == Reason.IMPLAUSIBLE_VALUE


def test_the_constant_of_the_correction_is_that_of_a_cubic_lattice() -> None:
    """An Ewald sum over a lattice of unit charges in a background, at the place of one of them, with alpha = 2."""
    alpha = 2.0
    grid = np.array(np.meshgrid(*[np.arange(-6, 7)] * 3)).reshape(3, -1).T
    n2 = (grid**2).sum(axis=1)
    n2 = n2[n2 > 0].astype(float)
    in_space = sum(math.erfc(alpha * math.sqrt(x)) / math.sqrt(x) for x in n2)
    in_waves = float(np.sum(np.exp(-(math.pi**2) * n2 / alpha**2) / (math.pi * n2)))
    potential = in_space + in_waves - 2 * alpha / math.sqrt(math.pi) - math.pi / alpha**2
    assert -potential == pytest.approx(CUBIC_LATTICE_CONSTANT, abs=1e-5)


def test_the_correction_for_the_box() -> None:
    """Water at 298.15 K, 0.85 mPa s, 18.6 angstrom: kT / (6 pi eta L) = 1.3814e-10 m2/s, times 2.837297."""
    plain = SelfDiffusion(2.0e-9, None, 3e-11, (2.0e-9,) * 3, (1.0,) * 3)
    found = corrected_for_box(plain, 298.15, [18.6] * 3, 8.5e-4, 8.5e-5)
    shift = 2.837297 * 1.3813e-10
    assert (found.uncorrected, found.corrected) == (2.0e-9, pytest.approx(2.0e-9 + shift, rel=1e-3))
    assert found.uncertainty == pytest.approx(math.hypot(3e-11, shift / 10), rel=1e-3)
    with pytest.raises(SimulatorError, match="too small by an amount") as error:
        corrected_for_box(plain, 298.15, [18.6] * 3, None)
    assert (error.value.outcome, error.value.reason) == (Outcome.REFUSED, Reason.VISCOSITY_UNKNOWN)
    with pytest.raises(ValueError, match="cubic"):
        corrected_for_box(plain, 298.15, [18.6, 18.6, 20.0], 8.5e-4)
    with pytest.raises(ValueError, match="positive"):
        corrected_for_box(plain, 298.15, [18.6] * 3, 0.0)


def test_what_does_not_fit_is_refused() -> None:
    frames = gas(2, 10, np.full((2, 3), 10.0))
    with pytest.raises(SimulatorError) as error:
        radial_distribution(frames, "O", "O", reach=6.0, n_blocks=1)
    assert error.value.reason == Reason.BOX_TOO_SMALL
    with pytest.raises(ValueError, match="selects no atoms"):
        radial_distribution(frames, "C", "O")
    with pytest.raises(ValueError, match="share some"):
        radial_distribution(frames, [0, 1], [1, 2], n_blocks=1)
    shared = radial_distribution(frames, [0, 1], [1, 2], n_blocks=1, between_molecules=True)
    assert shared.neighbours[-1] <= 1, "of four pairs, that of 0 and 2 and that of 1 and 2 lie between molecules"
    with pytest.raises(ValueError, match="blocks"):
        radial_distribution(frames, "O", "O", n_blocks=3)
    with pytest.raises(ValueError, match="2 replicas"):
        self_diffusion([np.arange(50.0)] * 2, 1.0)
    with pytest.raises(ValueError, match="positive mass"):
        molecule_centres(frames, np.zeros(10))
    with pytest.raises(ValueError, match="f x n x 3"):
        BoxFrames(np.zeros((2, 3)), np.ones((2, 3)), ("O",), (0,))
    with pytest.raises(SimulatorError, match="finite") as error:
        BoxFrames(np.full((1, 1, 3), math.nan), np.ones((1, 3)), ("O",), (0,))
    assert error.value.reason == Reason.NOT_FINITE
