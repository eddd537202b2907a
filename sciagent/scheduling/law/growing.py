"""Count Tanimoto among candidates that keep arriving: rows are added, what is there is not made anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from sciagent.scheduling.law.similarity import MAX_COUNT

Array = NDArray[np.float64]
Places = NDArray[np.intp]
Number = TypeVar("Number", bound=np.generic)

WIDTH = 1 << 15  # features are folded into so many; two rarely meet


class GrowingTanimoto:
    """As `CountTanimoto`, with features folded. A candidate without a structure is unlike all others."""

    def __init__(self) -> None:
        self._starts: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._columns: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._n = self._filled = 0

    def add(self, counts: Sequence[Mapping[int, int]]) -> None:
        """counts: of each new candidate, by feature; places follow the order of arrival."""
        rows = [_unary(one) for one in counts]
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

    def between(self, one: Places, other: Places) -> Array:
        left, right = self._rows(one), self._rows(other)
        common = (left @ right.T).toarray().astype(np.float64)
        sizes = [np.diff(m.indptr).astype(float) for m in (left, right)]
        whole = sizes[0][:, None] + sizes[1] - common
        found: Array = np.divide(common, whole, out=np.zeros_like(common), where=whole > 0)
        return found

    def _rows(self, of: Places) -> csr_matrix:
        sizes = self._starts[of + 1] - self._starts[of]
        begins = np.concatenate([[0], np.cumsum(sizes)])
        at = np.arange(begins[-1]) - np.repeat(begins[:-1] - self._starts[of], sizes)
        ones = np.ones(int(begins[-1]), dtype=np.float32)
        return csr_matrix((ones, self._columns[at], begins), shape=(len(of), WIDTH * MAX_COUNT))


def _unary(counts: Mapping[int, int]) -> list[int]:
    """A count c as c columns."""
    return [
        (feature % WIDTH) * MAX_COUNT + level for feature, n in counts.items() for level in range(min(n, MAX_COUNT))
    ]


def _room(array: NDArray[Number], n: int) -> NDArray[Number]:
    """At least n long; twice as long as before where it grows."""
    if len(array) >= n:
        return array
    grown = np.zeros(max(n, 2 * len(array)), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
