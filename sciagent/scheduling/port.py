"""The port of every scheduler: what is known of the candidates goes in, purchases come out."""

from __future__ import annotations

from typing import Protocol

from sciagent.domain.valuation import Valuation
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase


class Buyer(Protocol):
    """Decides which candidate gets which rung next. A campaign and the bench run the same object."""

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """The next purchases, most urgent first; none where it is done with the candidates that are there.

        left: what may still be spent, in the unit of the pool's costs.
        """


class Scheduler(Buyer, Protocol):
    """A buyer that a campaign can name in its YAML."""

    name: str

    def for_everyone(self, pool: CandidatePool, left: float) -> list[Purchase]:
        """Purchases of the rungs that every candidate gets before the dearer ones, most urgent first."""

    def valuation(self, pool: CandidatePool, row: int) -> Valuation | None:
        """What a candidate is worth, as of the last choice; None where the scheduler values none."""
