"""Runs one scheduler on one table with one budget; records purchases in order and the hits found."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.array_types import Array, Mask
from sciagent.scheduling.candidate_pool import Buyer, CandidatePool, Purchase

SLOTS = 16  # purchases of a rule before it sees their answers


@dataclass(frozen=True)
class Truth:
    """A table with all its answers. scores: (n, c), terminal rung last, NaN for an empty cell, which costs its price
    but has no answer. costs: (n, k). hit: (n,), False if the terminal cell is empty. rungs: (c,) the rung of each
    column, as in `CandidatePool`; default: one column per rung."""

    scores: Array
    costs: Array
    hit: Mask
    rungs: tuple[PaidIndex, ...] = ()

    @property
    def exhaustive(self) -> float:
        """Cost of the terminal rung for all candidates."""
        return float(self.costs[:, -1].sum())


@dataclass
class Replay:
    """The purchases of a run in order; every list has one entry per purchase."""

    of: list[int] = field(default_factory=list)
    rung: list[int] = field(default_factory=list)
    index: list[float] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    hit: list[bool] = field(default_factory=list)

    def add(self, purchase: Purchase, cost: float, hit: bool) -> None:
        self.of.append(purchase.row)
        self.rung.append(purchase.rung)
        self.index.append(purchase.index)
        self.cost.append(cost)
        self.hit.append(hit)

    @property
    def spent(self) -> float:
        return float(np.sum(self.cost))


def simulate(truth: Truth, buyer: Buyer, budget: float, stream: int = 0, enough: float = 1.0) -> Replay:
    """Buys until the budget is spent or the scheduler returns nothing. budget: a fraction of the exhaustive cost.

    stream: number of candidates per batch; each batch brings its share of the budget. 0 means that all are there from
    the start. enough: recall at which a pool stops.
    """
    n = len(truth.scores)
    run = Replay()
    hits = 0
    wanted = max(1, int(np.ceil(enough * truth.hit.sum())))
    size = stream or n
    c = truth.scores.shape[1]
    k = truth.costs.shape[1]
    pool = CandidatePool(np.empty((0, c)), np.empty((0, k), dtype=bool), np.empty((0, k)), truth.rungs, slots=SLOTS)
    columns = [pool.columns(j) for j in pool.paid]
    for start in range(0, n, size):
        pool.add(truth.costs[start : start + size])
        limit = budget * truth.exhaustive * min(start + size, n) / n
        spent = run.spent
        while hits < wanted or stream:
            bought = False
            for purchase in buyer.choose(pool, limit - spent):
                of = purchase.row
                rung = purchase.rung
                cost = float(truth.costs[of, rung])
                if pool.closed[of, rung] or spent + cost > limit * (1 + 1e-12):
                    continue
                bought = True
                spent += cost
                answer = truth.scores[of, columns[rung]]
                pool.closed[of, rung] = True
                pool.scores[of, columns[rung]] = answer
                pool.tried[rung] += 1
                pool.failed[rung] += bool(np.isnan(answer).all())
                last = rung == k - 1
                pool.out[of] |= last
                run.add(purchase, cost, last and bool(truth.hit[of]))
                hits += run.hit[-1]
            if not bought:
                break
    return run
