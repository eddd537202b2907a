"""What a scheduler sees of all candidates, as arrays; and what it wants to buy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]

FAILED, TRIED = 0.2, 10.0  # failures that a rung is taken to have seen, in so many tries, before the first
ROOM = 0.125  # of their length that arrays grow beyond what is needed, so that each row is rarely copied


@dataclass
class Board:
    """n candidates, k rungs, the terminal one last, c columns of answers.

    scores: (n, c) each in its own unit, NaN where not seen. errors: (n, c) their standard uncertainties, 0 where
    unknown; None as long as nobody has told one. closed: (n, k) where a purchase is not possible: seen, failed,
    pending, passed over. costs: (n, k) expected. rungs: (c,) the rung of each column, ascending; default: one column a
    rung. out: (n,) candidates that cannot be verified any more or have been. pending: (n,) that are at work. outlay:
    what was spent, where somebody keeps account; None: the expected cost of what is closed. tried, failed: (k,) how
    often each rung has answered or failed to, and failed to.
    """

    scores: Array
    closed: Mask
    costs: Array
    rungs: tuple[int, ...] = ()
    outlay: float | None = None
    errors: NDArray[np.float32] | None = field(init=False, default=None)
    out: Mask = field(init=False)
    pending: Mask = field(init=False)
    tried: NDArray[np.int64] = field(init=False)
    failed: NDArray[np.int64] = field(init=False)
    _room: dict[str, NDArray[Any]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.rungs = self.rungs or tuple(range(self.costs.shape[1]))
        self.out = np.zeros(len(self.scores), dtype=bool)
        self.pending = np.zeros(len(self.scores), dtype=bool)
        self.tried = np.zeros(self.costs.shape[1], dtype=np.int64)
        self.failed = np.zeros(self.costs.shape[1], dtype=np.int64)

    @property
    def spent(self) -> float:
        """What all that was bought has cost, or as it is known, should have."""
        return float(self.costs[self.closed].sum()) if self.outlay is None else self.outlay

    @property
    def open(self) -> Places:
        """Candidates that something may be bought for now."""
        found: Places = np.flatnonzero(~(self.out | self.pending))
        return found

    @property
    def in_play(self) -> Mask:
        """(n,) whether anything was or can be bought for it."""
        found: Mask = ~self.out | np.any(self.closed, axis=1)
        return found

    def columns(self, rung: int) -> list[int]:
        return [c for c, j in enumerate(self.rungs) if j == rung]

    def answered(self, rung: int, of: Places | slice = slice(None)) -> Mask:
        """(n,) whether the rung has said anything of each, or of some."""
        found = np.zeros(len(self.out[of]), dtype=bool)
        for column in self.columns(rung):
            found |= ~np.isnan(self.scores[of, column])
        return found

    def failures(self) -> Array:
        """(k,) probability that a rung gives no answer."""
        found: Array = (self.failed + FAILED) / (self.tried + TRIED)
        return found

    def write(self, row: int, column: int, value: float, error: float = 0.0) -> None:
        """An answer, and its standard uncertainty."""
        self.scores[row, column] = value
        if error and self.errors is None:
            self.errors = np.zeros(self.scores.shape, dtype=np.float32)
        if self.errors is not None:
            self.errors[row, column] = error

    def add(self, costs: Array) -> None:
        """Candidates that have arrived; costs: (m, k)."""
        m, k = costs.shape
        self._append("scores", np.full((m, self.scores.shape[1]), np.nan))
        if self.errors is not None:
            self._append("errors", np.zeros((m, self.scores.shape[1]), dtype=np.float32))
        self._append("closed", np.zeros((m, k), dtype=bool))
        self._append("costs", costs)
        self._append("out", np.zeros(m, dtype=bool))
        self._append("pending", np.zeros(m, dtype=bool))

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
    """Rung `rung` for candidate `of`, bought at `index` (hits a unit of cost; infinite for what is bought unasked)."""

    of: int
    rung: int
    index: float
