"""The drivers of a law: the answers that it would miss most, and the weights of the atom environments.

The posterior mean of a structure x is centre + scale * sum_i w_i k(x, x_i), w = K^-1 y over the n answers. An answer's
own structure has the mean y_i - noise w_i with it, and y_i - w_i / (K^-1)_ii without it. The linear term of k adds
scale * b² sum_i w_i φ(x)·φ(x_i), which is linear in φ: the weight of an atom environment is the part of a prediction
that a structure gets from having it once, in the transform of the law.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), eqs. 5.12 and 2.11.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from sciagent.scheduling.array_types import Array
from sciagent.scheduling.law.structure_process import LINEAR, ComparedStructures, StructureMemory

if TYPE_CHECKING:
    from sciagent.chemistry.fingerprints_and_families import StructureFingerprint

FEWEST_WITH = 3  # structures that have an environment whose weight is told


@dataclass(frozen=True)
class EnvironmentWeight:
    """The weight of an atom environment in the linear term of a law."""

    feature: int
    """Number of the environment, as in `StructureFingerprint.counts`."""
    weight: float
    """The part of a prediction that a structure gets from having it once, in the transform of the law."""
    n: int
    """Number of the law's structures that have it."""
    example: int
    """Place of the first of these structures."""


def answer_weights(memory: StructureMemory) -> Array:
    """Returns (n,) weights w = K^-1 y of the answers, standardised."""
    weights: Array = solve_triangular(memory.factor, memory.white_target, lower=True, trans="T")
    return weights


def with_and_without(memory: StructureMemory) -> tuple[Array, Array]:
    """Returns (n,) predictions of the answers' structures with these answers, and (n,) each without its own, in the
    unit of the quantity.

    It takes about as long as the factorisation of the covariance.
    """
    fresh = memory.fresh
    n = len(memory.white_target)
    inverse_factor = solve_triangular(memory.factor, np.eye(n), lower=True, overwrite_b=True)
    precision = np.einsum("ij,ij->j", inverse_factor, inverse_factor)  # the diagonal of the inverse covariance
    weights = answer_weights(memory)
    y = memory.factor @ memory.white_target
    both = (y - fresh.noise * weights, y - weights / precision)
    with_it, without_it = (fresh.transform.inverse(mean * fresh.scale + fresh.centre) for mean in both)
    return with_it, without_it


def at_the_middle(memory: StructureMemory, weight: float) -> tuple[float, float]:
    """Returns two predictions, in the unit of the quantity: the middle of the answers, and the same with a weight."""
    fresh = memory.fresh
    middle, moved = fresh.transform.inverse(fresh.centre + np.array([0.0, weight])).tolist()
    return middle, moved


def environment_weights(
    memory: StructureMemory, structures: Sequence[StructureFingerprint | None]
) -> list[EnvironmentWeight]:
    """Returns the weights of the atom environments that at least three structures have, the largest first.

    structures: of the memory, in its order. Environments that are folded to one number share a weight; the most
    frequent of them has it.
    """
    n_with = Counter[int]()
    first_with: dict[int, int] = {}
    for place, structure in enumerate(structures):
        for feature in structure.counts if structure else ():
            n_with[feature] += 1
            first_with.setdefault(feature, place)
    by_fold: dict[int, list[int]] = defaultdict(list)
    for feature in n_with:
        by_fold[feature % LINEAR].append(feature)
    told = sorted(max(of_fold, key=lambda each: (n_with[each], -each)) for of_fold in by_fold.values())
    told = [feature for feature in told if n_with[feature] >= FEWEST_WITH]
    known = next((each for each in structures if each), None)
    if known is None or not told:
        return []
    weights = _linear_weights(memory, [{feature: 1} for feature in told], known)
    found = [
        EnvironmentWeight(feature, float(weight), n_with[feature], first_with[feature])
        for feature, weight in zip(told, weights, strict=True)
    ]
    return sorted(found, key=lambda each: (-round(abs(each.weight), 9), each.feature))


def _linear_weights(memory: StructureMemory, counts: Sequence[dict[int, int]], like: StructureFingerprint) -> Array:
    """Returns (m,) parts of predictions that structures get from having one of these environments and nothing else.

    like: any structure of the kind, whose number of traits counts.
    """
    nothing = tuple(0.0 for _ in like.traits)
    asked = ComparedStructures()
    asked.add([replace(like, counts=each, traits=nothing) for each in ({}, *counts)])
    every = np.arange(len(memory.white_target))
    _, products = memory.compared.compare_with(every, asked, np.arange(len(asked)))
    b_squared = float(np.exp(2 * memory.fresh.log_hyper[1]))
    by_structure = memory.fresh.scale * b_squared / memory.fresh.length * (products.T @ answer_weights(memory))
    weights: Array = by_structure[1:] - by_structure[0]  # without the constant that every structure has
    return weights
