"""Similarity of structures, from feature counts such as Morgan fingerprints and from traits of the whole molecule.

The rows of a law are selected by a hash of their candidates' keys. They are the same in every process and for every
order of arrival, so that a law can be made again from the evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.law.gaussian_process import Real, squared_distance

if TYPE_CHECKING:
    from sciagent.chemistry.fingerprints_and_families import StructureFingerprint


Number = TypeVar("Number", bound=np.generic)

PART = 1 << 17  # pairs computed at a time, so that the data stay in the processor's cache
WIDTH = 1 << 15  # number of columns for folded features; collisions are rare
MAX_COUNT = 8  # larger counts of a feature are cut to this
# weight of whole-molecule traits, such as size and unsaturation, in the similarity of molecules: molecules of one kind
# have correlated errors even if they share few atom environments
OF_TRAITS = 0.5


class Similarity(Protocol):
    """A similarity in [0, 1]. The matrix over any candidates is positive semi-definite."""

    def between(self, rows: RowIndices, columns: RowIndices) -> Array:
        """Returns (n, m) similarities of candidates, given by rows (n,) and (m,)."""


def radial(x: NDArray[Real], y: NDArray[Real]) -> NDArray[Real]:
    """Returns (n, m) similarities of (n, d) and (m, d), in their precision."""
    likeness = squared_distance(x, y)
    likeness *= -0.5 / x.shape[1]
    np.exp(likeness, out=likeness)
    return likeness


def tanimoto(left: csr_matrix, right: csr_matrix) -> Array:
    """Returns (n, m) Tanimoto similarities between rows of zeros and ones.

    The few rows of `right` are written as a dense matrix over the columns that they have, which is four times as fast
    as a sparse product.
    """
    columns, places = np.unique(right.indices, return_inverse=True)
    right_rows = np.repeat(np.arange(right.shape[0]), np.diff(right.indptr))
    dense_right = np.zeros((len(columns), right.shape[0]), dtype=np.float32)
    dense_right[places, right_rows] = 1.0
    # `left` without the columns that `right` does not have
    new_column = np.full(left.shape[1], -1, dtype=np.int32)
    new_column[columns] = np.arange(len(columns), dtype=np.int32)
    left_columns = new_column[left.indices]
    is_shared = left_columns >= 0
    begins = np.concatenate([[0], np.cumsum(is_shared)])[left.indptr]
    ones = np.ones(begins[-1], dtype=np.float32)
    shared_left = csr_matrix((ones, left_columns[is_shared], begins), shape=(left.shape[0], len(columns)))
    left_sizes = np.diff(left.indptr).astype(np.float32)
    right_sizes = np.diff(right.indptr).astype(np.float32)
    likeness = np.empty((left.shape[0], right.shape[0]))
    rows = max(PART // max(right.shape[0], 1), 1)
    for start in range(0, len(likeness), rows):
        part = slice(start, start + rows)
        common = shared_left[part] @ dense_right  # exact in single precision, since these are whole numbers
        union = left_sizes[part, None] + right_sizes
        union -= common
        np.maximum(union, 1.0, out=union)
        np.divide(common, union, out=likeness[part], dtype=np.float64)
    return likeness


class GrowingStructures:
    """The weighted mean of count and trait similarity. Candidates without a structure have similarity 0 to all."""

    def __init__(self) -> None:
        self._counts = GrowingTanimoto()
        self._traits: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)

    def add(self, structures: Sequence[StructureFingerprint | None]) -> None:
        """Appends a row for each new candidate, in the order of arrival."""
        before = len(self)
        n = len(self) + len(structures)
        self._counts.add([structure.counts if structure else {} for structure in structures])
        n_traits = [len(structure.traits) for structure in structures if structure]
        width = max(n_traits, default=self._traits.shape[1])
        if width != self._traits.shape[1]:
            self._traits = np.full((before, width), np.inf, dtype=np.float32)
        self._traits = _room(self._traits, n)
        for row, structure in enumerate(structures, before):
            self._traits[row] = np.inf if structure is None else structure.traits

    def __len__(self) -> int:
        return len(self._counts)

    def between(self, rows: RowIndices, columns: RowIndices) -> Array:
        """Returns (n, m) similarities, as `Similarity.between`."""
        return self.across(rows, self, columns)

    def across(self, rows: RowIndices, other: GrowingStructures, columns: RowIndices) -> Array:
        """Returns (n, m) similarities of structures to others of the same kind, which `other` holds."""
        likeness = self._counts.across(rows, other._counts, columns)
        likeness *= 1 - OF_TRAITS
        if self._traits.shape[1] == 0 or other._traits.shape[1] == 0:
            return likeness
        row_traits = self._traits[rows]
        column_traits = other._traits[columns]
        known_rows = np.isfinite(row_traits).all(1)
        known_columns = np.isfinite(column_traits).all(1)
        if known_rows.all() and known_columns.all():
            trait_likeness = radial(row_traits, column_traits)
            trait_likeness *= OF_TRAITS
            likeness += trait_likeness
        elif known_rows.any() and known_columns.any():
            trait_likeness = radial(row_traits[known_rows], column_traits[known_columns])
            likeness[np.ix_(known_rows, known_columns)] += OF_TRAITS * trait_likeness
        return likeness


class GrowingTanimoto:
    """Tanimoto similarity sum_i min(a_i, b_i) / sum_i max(a_i, b_i) over counts of folded features.

    A count c is written as c ones, so that the minimum becomes a product of sparse rows. Positive semi-definite:
    Ralaivola et al., Neural Networks 18, 1093 (2005). Candidates without features have similarity 0 to all.
    """

    def __init__(self) -> None:
        self._starts: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._columns: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._n = 0
        self._filled = 0

    def add(self, counts: Sequence[Mapping[int, int]]) -> None:
        """Appends rows. counts: one mapping from feature to count per new candidate, in the order of arrival."""
        rows = [_unary(structure) for structure in counts]
        sizes = np.array([len(row) for row in rows], dtype=np.int64)
        self._starts = _room(self._starts, self._n + 1 + len(rows))
        self._starts[self._n + 1 : self._n + 1 + len(rows)] = self._filled + np.cumsum(sizes)
        total = int(sizes.sum())
        self._columns = _room(self._columns, self._filled + total)
        if total:
            self._columns[self._filled : self._filled + total] = np.concatenate(rows)
        self._n = self._n + len(rows)
        self._filled = self._filled + total

    def __len__(self) -> int:
        return self._n

    def across(self, rows: RowIndices, other: GrowingTanimoto, columns: RowIndices) -> Array:
        """Returns (n, m) similarities of rows to those that `other` holds."""
        return tanimoto(self._rows(rows), other._rows(columns))

    def between(self, rows: RowIndices, columns: RowIndices) -> Array:
        return self.across(rows, self, columns)

    def _rows(self, rows: RowIndices) -> csr_matrix:
        """Returns the features of some candidates, (n, WIDTH * MAX_COUNT), as zeros and ones."""
        sizes = self._starts[rows + 1] - self._starts[rows]
        begins = np.concatenate([[0], np.cumsum(sizes)])
        shifts = np.repeat(begins[:-1] - self._starts[rows], sizes)
        places = np.arange(begins[-1]) - shifts  # of the entries in the stored columns
        ones = np.ones(int(begins[-1]), dtype=np.float32)
        return csr_matrix((ones, self._columns[places], begins), shape=(len(rows), WIDTH * MAX_COUNT))


def _unary(counts: Mapping[int, int]) -> list[int]:
    """Returns the columns of a structure: a count c of a feature takes c columns, at most MAX_COUNT."""
    folded: dict[int, int] = {}
    for feature, n in counts.items():
        folded_feature = feature % WIDTH
        folded[folded_feature] = folded.get(folded_feature, 0) + n
    columns = list[int]()
    for feature, n in folded.items():
        first = feature * MAX_COUNT
        columns += range(first, first + min(n, MAX_COUNT))
    return columns


def _room(array: NDArray[Number], n: int) -> NDArray[Number]:
    """Returns an array at least n long; a growing array doubles in length."""
    if len(array) >= n:
        return array
    grown = np.zeros((max(n, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown


Order = NDArray[np.uint64]
"""(n,) the hash of each candidate's key; rows with the smallest hashes are selected first."""
_STEP = np.uint64(0x9E3779B97F4A7C15)  # the constants of splitmix64, whose output is uniform
_MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def order_of(keys: Iterable[str]) -> Order:
    """Returns (n,) hashes of keys."""
    digests = [blake2b(key.encode(), digest_size=8).digest() for key in keys]
    return np.array([int.from_bytes(digest) for digest in digests], dtype=np.uint64)


def with_row_hashes(order: Order | None, n: int) -> Order:
    """Returns (n,) the hashes of the order, and hashes of the row numbers for the rows that it lacks.

    Source: Steele, Lea, Flood, OOPSLA 2014, doi:10.1145/2660193.2660195 (splitmix64).
    """
    known = np.empty(0, dtype=np.uint64) if order is None else order[:n]
    with np.errstate(over="ignore"):
        x = (np.arange(len(known), n, dtype=np.uint64) + np.uint64(1)) * _STEP
        x = (x ^ (x >> np.uint64(30))) * _MIX[0]
        x = (x ^ (x >> np.uint64(27))) * _MIX[1]
    return np.concatenate([known, x ^ (x >> np.uint64(31))])


def smallest_hashes(order: Order, n: int) -> RowIndices:
    """Returns the positions of the n smallest hashes in ascending order; all positions if there are no more than n."""
    if len(order) <= n:
        return np.arange(len(order))
    return np.sort(np.argsort(order, kind="stable")[:n])
