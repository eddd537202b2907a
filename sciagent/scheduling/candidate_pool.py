"""The candidates of a campaign as arrays that schedulers read, and the purchases that schedulers return.

Tasks of people take weeks, so the pool also counts how many are listed ahead, and how many a goal still needs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.objectives import Valuation
from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.array_types import Array, Mask, RowIndices

PRIOR_FAILURES = 0.2
PRIOR_TRIES = 10.0  # prior of a rung's failure rate: 0.2 failures in 10 tries
SPARE_ROOM = 0.125  # spare length of growing arrays, as a fraction, so that rows are rarely copied


@dataclass
class CandidatePool:
    """A campaign's n candidates, k rungs that can be bought, the terminal rung last, and c columns of answers."""

    GROWING: ClassVar[tuple[str, ...]] = (
        "scores",
        "errors",
        "bounds",
        "order",
        "lots",
        "worth",
        "closed",
        "out",
        "pending",
        "experimental",
        "spared",
    )
    """Names of the arrays, besides the costs, that get a row for each new candidate."""

    scores: Array
    """(n, c) answers, each in its own unit; NaN if there is none."""
    closed: Mask
    """(n, k) whether a rung cannot be bought: it has answered, failed, is running, or was passed over."""
    costs: Array
    """(n, k) expected costs, in one common unit."""
    rungs: tuple[PaidIndex, ...] = ()
    """(c,) the rung of each column, ascending; by default one column per rung. -1: a rung that is not bought, since its
    answers are known of every candidate."""
    outlay: float | None = None
    """Spend so far, if it is accounted; None: the expected cost of all closed rungs."""
    slots: int = sys.maxsize
    """Number of jobs that workers could start now."""
    room: tuple[int | None, ...] | None = None
    """(k,) number of jobs that each rung may still start, None without a limit; None: no rung has a limit."""
    started: tuple[int, ...] | None = None
    """(k,) number of candidates on which each rung was started; None: those for which it is closed."""
    worth: NDArray[np.float32] = field(init=False)
    """(n, 4) chance to be a hit in percent, expected utility, margin and P(hit) of each candidate; NaN if unknown. The
    chance of a candidate with a worth is never unknown: see `domain.worth.LEAST`."""
    errors: NDArray[np.float32] | None = field(init=False, default=None)
    """(n, c) standard uncertainties of the answers, 0 if unknown; None while none is known."""
    bounds: NDArray[np.int8] | None = field(init=False, default=None)
    """(n, c) censoring: -1 if the true value is below the score, 1 if above, 0 if the score is the value; None while no
    answer is censored."""
    experimental: Array | None = field(init=False, default=None)
    """(n, c) experimental values that decide objectives, each in the deciding column; NaN if there is none. The law
    does not learn from them. None if such values decide nothing."""
    spared: Mask | None = field(init=False, default=None)
    """(n, k) whether a rung is not needed for a candidate, since experimental values decide all that it is run for.
    Such a rung is closed, except for the terminal one. None if such values decide nothing."""
    order: NDArray[np.uint64] | None = field(init=False, default=None)
    """(n,) hashes of the candidates' keys, by which a law selects rows; None: it selects by row number."""
    lots: Array | None = field(init=False, default=None)
    """(n,) fixed numbers in (0, 1) for draws, by candidate key; NaN for candidates that were not loaded because their
    work was over; None: nothing is drawn."""
    out: Mask = field(init=False)
    """(n,) whether a candidate is verified or can no longer be."""
    pending: Mask = field(init=False)
    """(n,) whether a rung is running on the candidate."""
    tried: NDArray[np.int64] = field(init=False)
    """(k,) number of times that each rung has answered or failed."""
    failed: NDArray[np.int64] = field(init=False)
    """(k,) number of times that each rung has failed."""
    _spare: dict[str, NDArray[Any]] = field(init=False, repr=False, default_factory=dict)
    """By the name of a growing array: the longer array of which it is the beginning."""

    def __post_init__(self) -> None:
        self.rungs = self.rungs or tuple(map(PaidIndex, range(self.costs.shape[1])))
        self.worth = np.full((len(self.scores), 4), np.nan, dtype=np.float32)
        self.out = np.zeros(len(self.scores), dtype=bool)
        self.pending = np.zeros(len(self.scores), dtype=bool)
        self.tried = np.zeros(self.costs.shape[1], dtype=np.int64)
        self.failed = np.zeros(self.costs.shape[1], dtype=np.int64)

    @property
    def spent(self) -> float:
        """Spend so far; if it is not accounted, the expected cost of all closed rungs."""
        return float(self.costs[self.closed].sum()) if self.outlay is None else self.outlay

    @property
    def paid(self) -> list[PaidIndex]:
        """All k rungs, terminal rung last."""
        return [PaidIndex(j) for j in range(self.costs.shape[1])]

    @property
    def open(self) -> RowIndices:
        """Rows of the candidates for which something can be bought now."""
        return np.flatnonzero(~(self.out | self.pending))

    @property
    def in_play(self) -> Mask:
        """(n,) whether any rung was or can be bought for the candidate."""
        in_play: Mask = ~self.out | np.any(self.closed, axis=1)
        return in_play

    def columns(self, rung: PaidIndex) -> list[int]:
        """Returns the columns of a rung's answers."""
        return [c for c, j in enumerate(self.rungs) if j == rung]

    def answered(self, rung: PaidIndex, of: RowIndices | slice = slice(None)) -> Mask:
        """Returns (n,) whether the rung has answered for each candidate, or for the rows `of`."""
        answered: Mask = np.any(~np.isnan(self.scores[of][:, self.columns(rung)]), axis=1)
        return answered

    @property
    def deciding_scores(self) -> Array:
        """(n, c) answers, with experimental values in their place where there are some."""
        if self.experimental is None:
            return self.scores
        return np.where(np.isnan(self.experimental), self.scores, self.experimental)

    def needed_rung(self, row: int, rung: PaidIndex) -> PaidIndex | None:
        """Returns the rung; if the candidate does not need it, the lowest one that can be bought; None without one."""
        if self.spared is None or not self.spared[row, rung]:
            return rung
        open_rungs = np.flatnonzero(~(self.closed[row] | self.spared[row]))
        return PaidIndex(int(open_rungs[0])) if len(open_rungs) else None

    def failures(self) -> Array:
        """Returns (k,) probability that a rung gives no answer."""
        return (self.failed + PRIOR_FAILURES) / (self.tried + PRIOR_TRIES)

    def write(self, row: int, column: int, value: float, error: float = 0.0, bound: int = 0) -> None:
        """Stores an answer with its standard uncertainty. bound: as in `bounds`."""
        self.scores[row, column] = value
        if error and self.errors is None:
            self.errors = np.zeros(self.scores.shape, dtype=np.float32)
        if self.errors is not None:
            self.errors[row, column] = error
        if bound and self.bounds is None:
            self.bounds = np.zeros(self.scores.shape, dtype=np.int8)
        if self.bounds is not None:
            self.bounds[row, column] = bound

    def add(self, costs: Array) -> None:
        """Adds new candidates, without any answers. costs: (m, k)."""
        for name in self.GROWING:
            array = getattr(self, name)
            if array is None:
                continue
            unknown = math.nan if array.dtype == np.float64 else 0
            self._append(name, np.full((len(costs), *array.shape[1:]), unknown, dtype=array.dtype))
        self._append("costs", costs)

    def _append(self, name: str, rows: NDArray[Any]) -> None:
        """Appends rows, in the spare room behind the array if there is enough."""
        array: NDArray[Any] = getattr(self, name)
        longer = self._spare.get(name)
        filled = len(array) + len(rows)
        # `array` is no longer the beginning of the longer array if somebody has replaced it
        if longer is None or array.base is not longer or filled > len(longer):
            longer = np.empty((filled + int(SPARE_ROOM * len(array)), *array.shape[1:]), dtype=array.dtype)
            longer[: len(array)] = array
            self._spare[name] = longer
        longer[len(array) : filled] = rows
        setattr(self, name, longer[:filled])


