"""Meshes and lines of k-points."""

from __future__ import annotations

import numpy as np
import pytest
from ase.build import bulk

from sciagent_simulators.periodic.k_points_and_elements import Mesh, line_points, mesh_of

CUBIC = np.diag([3.94] * 3)


@pytest.mark.parametrize(
    ("cell", "density", "size", "has_gamma"),
    [
        (CUBIC, 1.2, (2, 2, 2), False),
        (CUBIC, 2.5, (4, 4, 4), False),
        (np.diag([4.0, 4.0, 20.0]), 1.2, (2, 2, 1), True),
        (bulk("Si").cell, 2.5, (6, 6, 6), True),
        (bulk("Al").cell, 2.5, (8, 8, 8), True),
    ],
)
def test_meshes_are_even_and_shifted_only_in_cells_with_right_angles(cell, density, size, has_gamma) -> None:
    assert mesh_of(cell, density) == Mesh(size, has_gamma)


def test_the_lines_hold_each_point_once_and_none_of_the_mesh() -> None:
    points = line_points(CUBIC, 4)
    assert len({tuple(np.round(point, 6)) for point in points}) == len(points)
    for corner in ([0, 0, 0], [0.5, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0.5]):
        assert (
            np.abs(points - sorted(corner)).sum(axis=1).min() < 1e-6
            or np.abs(np.sort(points) - np.sort(corner)).sum(axis=1).min() < 1e-6
        )
    mesh = mesh_of(bulk("Si").cell, 2.5)
    without = line_points(bulk("Si").cell, 6, mesh)
    assert 0 < len(without) < len(line_points(bulk("Si").cell, 6))
    assert not any(mesh.has(point) for point in without)


def test_the_lines_of_silicon_pass_its_minimum() -> None:
    """It lies at 0.85 of the line from Gamma to X, (x, 0, x) with x = 0.425."""
    for density in (4, 6):
        points = np.sort(np.abs(line_points(bulk("Si", a=5.469).cell, density)))
        assert np.abs(points - [0, 0.425, 0.425]).max(axis=1).min() < 0.06
