"""The interface between a campaign's driver and its scheduler: `Purchasing` turns purchases into choices.

A purchase is what a rule of `sciagent.scheduling` wants, a row of its arrays and a rung; a choice names the candidate,
the rung and the reason for the driver.

`Blocked` says which limit a purchase exceeds. `Basket` holds the choices of one dispatch. `in_order_of_start` puts a
batch of purchases into the order in which their jobs start. Only a part of the budget is released at first; more is
released as candidates come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.pricing.observation_schema_and_ledger_pool import LedgerPool
from sciagent.domain.proposer_interfaces import Choice
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import CampaignState
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.candidate_pool import Purchase


class BlockedBy(StrEnum):
    """The limit that a worthwhile purchase exceeds."""

    SLICE = "slice"  # the share of the budget that is released so far; more candidates release more
    BUDGET = "budget"  # what is left of the whole budget
    PLACES = "places"  # the number of jobs that its rung may start


@dataclass(frozen=True)
class Blocked:
    """A worthwhile purchase that a choice left out."""

    by: BlockedBy
    words: str
    """The amount that it would take, and the amount that is left."""


class Purchasing(ABC):
    """The source of choices for one campaign; the driver calls it at every dispatch."""

    reorders: ClassVar[bool] = False
    """Whether answers change the order of tasks that are on the list already."""

    def __init__(self, pool: LedgerPool, budget: BudgetTracker) -> None:
        self.pool = pool
        """The candidates of the campaign."""
        self.budget = budget
        self.proposed_share: float | None = None
        """Share of all proposals made so far, in [0, 1]; None if their total is unknown."""
        self.blocked: Blocked | None = None
        """A worthwhile purchase that the last call of `choose` left out; None if there is none. One that is blocked by
        `SLICE` goes before others, since it helps there to propose more candidates."""

    @abstractmethod
    def choose(
        self, connection: Connection, slots: int, first_only: bool, places: Set[Position], put_off: Set[int]
    ) -> list[Choice]:
        """Returns at most `slots` choices, most urgent first.

        first_only: only rungs that every candidate gets. places: positions of rungs with a place for a job. put_off:
        ids of candidates to skip, whose reservation exceeds the budget.
        """

    def reorder(self, connection: Connection, tasks: Mapping[int, Position]) -> dict[int, Choice] | None:
        """Returns the choices of the tasks that are still among the most urgent purchases, by candidate id; None if the
        tasks keep their order. tasks: {candidate id: position of the rung} of tasks that nobody has begun."""
        return None

    def note_withdrawn(self, connection: Connection, candidate_ids: Iterable[int]) -> None:
        """Takes note that tasks were withdrawn after `reorder`; their candidates are open again."""
        return None

    def write_chances(self, connection: Connection) -> None:
        """Brings the stored chances of open candidates up to date, before the driver of the campaign ends."""
        return None

    @abstractmethod
    def take_back(self, unplaced: Iterable[Choice], refused: Iterable[Choice]) -> None:
        """Takes back choices that were not started. unplaced: no worker could take the job now. refused: the
        reservation exceeds the budget."""

    @abstractmethod
    def wants(self, connection: Connection, is_idle: bool = False) -> int:
        """Returns the number of candidates that wait for an answer; if it is low, more candidates are proposed.

        is_idle: whether no job runs and none could start, so that nobody should wait for answers."""

    @abstractmethod
    def is_preparing(self, connection: Connection) -> bool:
        """Whether a candidate still lacks the answer of a rung that every candidate gets."""

    @abstractmethod
    def ends_with_terminal(self) -> bool:
        """Whether the campaign is over because the terminal rung may start no more jobs."""

    @abstractmethod
    def left_over(self, n: int) -> tuple[CampaignState, str]:
        """Returns the final state, and its reason, of a campaign that buys nothing more although n candidates wait."""


SECONDS_TOGETHER = 10.0  # seconds of all workers within which the order of jobs does not matter


@dataclass
class Basket:
    """The choices of one dispatch so far, and the budget left for more."""

    slots: int
    """Largest number of choices."""
    left: float
    """Share of the whole budget that is left for more choices."""
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


def in_order_of_start(batch: list[Purchase], seconds: Array) -> list[Purchase]:
    """Returns the batch, in which purchases that start within the same `SECONDS_TOGETHER` are sorted by their rows.

    One transaction then writes to few pages of the ledger; in order of urgency it would write to nearly all. seconds:
    (k,) time that a job of each rung keeps all workers busy; infinite if unknown: such a job keeps its place.
    """
    rungs = np.array([purchase.rung for purchase in batch], dtype=np.intp)
    rows = np.array([purchase.row for purchase in batch], dtype=np.intp)
    # a job of unknown time fills a period of its own, so that it keeps its place
    seconds_of_rung = np.where(np.isfinite(seconds), seconds, SECONDS_TOGETHER)
    periods = np.floor(seconds_of_rung[rungs].cumsum() / SECONDS_TOGETHER)
    order = np.lexsort((rows, periods)).tolist()
    return [batch[place] for place in order]
