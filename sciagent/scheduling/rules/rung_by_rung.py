"""Schedulers that send candidates up the ladder one rung at a time: a rule says who is next at each rung."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.scheduling.arrays import Array, Places
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase

FIRST = PaidIndex(0)


@dataclass(frozen=True)
class Waiting:
    """The candidates that wait for one rung, n of them, in the order in which they came."""

    rung: PaidIndex
    """The rung that they wait for."""
    rows: Places
    """(n,) rows of the pool."""
    score: Array
    """(n,) how good each looks so far, in [0, 1]; NaN where nothing is known."""
    remaining: int | None = None
    """Jobs that the rung may still start; None without a limit."""
    started: int = 0
    """Candidates that the rung was run on, or whose answer was known before."""
    running: int = 0
    """Those of them without an answer yet."""
    undecided: Places | None = None
    """Rows of all that wait for this rung or may still come to it; None where `remaining` is."""

    def best(self, n: int) -> Places:
        """Places in `rows` of the n with the highest score; equal ones in the order in which they came."""
        score = np.where(np.isnan(self.score), -1.0, self.score)
        if n < len(score):
            least = -np.partition(-score, max(n - 1, 0))[max(n - 1, 0)]
            among = np.flatnonzero(score >= least)
            return among[np.argsort(-score[among], kind="stable")][: max(n, 0)]
        return np.argsort(-score, kind="stable")

    def places(self, slots: int) -> int:
        """How many of so many free slots the rung may fill."""
        return slots if self.remaining is None else max(min(slots, self.remaining), 0)


class RungRule(ABC):
    """A scheduler that says which of the waiting candidates are next. A candidate waits for the rung after the last one
    that it has seen. A rule keeps no state."""

    name: str
    """The rule's name in a campaign's YAML."""
    first_rung: PaidIndex = FIRST
    """The rung that every candidate gets before any is sent higher."""
    sign = 1
    """1 where a higher answer is better; read where the pool has no scores, for then the last answers are ranked."""

    @abstractmethod
    def next(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        """At most `slots` purchases, most urgent first. waiting: one entry a rung, in ladder order."""

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        return self.next(waiting_in(pool, self.sign), pool.free_slots)

    def for_everyone(self, pool: CandidatePool) -> list[Purchase]:
        """Purchases of the first rung alone."""
        ladder = waiting_in(pool, self.sign)
        return self.next([w if w.rung == self.first_rung else replace(w, remaining=0) for w in ladder], pool.free_slots)

    def leaves(self, rung: PaidIndex) -> bool:
        """Whether candidates that wait for the rung may stay there for good although there is room for them."""
        return False

    def ends_with(self, remaining: int | None) -> bool:
        """Whether the campaign is over, given how many jobs the terminal rung may still start."""
        return remaining == 0


def waiting_in(pool: CandidatePool, sign: int = 1) -> list[Waiting]:
    """One entry for each rung of the pool."""
    k = pool.closed.shape[1]
    position, score = standing(pool, sign)
    waits, going, ladder = ~(pool.out | pool.pending), ~pool.out, []
    for j in range(k):
        rows = np.flatnonzero((position == j) & waits)
        remaining = None if pool.room is None else pool.room[j]
        undecided = None if remaining is None else np.flatnonzero((position <= j) & going)
        running = int((pool.pending & (position == j + 1)).sum())
        started = int(pool.closed[:, j].sum()) if pool.started is None else pool.started[j]
        ladder.append(Waiting(PaidIndex(j), rows, score[rows], remaining, started, running, undecided))
    return ladder


def standing(pool: CandidatePool, sign: int) -> tuple[NDArray[np.int64], Array]:
    """The rung that each candidate waits for (the one after the last it has tried) and its score, NaN where no rung
    has answered; (n,) each."""
    n, k = pool.closed.shape
    position = np.zeros(n, dtype=np.int64)
    for j in range(k):
        position[pool.closed[:, j]] = j + 1
    if pool.score is not None:
        return position, pool.score
    score = np.full(n, np.nan)
    for j in range(k):
        seen = np.flatnonzero(~np.isnan(pool.scores[:, j]))
        score[seen[np.argsort(sign * pool.scores[seen, j], kind="stable")]] = (np.arange(len(seen)) + 0.5) / len(seen)
    return position, score
