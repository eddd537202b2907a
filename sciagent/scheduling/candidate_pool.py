"""What a scheduler sees of all candidates, as arrays; and what it wants to buy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.domain.valuation import Valuation
from sciagent.scheduling.arrays import Array, Mask, Places

FAILED, TRIED = 0.2, 10.0  # failures that a rung is taken to have seen, in so many tries, before the first
ROOM = 0.125  # of their length that arrays grow beyond what is needed, so that each row is rarely copied


@dataclass
class CandidatePool:
    """The candidates of a campaign: n of them, k rungs that are bought, the terminal one last, c columns of answers."""

    scores: Array
    """(n, c) answers, each in its own unit; NaN where there is none."""
    closed: Mask
    """(n, k) where nothing can be bought: the rung has answered, failed, is at work, or was passed over."""
    costs: Array
    """(n, k) expected costs, in one unit."""
    rungs: tuple[PaidIndex, ...] = ()
    """(c,) the rung of each column, ascending; by default one column a rung."""
    outlay: float | None = None
    """What was spent so far, where somebody keeps account; else the expected cost of what is closed."""
    slots: int | None = None
    """Jobs that workers could take now; None: any number."""
    room: tuple[int | None, ...] | None = None
    """(k,) jobs that each rung may still start, None for a rung without a limit; None: no rung has one."""
    started: tuple[int, ...] | None = None
    """(k,) candidates that each rung was started on; None: those for which it is closed."""
    score: Array | None = field(init=False, default=None)
    """(n,) how good each candidate looks to the campaign, in [0, 1], NaN where nothing is known; None: nobody says."""
    errors: NDArray[np.float32] | None = field(init=False, default=None)
    """(n, c) standard uncertainties of the answers, 0 where unknown; None as long as none is known."""
    bounds: NDArray[np.int8] | None = field(init=False, default=None)
    """(n, c) -1 where the true value lies below the score, 1 where it lies above, 0 where the score is the value; None
    as long as every score is the value."""
    out: Mask = field(init=False)
    """(n,) candidates that were verified or cannot be any more."""
    pending: Mask = field(init=False)
    """(n,) candidates that a rung is at work on."""
    tried: NDArray[np.int64] = field(init=False)
    """(k,) how often each rung has answered or failed to."""
    failed: NDArray[np.int64] = field(init=False)
    """(k,) how often each rung has failed to answer."""
    _room: dict[str, NDArray[Any]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.rungs = self.rungs or tuple(map(PaidIndex, range(self.costs.shape[1])))
        self.out = np.zeros(len(self.scores), dtype=bool)
        self.pending = np.zeros(len(self.scores), dtype=bool)
        self.tried = np.zeros(self.costs.shape[1], dtype=np.int64)
        self.failed = np.zeros(self.costs.shape[1], dtype=np.int64)

    @property
    def spent(self) -> float:
        """Cost of all that was bought, or where nobody keeps account, its expected cost."""
        return float(self.costs[self.closed].sum()) if self.outlay is None else self.outlay

    @property
    def paid(self) -> list[PaidIndex]:
        """All k rungs, the terminal one last."""
        return [PaidIndex(j) for j in range(self.costs.shape[1])]

    @property
    def free_slots(self) -> int:
        """How many purchases are of use at once: as many as there are candidates where nobody counts slots."""
        return len(self.out) if self.slots is None else self.slots

    @property
    def open(self) -> Places:
        """Candidates that something may be bought for now."""
        return np.flatnonzero(~(self.out | self.pending))

    @property
    def in_play(self) -> Mask:
        """(n,) whether anything was or can be bought for it."""
        in_play: Mask = ~self.out | np.any(self.closed, axis=1)
        return in_play

    def columns(self, rung: PaidIndex) -> list[int]:
        return [c for c, j in enumerate(self.rungs) if j == rung]

    def answered(self, rung: PaidIndex, of: Places | slice = slice(None)) -> Mask:
        """(n,) whether the rung has answered for each candidate, or for each of some."""
        answered: Mask = np.any(~np.isnan(self.scores[of][:, self.columns(rung)]), axis=1)
        return answered

    def failures(self) -> Array:
        """(k,) probability that a rung gives no answer."""
        return (self.failed + FAILED) / (self.tried + TRIED)

    def write(self, row: int, column: int, value: float, error: float = 0.0, bound: int = 0) -> None:
        """An answer, and its standard uncertainty. bound: as in `bounds`."""
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
        """Candidates that have arrived, of whom nothing is known; costs: (m, k)."""
        for name in ("scores", "errors", "bounds", "score", "closed", "out", "pending"):
            if (array := getattr(self, name)) is not None:
                unknown = math.nan if array.dtype == np.float64 else 0
                self._append(name, np.full((len(costs), *array.shape[1:]), unknown, dtype=array.dtype))
        self._append("costs", costs)

    def _append(self, name: str, rows: NDArray[Any]) -> None:
        """In the room that is left behind the array, if it is the head of one with room."""
        array: NDArray[Any] = getattr(self, name)
        room, filled = self._room.get(name), len(array) + len(rows)
        if room is None or array.base is not room or filled > len(room):
            room = np.empty((filled + int(ROOM * len(array)), *array.shape[1:]), dtype=array.dtype)
            room[: len(array)] = array
            self._room[name] = room
        room[len(array) : filled] = rows
        setattr(self, name, room[:filled])


@dataclass(frozen=True)
class Purchase:
    """One rung bought for one candidate."""

    of: int
    """Row of the candidate."""
    rung: PaidIndex
    """The rung that is bought."""
    index: float
    """What puts purchases in order, the largest first: payoff a unit of cost where a law says it; infinite for what
    is bought unasked."""
    propensity: float = 1.0
    """Probability with which the scheduler chose it."""
    why: str = ""
    """The reason in words; empty where the campaign has the words for it."""
    valuation: Valuation | None = None
    """What the candidate is worth by the scheduler's law, if it has one."""


class Buyer(Protocol):
    """The port of every scheduler. A campaign and the bench run the same object."""

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """The next purchases, most urgent first; none where it is done with the candidates that are there.

        left: what may still be spent, in the unit of the pool's costs.
        """
