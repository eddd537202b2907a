"""The rotational symmetry number of a geometry: the number of proper rotations that leave it unchanged."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.geometry import Geometry

Array = NDArray[np.float64]

TOLERANCE = 0.1  # angstrom; the largest distance of a rotated atom from an atom of its element


def symmetry_number(geometry: Geometry, tolerance: float = TOLERANCE) -> int:
    """Returns the rotational symmetry number: 2 for water, 3 for ammonia, 12 for benzene, 1 for an atom.

    A rotation is fixed by the images of two atoms that are not collinear with the centre. All images with the same
    elements and distances are tried. A linear molecule has 2 with an inversion centre, otherwise 1.
    """
    arms = geometry.positions - geometry.atoms.get_center_of_mass()
    numbers = np.array(geometry.numbers)
    if len(numbers) == 1:
        return 1
    if is_linear(geometry):
        return 2 if _coincides(-arms, arms, numbers, tolerance) else 1
    first, second = _reference_atoms(arms, numbers, tolerance)
    frame = _frame(arms[first], arms[second])
    images = [_alike(arms, numbers, k, tolerance) for k in (first, second)]
    found: list[Array] = []
    for a, b in itertools.product(*images):
        distance = np.linalg.norm(arms[a] - arms[b]) - np.linalg.norm(arms[first] - arms[second])
        if a == b or abs(distance) > 2 * tolerance or np.linalg.norm(np.cross(arms[a], arms[b])) < 1e-3:
            continue
        rotation = _frame(arms[a], arms[b]) @ frame.T
        if _coincides(arms @ rotation.T, arms, numbers, tolerance) and not _known(rotation, found):
            found.append(rotation)
    return max(1, len(found))


def is_linear(geometry: Geometry) -> bool:
    """Returns whether all atoms lie on a line, within one percent of its length; an atom is not linear."""
    arms = geometry.positions - geometry.positions.mean(axis=0)
    if len(arms) < 2:
        return False
    sizes = np.linalg.svd(arms, compute_uv=False)
    return bool(sizes[1] < 0.01 * sizes[0])


def _reference_atoms(arms: Array, numbers: NDArray[np.int_], tolerance: float) -> tuple[int, int]:
    """Returns two atoms that are not collinear with the centre, with as few atoms alike as possible."""
    away = [k for k in range(len(arms)) if np.linalg.norm(arms[k]) > 3 * tolerance]
    away.sort(key=lambda k: len(_alike(arms, numbers, k, tolerance)))
    pairs = ((i, j) for i, j in itertools.combinations(away, 2) if _sine(arms[i], arms[j]) > 0.2)
    nearly = ((i, j) for i, j in itertools.combinations(range(len(arms)), 2) if _sine(arms[i], arms[j]) > 1e-3)
    return next(itertools.chain(pairs, nearly))


def _sine(a: Array, b: Array) -> float:
    return float(np.linalg.norm(np.cross(a, b)) / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-12))


def _alike(arms: Array, numbers: NDArray[np.int_], atom: int, tolerance: float) -> list[int]:
    """Returns the atoms of the same element at the same distance from the centre."""
    radii = np.linalg.norm(arms, axis=1)
    return [int(k) for k in np.flatnonzero((numbers == numbers[atom]) & (np.abs(radii - radii[atom]) < tolerance))]


def _frame(a: Array, b: Array) -> Array:
    """Returns the right-handed orthonormal axes, as columns, with the first between a and b, the third across both."""
    one = a / np.linalg.norm(a) + b / np.linalg.norm(b)
    if np.linalg.norm(one) < 1e-6:
        one = a
    one = one / np.linalg.norm(one)
    three = np.cross(a, b)
    three = three / np.linalg.norm(three)
    return np.array([one, np.cross(three, one), three]).T


def _coincides(moved: Array, arms: Array, numbers: NDArray[np.int_], tolerance: float) -> bool:
    distances = np.linalg.norm(moved[:, None] - arms[None], axis=-1)
    distances[numbers[:, None] != numbers[None]] = np.inf
    nearest = distances.argmin(axis=1)
    return bool((distances.min(axis=1) < tolerance).all() and len(set(nearest.tolist())) == len(arms))


def _known(rotation: Array, found: list[Array]) -> bool:
    return any(np.abs(rotation - other).max() < 0.1 for other in found)
