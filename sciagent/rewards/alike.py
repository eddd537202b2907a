"""Counts how many candidates of a family came before, so that the k-th counts less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection


class FamilyCounts:
    """The candidates of each family so far. A candidate may belong to several families."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def add(self, families: Collection[str]) -> int:
        """Adds a candidate; returns k if it is the k-th of that of its families which has most."""
        self._seen.update(families)
        return max((self._seen[family] for family in families), default=1)
