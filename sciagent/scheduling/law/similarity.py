"""Similarity of structures: from feature counts, such as Morgan fingerprints, from numbers, or from compositions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from sciagent.scheduling.arrays import Array, Places
from sciagent.scheduling.law.kernel import Real, squared_distance

PART = 1 << 17  # pairs computed at a time, so that the data stay in the processor's cache
MAX_COUNT = 8  # larger counts of a feature are cut to this
# weight of whole-molecule traits, such as size and unsaturation, in the similarity of molecules: molecules of one kind
# have correlated errors even if they share few atom environments
OF_TRAITS = 0.5


class Similarity(Protocol):
    """A similarity in [0, 1]. The matrix over any candidates is positive semi-definite."""

    def between(self, rows: Places, columns: Places) -> Array:
        """Returns (n, m) similarities of candidates, given by rows (n,) and (m,)."""


@dataclass(frozen=True)
class Radial:
    """exp(-|x - x'|² / 2d): points that differ by 1 in each of d numbers have similarity 0.6. points: (n, d)."""

    points: Array

    def between(self, rows: Places, columns: Places) -> Array:
        return radial(self.points[rows], self.points[columns])


def radial(x: NDArray[Real], y: NDArray[Real]) -> NDArray[Real]:
    """Returns (n, m) similarities of (n, d) and (m, d), in their precision."""
    likeness = squared_distance(x, y)
    likeness *= -0.5 / x.shape[1]
    np.exp(likeness, out=likeness)
    return likeness


@dataclass(frozen=True)
class Mixed:
    """A weighted mean of similarities; the weights sum to 1."""

    parts: Sequence[Similarity]
    weights: Sequence[float]

    def between(self, rows: Places, columns: Places) -> Array:
        likeness = np.zeros((len(rows), len(columns)))
        for part, weight in zip(self.parts, self.weights, strict=True):
            likeness += weight * part.between(rows, columns)
        return likeness


def tanimoto(left: csr_matrix, right: csr_matrix) -> Array:
    """Returns (n, m) Tanimoto similarities between rows of zeros and ones. The few rows of `right` become dense over
    their columns, which is four times as fast as a sparse product."""
    columns, places = np.unique(right.indices, return_inverse=True)
    full = np.zeros((len(columns), right.shape[0]), dtype=np.float32)
    full[places, np.repeat(np.arange(right.shape[0]), np.diff(right.indptr))] = 1.0
    at = np.full(left.shape[1], -1, dtype=np.int32)
    at[columns] = np.arange(len(columns), dtype=np.int32)
    at = at[left.indices]
    shared = at >= 0
    begins = np.concatenate([[0], np.cumsum(shared)])[left.indptr]
    known = csr_matrix((np.ones(begins[-1], dtype=np.float32), at[shared], begins), shape=(left.shape[0], len(columns)))
    sizes = [np.diff(m.indptr).astype(np.float32) for m in (left, right)]
    likeness = np.empty((left.shape[0], right.shape[0]))
    rows = max(PART // max(right.shape[0], 1), 1)
    for start in range(0, len(likeness), rows):
        part = slice(start, start + rows)
        common = known[part] @ full  # exact, since these are whole numbers
        whole = sizes[0][part, None] + sizes[1]
        whole -= common
        np.divide(common, np.maximum(whole, 1.0, out=whole), out=likeness[part], dtype=np.float64)
    return likeness


class Overlap:
    """sum_i min(a_i, b_i) of fractions of sum 1, such as of elements in a composition. fractions: (n, features)."""

    def __init__(self, fractions: Array) -> None:
        self._fractions = fractions[:, fractions.any(0)]

    def between(self, rows: Places, columns: Places) -> Array:
        likeness = np.zeros((len(rows), len(columns)))
        for column in self._fractions.T:
            likeness += np.minimum(column[rows][:, None], column[columns])
        return likeness
