"""Molecules in a box: none overlap, whole, by seed, and refused where they do not fit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.force_fields import packed_box
from sciagent_simulators.force_fields.packed_box import NEAREST, PackedKind, edge_at_density, pack, random_rotation

WATER = np.array([[[0.0, 0.0, 0.0], [0.0757, 0.0586, 0.0], [-0.0757, 0.0586, 0.0]]])  # nm
CHAIN = np.array([[[0.15 * k, 0.0, 0.0] for k in range(6)], [[0.12 * k, 0.09 * (k % 2), 0.0] for k in range(6)]])
RADII = {1: 0.11, 6: 0.17, 8: 0.152}
"""nm. Bondi; hydrogen by Rowland and Taylor. RDKit has 0.12, 0.17 and 0.155 or the same."""


def shortest(positions: np.ndarray, edge: float, molecule_of: np.ndarray, numbers: np.ndarray) -> float:
    """Smallest distance between atoms of different molecules in sums of their radii, images included."""
    shifts = positions[:, None] - positions[None]
    shifts -= edge * np.round(shifts / edge)
    radii = np.array([RADII[number] for number in numbers])
    relative = np.linalg.norm(shifts, axis=-1) / (radii[:, None] + radii)
    return float(relative[molecule_of[:, None] != molecule_of].min())


def test_no_molecules_overlap_and_each_stays_rigid() -> None:
    kinds = [PackedKind((8, 1, 1), WATER, 60), PackedKind((6,) * 6, CHAIN, 12)]
    edge = edge_at_density([18.015, 72.06], [60, 12], 0.7)
    positions = pack(kinds, edge, seed=3)
    assert positions.shape == (60 * 3 + 12 * 6, 3)
    molecule_of = np.concatenate([np.repeat(np.arange(60), 3), 60 + np.repeat(np.arange(12), 6)])
    numbers = np.array([8, 1, 1] * 60 + [6] * 72)
    assert shortest(positions, edge, molecule_of, numbers) >= NEAREST * 0.99
    for number in range(72):
        atoms = positions[molecule_of == number]
        lengths = np.linalg.norm(np.diff(atoms, axis=0), axis=1)
        shapes = WATER if number < 60 else CHAIN
        expected = np.linalg.norm(np.diff(shapes, axis=1), axis=2)
        assert min(np.abs(lengths - row).max() for row in expected) < 1e-12
        assert (atoms.mean(axis=0) >= 0).all() and (atoms.mean(axis=0) < edge).all()


def test_the_seed_decides() -> None:
    kind = PackedKind((8, 1, 1), WATER, 20)
    first = pack([kind], 1.2, seed=1)
    assert np.array_equal(first, pack([kind], 1.2, seed=1))
    assert not np.array_equal(first, pack([kind], 1.2, seed=2))


def test_the_density_is_that_asked_for() -> None:
    """1000 molecules of water at 0.997 g/mL fill 29.9 nm^3 x 1.003: 18.015 g/mol over 0.6022 per nm^3."""
    edge = edge_at_density([18.015], [1000], 0.997)
    assert edge**3 == pytest.approx(1000 * 18.015 / (0.997 * 602.214076), rel=1e-9)
    for density in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="density"):
            edge_at_density([18.0], [1], density)


def test_rotations_are_proper_and_uniform() -> None:
    random = np.random.default_rng(1)
    matrices = np.array([random_rotation(random) for _ in range(4000)])
    assert np.allclose(matrices @ matrices.transpose(0, 2, 1), np.eye(3), atol=1e-12)
    assert np.allclose(np.linalg.det(matrices), 1)
    assert np.abs(matrices.mean(axis=0)).max() < 4 / math.sqrt(3 * 4000)  # each element has variance 1/3
    assert np.abs((matrices**2).mean(axis=0) - 1 / 3).max() < 0.03


def test_a_box_without_room_and_one_with_too_many_atoms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_box, "MAX_TRIALS", 500)
    with pytest.raises(SimulatorError, match="lower density") as caught:
        pack([PackedKind((6,) * 6, CHAIN, 3)], 0.3, seed=1)
    assert (caught.value.outcome, caught.value.reason) == (Outcome.IMPLAUSIBLE, Reason.OVERLAPPING_ATOMS)
    with pytest.raises(SimulatorError) as caught:
        pack([PackedKind((8, 1, 1), WATER, 10_001)], 7.0, seed=1)
    assert (caught.value.outcome, caught.value.reason) == (Outcome.REFUSED, Reason.TOO_LARGE)


@pytest.mark.parametrize(
    ("conformers", "count", "says"),
    [
        (WATER[0], 1, "expected conformers x 3"),
        (WATER, 0, "0 molecules"),
        (WATER * math.nan, 1, "finite"),
        (np.empty((0, 3, 3)), 1, "no conformer"),
    ],
)
def test_kinds_are_checked(conformers: np.ndarray, count: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        PackedKind((8, 1, 1), conformers, count)
