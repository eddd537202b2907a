"""What a run found for its money: recall of the hits, and the cost of reaching a mark of it.

Costs are shares of the exhaustive cost, N times the terminal rung. cost_to is the spend at which one run with budget
1.0, taken in index order, reaches a recall; recall at b comes from separate runs with budget b. A cost that one of the
seeds never reached has no mean: it is None, not the mean of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from sciagent.bench.simulate import Replay, Truth
from sciagent.scheduling.arrays import Array, Places

MARKS = (0.5, 0.8, 0.9, 0.95)
CONFIDENCE = 0.95
Interval = tuple[float, float | None, float | None]  # mean, low, high


@dataclass(frozen=True)
class Curve:
    """spent: (purchases,) share of the exhaustive cost up to and with each; recall: (purchases,) of all hits."""

    spent: Array
    recall: Array

    @classmethod
    def of(cls, run: Replay, truth: Truth, stream: bool = False) -> Curve:
        """In a pool the run's own order is the index order; a stream's purchases are put into it."""
        order = index_order(run) if stream else np.arange(len(run.of))
        cost, hit = np.array(run.cost, dtype=float)[order], np.array(run.hit, dtype=bool)[order]
        return cls(np.cumsum(cost) / truth.exhaustive, np.cumsum(hit) / truth.hit.sum())

    def cost_to(self, mark: float) -> float | None:
        """Spend at which the recall reaches the mark."""
        there = np.flatnonzero(self.recall >= mark - 1e-9)
        return float(self.spent[there[0]]) if len(there) else None


def index_order(run: Replay) -> Places:
    """The purchases, (n,), by falling index, each counted with the smallest index of its candidate up to it.

    So a purchase stands behind those that led to it. Infinite ones come first; equals keep the run's order.
    """
    least: dict[int, float] = {}
    counted = np.empty(len(run.of))
    for place, (of, index) in enumerate(zip(run.of, run.index, strict=True)):
        least[of] = counted[place] = min(index, least.get(of, np.inf))
    return np.argsort(-counted, kind="stable")


def recall(run: Replay, truth: Truth) -> float:
    """The share of all hits that were found by the end of the run."""
    return float(np.sum(run.hit) / truth.hit.sum())


def summarised(values: Sequence[float | None]) -> Interval | None:
    """values: one a seed. Mean and 95 % interval (Student t), the interval open with one seed."""
    known = sorted(value for value in values if value is not None)
    if not known or len(known) < len(values):
        return None
    mean = float(np.mean(known))
    if len(known) == 1:
        return mean, None, None
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(known) - 1) * np.std(known, ddof=1) / np.sqrt(len(known)))
    return mean, mean - half, mean + half
