"""Similarity of molecules that keep arriving: rows are appended, and existing rows are not recomputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from sciagent.scheduling.arrays import Array, Places
from sciagent.scheduling.law.similarity import MAX_COUNT, OF_TRAITS, radial, tanimoto

if TYPE_CHECKING:
    from sciagent.chemistry.fingerprint import MoleculeFingerprint

Number = TypeVar("Number", bound=np.generic)

WIDTH = 1 << 15  # number of columns for folded features; collisions are rare


class GrowingStructures:
    """The weighted mean of count and trait similarity. Candidates without a structure have similarity 0 to all."""

    def __init__(self) -> None:
        self._counts = GrowingTanimoto()
        self._traits: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)

    def add(self, structures: Sequence[MoleculeFingerprint | None]) -> None:
        """Appends a row for each new candidate, in the order of arrival."""
        before, n = len(self), len(self) + len(structures)
        self._counts.add([structure.counts if structure else {} for structure in structures])
        width = max((len(structure.traits) for structure in structures if structure), default=self._traits.shape[1])
        if width != self._traits.shape[1]:
            self._traits = np.full((before, width), np.inf, dtype=np.float32)
        self._traits = _room(self._traits, n)
        for row, structure in enumerate(structures, before):
            self._traits[row] = np.inf if structure is None else structure.traits

    def __len__(self) -> int:
        return len(self._counts)

    def between(self, rows: Places, columns: Places) -> Array:
        likeness = self._counts.between(rows, columns)
        likeness *= 1 - OF_TRAITS
        traits = [self._traits[of] for of in (rows, columns)]
        known = [np.isfinite(x).all(1) & (x.shape[1] > 0) for x in traits]
        if all(rows.all() for rows in known):
            alike = radial(*traits)
            alike *= OF_TRAITS
            likeness += alike
        elif all(rows.any() for rows in known):
            likeness[np.ix_(*known)] += OF_TRAITS * radial(*(x[rows] for x, rows in zip(traits, known, strict=True)))
        return likeness


class GrowingTanimoto:
    """Tanimoto similarity sum_i min(a_i, b_i) / sum_i max(a_i, b_i) over counts of folded features.

    A count c is written as c ones, so that the minimum becomes a product of sparse rows. Positive semi-definite:
    Ralaivola et al., Neural Networks 18, 1093 (2005). Candidates without features have similarity 0 to all.
    """

    def __init__(self) -> None:
        self._starts: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._columns: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._n = self._filled = 0

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
        self._n, self._filled = self._n + len(rows), self._filled + total

    def __len__(self) -> int:
        return self._n

    def between(self, rows: Places, columns: Places) -> Array:
        return tanimoto(self._rows(rows), self._rows(columns))

    def _rows(self, of: Places) -> csr_matrix:
        sizes = self._starts[of + 1] - self._starts[of]
        begins = np.concatenate([[0], np.cumsum(sizes)])
        at = np.arange(begins[-1]) - np.repeat(begins[:-1] - self._starts[of], sizes)
        ones = np.ones(int(begins[-1]), dtype=np.float32)
        return csr_matrix((ones, self._columns[at], begins), shape=(len(of), WIDTH * MAX_COUNT))


def _unary(counts: Mapping[int, int]) -> list[int]:
    """Returns the columns of a structure; a count c takes c columns."""
    folded: dict[int, int] = {}
    for feature, n in counts.items():
        folded[feature % WIDTH] = folded.get(feature % WIDTH, 0) + n
    return [feature * MAX_COUNT + level for feature, n in folded.items() for level in range(min(n, MAX_COUNT))]


def _room(array: NDArray[Number], n: int) -> NDArray[Number]:
    """Returns an array at least n long; a growing array doubles in length."""
    if len(array) >= n:
        return array
    grown = np.zeros((max(n, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
