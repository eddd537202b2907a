"""The intake of a campaign: asks the proposer for candidates when fewer than enough wait."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built
from sciagent.campaign.driving.session import DriverSession
from sciagent.campaign.proposing.sources import Source
from sciagent.store.database import tables as t
from sciagent.store.views import queries

PROPOSING = ("core_seconds", "llm_tokens")  # what a turn of the proposer takes, without a reservation


class Intake:
    """Takes turns from a campaign's proposer, within its budget."""

    starved: bool = False
    """The proposer could go on, but the budget leaves nothing for it."""
    holding: bool = False
    """The proposer waits for the first paid rung; dearer rungs wait with it."""
    is_asking: bool = False
    """More candidates are wanted, and the proposer was asked for them."""
    n_proposals: int
    """Proposals made so far, by the proposer and by people."""

    def __init__(self, source: Source, connection: Connection, campaign_id: int) -> None:
        self.source = source
        self._exhausted = False
        self._barren = 0  # turns in a row that brought nothing new
        self.recount(connection, campaign_id)

    def recount(self, connection: Connection, campaign_id: int) -> None:
        """Read how many proposals were made from the ledger, since people add some as well."""
        self.n_proposals = queries.count(connection, t.proposal, t.proposal.c.campaign_id == campaign_id)

    def propose(self, session: DriverSession) -> bool:
        """Take one turn of the proposer if fewer candidates than `ahead` wait; True if it brought anything new."""
        built, budget, purchasing = session.built, session.budget, session.purchasing
        self.holding = self.starved = self.is_asking = False
        limit = built.spec.proposer.batch
        if built.spec.budget.proposals is not None:
            limit = min(limit, built.spec.budget.proposals - self.n_proposals)
        if self._exhausted or limit <= 0:
            purchasing.come = 1.0
            return False
        if any(budget.room(resource) <= 0 for resource in PROPOSING):
            self.starved = True  # unless jobs that run give back some of what is held for them
            return False
        with built.ledger.read() as connection:
            purchasing.come = self._share_made(built)
            if purchasing.wants(connection, budget) >= built.ahead:
                return False
            self.holding = built.waits and purchasing.is_preparing(connection)
        return not self.holding and self._turn(limit, budget)

    def _share_made(self, built: Built) -> float | None:
        """The share of the proposals that were made; None where nobody knows how many there will be."""
        totals = (built.spec.budget.proposals, self.source.total)
        known = [total for total in totals if total is not None]
        return min(1.0, max(self.n_proposals, 1) / max(min(known), 1)) if known else None

    def _turn(self, limit: int, budget: BudgetTracker) -> bool:
        """The proposer's next turn; True if there was one."""
        self.is_asking = True
        if not self.source.prepare():
            return False
        taken = self.source.take(limit)
        if taken is None:
            self._exhausted = True
            return False
        budget.spend(taken.cost)
        self.n_proposals += taken.n_proposals
        self._barren = self._barren + 1 if taken.barren else 0
        self._exhausted = self._barren >= self.source.patience
        return True
