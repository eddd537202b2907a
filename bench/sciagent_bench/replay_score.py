"""Scores a replay: its recall of the hits, and the cost of reaching given recalls.

Costs are fractions of the exhaustive cost: the number of candidates times the price of the terminal rung. The cost to
reach a recall (`cost_to`) is read from a run with budget 1.0, its purchases sorted by falling index. In a stream such a
run verifies all candidates before the next ones arrive, while a campaign with a smaller budget comes back to them;
`cost_to` is then not the cost of such a campaign. The recall at a smaller budget comes from a separate run with that
budget. If one seed never reaches a recall, the mean cost is None and not the mean of the other seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from sciagent.scheduling.array_types import Array, RowIndices
from sciagent_bench.replay_once import Replay, Truth

MARKS = (0.5, 0.8, 0.9, 0.95)
CONFIDENCE = 0.95
Interval = tuple[float, float | None, float | None]  # mean, low, high


@dataclass(frozen=True)
class Curve:
    """Recall by spend. spent: (purchases,) cumulative fraction of the exhaustive cost; recall: (purchases,)."""

    spent: Array
    recall: Array

    @classmethod
    def of(cls, run: Replay, truth: Truth, stream: bool = False) -> Curve:
        """Returns the curve in index order. The run of a pool is in this order; that of a stream is sorted."""
        order = index_order(run) if stream else np.arange(len(run.of))
        cost = np.array(run.cost, dtype=float)[order]
        hit = np.array(run.hit, dtype=bool)[order]
        return cls(np.cumsum(cost) / truth.exhaustive, np.cumsum(hit) / truth.hit.sum())

    def cost_to(self, mark: float) -> float | None:
        """Returns the spend at which the recall reaches the mark, or None."""
        reached = np.flatnonzero(self.recall >= mark - 1e-9)
        return float(self.spent[reached[0]]) if len(reached) else None


def index_order(run: Replay) -> RowIndices:
    """Returns the purchases, (n,), by falling index, each with the smallest index of its candidate so far.

    A purchase thus comes after those that led to it. Infinite indices come first; ties keep the order of the run.
    """
    least: dict[int, float] = {}
    counted = np.empty(len(run.of))
    for place, (of, index) in enumerate(zip(run.of, run.index, strict=True)):
        least[of] = min(index, least.get(of, np.inf))
        counted[place] = least[of]
    return np.argsort(-counted, kind="stable")


def recall(run: Replay, truth: Truth) -> float:
    """Returns the fraction of all hits that the run found."""
    return float(np.sum(run.hit) / truth.hit.sum())


def summarised(values: Sequence[float | None]) -> Interval | None:
    """Returns mean and 95 % interval (Student t) over seeds; None if a value is None. One seed has no interval."""
    known = sorted(value for value in values if value is not None)
    if not known or len(known) < len(values):
        return None
    mean = float(np.mean(known))
    if len(known) == 1:
        return mean, None, None
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(known) - 1) * np.std(known, ddof=1) / np.sqrt(len(known)))
    return mean, mean - half, mean + half
