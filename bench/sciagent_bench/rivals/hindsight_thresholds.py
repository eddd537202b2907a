"""Thresholds fitted in hindsight: the least cost of a share of the hits, if all answers are known.

The candidates are verified in the order of a rung. At most two rungs below the terminal one are bought: one for all
candidates, and possibly another for the best of them, which then gives the order. Every choice of rungs, directions
and numbers is tried on the table itself, so that no campaign can know them: a strict rival, not a scheduler.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sciagent.scheduling.array_types import Array, RowIndices
from sciagent_bench.replay_cases import Case

STEPS = 80  # numbers of candidates that are tried for the second rung


def hindsight(case: Case, marks: Sequence[float]) -> list[float]:
    """Returns the cost of each recall, as a fraction of the exhaustive cost."""
    truth = case.truth
    n, k = truth.costs.shape
    each = truth.costs.mean(0)
    exhaustive = truth.exhaustive
    orders = {(j, sign): _order(truth.scores[:, j], sign) for j in range(k - 1) for sign in (1, -1)}
    found = []
    for mark in marks:
        wanted = math.ceil(mark * truth.hit.sum() - 1e-9)
        cheapest = n * each[-1]  # everyone is verified
        for (j, _), order in orders.items():
            reached = int(np.flatnonzero(np.cumsum(truth.hit[order]) >= wanted)[0]) + 1
            cheapest = min(cheapest, n * each[j] + reached * each[-1])
            for number in np.unique(np.linspace(reached, n, STEPS).astype(int)):
                inside = np.zeros(n, dtype=bool)
                inside[order[:number]] = True
                for (i, _), second in orders.items():
                    if i != j:
                        then = second[inside[second]]
                        last = int(np.flatnonzero(np.cumsum(truth.hit[then]) >= wanted)[0]) + 1
                        cheapest = min(cheapest, n * each[j] + number * each[i] + last * each[-1])
        found.append(float(cheapest / exhaustive))
    return found


def _order(scores: Array, sign: int) -> RowIndices:
    """Returns the candidates by falling score, those without one last."""
    order: RowIndices = np.argsort(np.where(np.isnan(scores), np.inf, -sign * scores), kind="stable")
    return order
