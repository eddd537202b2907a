"""Schedulers that run the ladder one rung at a time: a rule selects the next candidates of each rung.

The base class of the settings of all schedulers, which make the rule, is here as well.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, get_args

import numpy as np

from sciagent.domain.rung_positions_and_tiers import PaidIndex, Tier
from sciagent.domain.worth import worth_text
from sciagent.inputs.yaml_validation import Part
from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase

FIRST = PaidIndex(0)
UNKNOWN = -1.0  # index of a purchase for a candidate without a worth, below all others
UTILITY_WEIGHT = 0.999  # so that the expected utility only orders candidates of one chance, a whole number


@dataclass(frozen=True)
class Waiting:
    """The n candidates that wait for one rung, in order of arrival."""

    rung: PaidIndex
    """The rung for which they wait."""
    rows: RowIndices
    """(n,) rows of the pool."""
    worth: Array
    """(n, 4) chance to be a hit in percent, expected utility, margin and P(hit); NaN if unknown."""
    remaining: int | None = None
    """Number of jobs that the rung may still start; None without a limit."""
    started: int = 0
    """Number of candidates on which the rung was started, or whose answer was known before."""
    running: int = 0
    """Number of started candidates without an answer yet."""
    undecided: RowIndices | None = None
    """Rows of all candidates that wait for this rung or may still reach it; None if `remaining` is None."""
    lots: Array | None = None
    """(n,) fixed numbers in (0, 1) for draws; None: nothing is drawn."""

    def best(self, n: int) -> RowIndices:
        """Returns positions in `rows` of the n best: by chance, expected utility and margin; ties in order of arrival.

        Candidates without a worth come last.
        """
        key = self.index
        margin = np.nan_to_num(self.worth[:, 2], nan=-math.inf)
        candidates = np.arange(len(key))
        if n < len(key):
            last = max(n - 1, 0)
            lowest = -np.partition(-key, last)[last]
            candidates = np.flatnonzero(key >= lowest)
        best_first = candidates[np.lexsort((-margin[candidates], -key[candidates]))]
        return best_first[: max(n, 0)]

    @cached_property
    def index(self) -> Array:
        """(n,) chance in percent plus nearly the expected utility, by which candidates are bought; UNKNOWN without."""
        index: Array = self.worth[:, 0] + UTILITY_WEIGHT * self.worth[:, 1]
        return np.where(np.isnan(index), UNKNOWN, index)

    def words(self, i: int) -> str:
        """Returns a clause on the worth of the i-th candidate; empty without one."""
        chance, expected_utility, _, p_hit = self.worth[i].tolist()
        if math.isnan(chance):
            return ""
        return f"; {worth_text(None if math.isnan(p_hit) else p_hit, int(chance), expected_utility)}"

    def places(self, slots: int) -> int:
        """Returns how many of the free slots the rung may fill."""
        return slots if self.remaining is None else max(min(slots, self.remaining), 0)


class RungRule(ABC):
    """A scheduler that selects among waiting candidates. A candidate waits for the rung after the last one it has seen.
    A rule keeps no state."""

    first_rung: PaidIndex = FIRST
    """The rung that every candidate gets before any candidate gets a higher one."""

    @abstractmethod
    def next(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        """Returns at most `slots` purchases, most urgent first. waiting: one entry per rung, in ladder order."""

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        return self.next(waiting_in(pool), pool.slots)

    def for_everyone(self, pool: CandidatePool) -> list[Purchase]:
        """Returns purchases of the first rung only."""
        first_only = []
        for waiting in waiting_in(pool):
            is_first = waiting.rung == self.first_rung
            first_only.append(waiting if is_first else replace(waiting, remaining=0))
        return self.next(first_only, pool.slots)

    def leaves(self, rung: PaidIndex) -> bool:
        """Returns whether candidates may stay at this rung for good although it has free places."""
        return False

    def ends_with(self, remaining: int | None) -> bool:
        """Returns whether the campaign is over. remaining: jobs that the terminal rung may still start."""
        return remaining == 0


@dataclass(frozen=True)
class PaidLadder:
    """The rungs that a scheduler buys: the paid ones up to the terminal rung, in order."""

    labels: tuple[str, ...]
    """(k,) labels of the rungs in the campaign file."""
    tiers: tuple[Tier, ...]
    """(k,) tiers of the rungs."""
    seed: int
    """Seed of the campaign, for draws."""

    @property
    def terminal(self) -> PaidIndex:
        """The last rung; 0 if nothing is bought."""
        return PaidIndex(max(len(self.labels) - 1, 0))


class SchedulerSpec(Part, ABC):
    """Base class of a scheduler's settings in a campaign file. A subclass states `kind` as the literal by which a file
    names it, and a description of each of its fields."""

    may_skip: ClassVar[bool] = False
    """Whether a candidate may skip a paid rung."""
    knows_chance: ClassVar[bool] = False
    """Whether each candidate's chance of a terminal verification is known beforehand. `terminal_chance` states it."""

    kind: str
    """The name of the scheduler in a file."""

    @classmethod
    def name(cls) -> str:
        """Returns the kind, as a campaign file names it."""
        [kind] = get_args(cls.model_fields["kind"].annotation)
        return str(kind)

    @abstractmethod
    def rule(self, ladder: PaidLadder) -> RungRule:
        """Returns the rule by which candidates climb this ladder."""

    def terminal_chance(self) -> float | None:
        """Returns the chance of a terminal verification, in (0, 1]: a candidate that passes the rungs below is verified
        if its lot is smaller. None unless `knows_chance`."""
        return None


def waiting_in(pool: CandidatePool) -> list[Waiting]:
    """Returns one entry per rung of the pool."""
    k = pool.closed.shape[1]
    # (n,) the rung after the last one that was tried
    next_rung = np.where(pool.closed, np.arange(1, k + 1), 0).max(1, initial=0)
    waits = ~(pool.out | pool.pending)
    is_undecided = ~pool.out
    ladder = []
    for j in range(k):
        rows = np.flatnonzero((next_rung == j) & waits)
        remaining = None if pool.room is None else pool.room[j]
        undecided = None if remaining is None else np.flatnonzero((next_rung <= j) & is_undecided)
        running = int((pool.pending & (next_rung == j + 1)).sum())
        started = int(pool.closed[:, j].sum()) if pool.started is None else pool.started[j]
        lots = None if pool.lots is None else pool.lots[rows]
        entry = Waiting(
            rung=PaidIndex(j),
            rows=rows,
            worth=pool.worth[rows].astype(float),
            remaining=remaining,
            started=started,
            running=running,
            undecided=undecided,
            lots=lots,
        )
        ladder.append(entry)
    return ladder
