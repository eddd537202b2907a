"""Schedulers that send candidates up the ladder one rung at a time: a rule says who is next at each rung."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.domain.valuation import Valuation
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
    """Says which of the waiting candidates are next. A rule is stateless: what it needs to know, it is given."""

    name: str
    first_rung: PaidIndex = FIRST
    """The rung that every candidate gets before any is sent higher."""

    @abstractmethod
    def choose(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        """At most `slots` purchases, most urgent first. waiting: one entry a rung, in ladder order."""

    def leaves(self, rung: PaidIndex) -> bool:
        """Whether candidates that wait for the rung may stay there for good although there is room for them."""
        return False

    def ends_with(self, terminal: Waiting) -> bool:
        """Whether nothing is to be done any more, given what the terminal rung may still start."""
        return terminal.remaining == 0


class Ruled:
    """A rule as a scheduler. A candidate waits for the rung after the last one that it has seen."""

    def __init__(self, rule: RungRule, sign: int = 1) -> None:
        """sign: 1 where a higher answer is better. It counts where the pool has no scores: then a candidate's score is
        the rank of its last answer."""
        self.rule, self.name, self._sign = rule, rule.name, sign

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        return self.rule.choose(waiting_in(pool, self._sign), pool.free_slots)

    def for_everyone(self, pool: CandidatePool, left: float) -> list[Purchase]:
        first = self.rule.first_rung
        ladder = [w if w.rung == first else replace(w, remaining=0) for w in waiting_in(pool, self._sign)]
        return self.rule.choose(ladder, pool.free_slots)

    def valuation(self, pool: CandidatePool, row: int) -> Valuation | None:
        return None


def waiting_in(pool: CandidatePool, sign: int = 1) -> list[Waiting]:
    """One entry for each rung of the pool."""
    k = pool.closed.shape[1]
    position, score = standing(pool, sign)
    waits, going, found = ~(pool.out | pool.pending), ~pool.out, []
    for j in range(k):
        rows = np.flatnonzero((position == j) & waits)
        remaining = None if pool.room is None else pool.room[j]
        undecided = None if remaining is None else np.flatnonzero((position <= j) & going)
        running = int((pool.pending & (position == j + 1)).sum())
        started = int(pool.closed[:, j].sum()) if pool.started is None else pool.started[j]
        found.append(Waiting(PaidIndex(j), rows, score[rows], remaining, started, running, undecided))
    return found


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
