"""One scheduler, one table, one budget: what it bought, in which order, and what it found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.candidate_pool import Board, Purchase

Array = NDArray[np.float64]


class Buyer(Protocol):
    def choose(self, board: Board, left: float) -> list[Purchase]:
        """What to buy next, most urgent first; nothing: it is done with those that are there."""


@dataclass(frozen=True)
class Truth:
    """A table with all its answers. scores: (n, c), the terminal rung last, NaN: an empty cell, which costs its price
    and yields nothing. costs: (n, k). hit: (n,), False where the terminal cell is empty. rungs: (c,) the rung of each
    column, as on a board; default: one column a rung."""

    scores: Array
    costs: Array
    hit: NDArray[np.bool_]
    rungs: tuple[int, ...] = ()

    @property
    def exhaustive(self) -> float:
        """Cost of the terminal rung for all."""
        return float(self.costs[:, -1].sum())


@dataclass
class Run:
    """Purchases in order. of, rung, index, cost: one entry each; hits: whether it found one."""

    of: list[int] = field(default_factory=list)
    rung: list[int] = field(default_factory=list)
    index: list[float] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    hit: list[bool] = field(default_factory=list)

    @property
    def spent(self) -> float:
        return float(np.sum(self.cost))


def simulate(truth: Truth, buyer: Buyer, budget: float, stream: int = 0, enough: float = 1.0) -> Run:
    """Buy until the budget is spent or nothing is wanted. budget: a share of the exhaustive cost.

    stream: candidates arrive so many at a time, and each batch brings its share of the budget; 0: all are there from
    the start. enough: stop at this recall; a pool's curve ends there.
    """
    n, run = len(truth.scores), Run()
    found, wanted = 0, max(1, int(np.ceil(enough * truth.hit.sum())))
    size = stream or n
    c, k = truth.scores.shape[1], truth.costs.shape[1]
    board = Board(np.empty((0, c)), np.empty((0, k), dtype=bool), np.empty((0, k)), truth.rungs)
    columns = [board.columns(j) for j in range(k)]
    for start in range(0, n, size):
        board.add(truth.costs[start : start + size])
        limit = budget * truth.exhaustive * min(start + size, n) / n
        spent = run.spent
        while found < wanted or stream:
            bought = False
            for one in buyer.choose(board, limit - spent):
                cost = float(truth.costs[one.of, one.rung])
                if board.closed[one.of, one.rung] or spent + cost > limit * (1 + 1e-12):
                    continue
                bought = True
                spent += cost
                board.closed[one.of, one.rung] = True
                answer = truth.scores[one.of, columns[one.rung]]
                board.scores[one.of, columns[one.rung]] = answer
                board.tried[one.rung] += 1
                board.failed[one.rung] += bool(np.isnan(answer).all())
                last = one.rung == k - 1
                board.out[one.of] |= last
                run.of.append(one.of)
                run.rung.append(one.rung)
                run.index.append(one.index)
                run.cost.append(cost)
                run.hit.append(last and bool(truth.hit[one.of]))
                found += run.hit[-1]
            if not bought:
                break
    return run