@dataclass(frozen=True)
class Purchase:
    """A purchase of one rung for one candidate."""

    row: int
    """Row of the candidate."""
    rung: PaidIndex
    """The rung that is bought."""
    index: float
    """Number by which purchases are made, largest first: payoff per unit of cost if a law gives it; infinite for
    purchases that need no law."""
    propensity: float = 1.0
    """Probability with which the scheduler chose the purchase."""
    why: str = ""
    """The reason in words; empty if the campaign words it."""
    valuation: Valuation | None = None
    """The value of the candidate by the scheduler's law, if there is one."""


class Buyer(Protocol):
    """A scheduler. Campaigns and the bench run the same object."""

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """Returns the next purchases, most urgent first; an empty list if there is nothing to buy for these candidates.

        left: remaining budget, in the unit of the pool's costs.
        """


WEEKS = 2  # tasks of people may be listed for this many weeks ahead, by the weekly limit
RECENT = 10
"""Number of the latest answers whose share of hits is expected of open tasks. The share of all answers would be too
small, since the first ones are there to be learnt from."""


def tasks_for_missing_hits(count: int, hits: int, latest: Sequence[bool]) -> int:
    """Returns the number of open tasks that are likely to bring the missing hits.

    latest: whether each of the latest answers, at most RECENT, is a hit. Each task counts with their share of hits,
    p = (h + 1) / (n + 2). The number is the least m with m p >= count - hits.

    Source of the share: Laplace's rule of succession.
    """
    share = (sum(latest) + 1) / (len(latest) + 2)
    return max(0, math.ceil((count - hits) / share - 1e-9))
