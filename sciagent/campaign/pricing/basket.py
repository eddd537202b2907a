"""The purchases of one dispatch: the choices so far, and the order in which their jobs start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.domain.ladder import Position
from sciagent.domain.ports import Choice
from sciagent.scheduling.arrays import Array
from sciagent.scheduling.candidate_pool import Purchase

TOGETHER = 10.0  # seconds of all workers within which the order of jobs does not matter


@dataclass
class Basket:
    """The choices of one dispatch so far, and the budget left for more."""

    slots: int
    left: float
    budget: BudgetTracker
    choices: dict[int, Choice]
    """The choices so far, by candidate id."""

    @property
    def is_full(self) -> bool:
        return len(self.choices) >= self.slots

    def holds(self, position: Position, cost: float) -> bool:
        """Whether the budget suffices for a job of the rung. cost: share of the whole budget."""
        return cost <= self.left and self.budget.remaining_jobs(position) != 0

    def take(self, choice: Choice, cost: float) -> None:
        self.choices[choice.id] = choice
        self.left -= cost


def side_by_side(batch: list[Purchase], seconds: Array) -> list[Purchase]:
    """Returns the batch with purchases that start within the same `TOGETHER` seconds sorted by the candidates' rows.

    One transaction then writes to few pages of the ledger; in order of urgency it would write to nearly all.
    seconds: (k,) time that a job of each rung keeps all workers busy; infinite if unknown, and such a job keeps its
    place.
    """
    rung, of = np.array([(purchase.rung, purchase.of) for purchase in batch], dtype=np.intp).reshape(-1, 2).T
    lasts = np.where(np.isfinite(seconds), seconds, TOGETHER)
    spans = np.floor(lasts[rung].cumsum() / TOGETHER)
    return [batch[place] for place in np.lexsort((of, spans)).tolist()]
