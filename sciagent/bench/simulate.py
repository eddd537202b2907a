"""One scheduler, one table, one budget: what it bought, in which order, and what it found."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.scheduling.arrays import Array, Mask
from sciagent.scheduling.candidate_pool import Buyer, CandidatePool

SLOTS = 16  # purchases of a rule between two looks at the answers


@dataclass(frozen=True)
class Truth:
    """A table with all its answers. scores: (n, c), the terminal rung last, NaN: an empty cell, which costs its price
    and yields nothing. costs: (n, k). hit: (n,), False where the terminal cell is empty. rungs: (c,) the rung of each
    column, as on a pool; default: one column a rung."""

    scores: Array
    costs: Array
    hit: Mask
    rungs: tuple[PaidIndex, ...] = ()

    @property
    def exhaustive(self) -> float:
        """Cost of the terminal rung for all."""
        return float(self.costs[:, -1].sum())


@dataclass
class Replay:
    """Purchases in order. of, rung, index, cost: one entry each; hits: whether it found one."""

    of: list[int] = field(default_factory=list)
    rung: list[int] = field(default_factory=list)
    index: list[float] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    hit: list[bool] = field(default_factory=list)

    @property
    def spent(self) -> float:
        return float(np.sum(self.cost))


def simulate(truth: Truth, buyer: Buyer, budget: float, stream: int = 0, enough: float = 1.0) -> Replay:
    """Buy until the budget is spent or nothing is wanted. budget: a share of the exhaustive cost.

    stream: candidates arrive so many at a time, and each batch brings its share of the budget; 0: all are there from
    the start. enough: stop at this recall; a pool's curve ends there.
    """
    n, run = len(truth.scores), Replay()
    found, wanted = 0, max(1, int(np.ceil(enough * truth.hit.sum())))
    size = stream or n
    c, k = truth.scores.shape[1], truth.costs.shape[1]
    pool = CandidatePool(np.empty((0, c)), np.empty((0, k), dtype=bool), np.empty((0, k)), truth.rungs, slots=SLOTS)
    columns = [pool.columns(j) for j in pool.paid]
    for start in range(0, n, size):
        pool.add(truth.costs[start : start + size])
        limit = budget * truth.exhaustive * min(start + size, n) / n
        spent = run.spent
        while found < wanted or stream:
            bought = False
            for one in buyer.choose(pool, limit - spent):
                cost = float(truth.costs[one.of, one.rung])
                if pool.closed[one.of, one.rung] or spent + cost > limit * (1 + 1e-12):
                    continue
                bought = True
                spent += cost
                pool.closed[one.of, one.rung] = True
                answer = truth.scores[one.of, columns[one.rung]]
                pool.scores[one.of, columns[one.rung]] = answer
                pool.tried[one.rung] += 1
                pool.failed[one.rung] += bool(np.isnan(answer).all())
                last = one.rung == k - 1
                pool.out[one.of] |= last
                run.of.append(one.of)
                run.rung.append(one.rung)
                run.index.append(one.index)
                run.cost.append(cost)
                run.hit.append(last and bool(truth.hit[one.of]))
                found += run.hit[-1]
            if not bought:
                break
    return run
