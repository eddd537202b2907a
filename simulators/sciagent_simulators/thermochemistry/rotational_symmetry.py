"""The rotational symmetry number of a geometry: the number of proper rotations that leave it unchanged."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.geometry import Geometry

Array = NDArray[np.float64]

TOLERANCE = 0.1  # angstrom; the largest distance of a rotated atom from an atom of its element
ROUGH = 0.5  # angstrom; the same for the first estimate of a rotation, which rests on two atoms


def symmetry_number(geometry: Geometry, tolerance: float = TOLERANCE) -> int:
    """Returns the rotational symmetry number: 2 for water, 3 for ammonia, 12 for benzene, 1 for an atom.

    Two atoms that are not collinear with the centre, and their images, give a first estimate of a rotation. It permutes
    the atoms; the rotation that superposes all of them best must do so within the tolerance. A linear molecule has 2
    with an inversion centre, otherwise 1.
    """
    arms = geometry.positions - geometry.atoms.get_center_of_mass()
    numbers = np.array(geometry.numbers)
    if len(numbers) == 1:
        return 1
    if is_linear(geometry):
        return 2 if _permutation(-arms, arms, numbers, tolerance) is not None else 1
    first, second = _reference_atoms(arms, numbers)
    frame = _frame(arms[first], arms[second])
    apart = np.linalg.norm(arms[first] - arms[second])
    found: set[tuple[int, ...]] = set()
    for a, b in itertools.product(_alike(arms, numbers, first), _alike(arms, numbers, second)):
        if a == b or abs(np.linalg.norm(arms[a] - arms[b]) - apart) > ROUGH or _sine(arms[a], arms[b]) < 1e-3:
            continue
        turned = arms @ (_frame(arms[a], arms[b]) @ frame.T).T
        permutation = _permutation(turned, arms, numbers, ROUGH)
        if permutation is not None and _superposed(arms, arms[list(permutation)]) < tolerance:
            found.add(permutation)
    return max(1, len(found))


def is_linear(geometry: Geometry) -> bool:
    """Returns whether all atoms lie on a line, within one percent of its length; an atom is not linear."""
    arms = geometry.positions - geometry.positions.mean(axis=0)
    if len(arms) < 2:
        return False
    sizes = np.linalg.svd(arms, compute_uv=False)
    return bool(sizes[1] < 0.01 * sizes[0])


def _reference_atoms(arms: Array, numbers: NDArray[np.int_]) -> tuple[int, int]:
    """Returns two atoms that are not collinear with the centre, with as few atoms alike as possible."""
    order = [k for k in range(len(arms)) if np.linalg.norm(arms[k]) > ROUGH]
    order.sort(key=lambda k: len(_alike(arms, numbers, k)))
    clear = ((i, j) for i, j in itertools.combinations(order, 2) if _sine(arms[i], arms[j]) > 0.2)
    pairs = itertools.combinations(range(len(arms)), 2)
    widest = max(pairs, key=lambda pair: float(np.linalg.norm(np.cross(arms[pair[0]], arms[pair[1]]))))
    return next(clear, widest)


def _sine(a: Array, b: Array) -> float:
    return float(np.linalg.norm(np.cross(a, b)) / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-12))


def _alike(arms: Array, numbers: NDArray[np.int_], atom: int) -> list[int]:
    """Returns the atoms of the same element at about the same distance from the centre."""
    radii = np.linalg.norm(arms, axis=1)
    return [int(k) for k in np.flatnonzero((numbers == numbers[atom]) & (np.abs(radii - radii[atom]) < ROUGH))]


def _frame(a: Array, b: Array) -> Array:
    """Returns right-handed orthonormal axes as columns: the first along a + b (as unit vectors), the third across."""
    one = a / np.linalg.norm(a) + b / np.linalg.norm(b)
    one = one / np.linalg.norm(one)
    three = np.cross(a, b)
    three = three / np.linalg.norm(three)
    return np.array([one, np.cross(three, one), three]).T


def _permutation(turned: Array, arms: Array, numbers: NDArray[np.int_], tolerance: float) -> tuple[int, ...] | None:
    """Returns the atom of the same element on which each turned atom falls, or None if one falls on none."""
    distances = np.linalg.norm(turned[:, None] - arms[None], axis=-1)
    distances[numbers[:, None] != numbers[None]] = np.inf
    nearest = tuple(int(k) for k in distances.argmin(axis=1))
    return nearest if distances.min(axis=1).max() < tolerance and len(set(nearest)) == len(arms) else None


def _superposed(arms: Array, images: Array) -> float:
    """Returns the largest distance of an atom from its image after the best proper rotation, angstrom."""
    left, _, right = np.linalg.svd(arms.T @ images)
    proper = np.diag([1.0, 1.0, np.sign(np.linalg.det(left @ right))])
    return float(np.linalg.norm(arms @ left @ proper @ right - images, axis=1).max())
