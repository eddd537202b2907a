"""The intake of a campaign: asks the proposer for candidates when too few are waiting."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built
from sciagent.campaign.driving.session import DriverSession
from sciagent.campaign.proposing.sources import Source
from sciagent.store.database import tables as t
from sciagent.store.views import campaign_counts

PROPOSING = ("core_seconds", "llm_tokens")  # resources that a turn of the proposer spends without a reservation


class Intake:
    """Runs turns of a campaign's proposer within the budget."""

    starved: bool = False
    """Whether the proposer could continue but the budget leaves nothing for it."""
    holding: bool = False
    """Whether the proposer waits for the first paid rung; more expensive rungs then wait too."""
    is_asking: bool = False
    """Whether the proposer was asked for more candidates."""
    n_proposals: int
    """Number of proposals so far, by the proposer and by people."""

    def __init__(self, source: Source, connection: Connection, campaign_id: int) -> None:
        self.source = source
        self._exhausted = False
        self._barren = 0  # number of successive turns without a new candidate
        self.recount(connection, campaign_id)

    def recount(self, connection: Connection, campaign_id: int) -> None:
        """Counts the proposals in the ledger again, since people add proposals as well."""
        self.n_proposals = campaign_counts.count(connection, t.proposal, t.proposal.c.campaign_id == campaign_id)

    def propose(self, session: DriverSession) -> bool:
        """Runs one turn of the proposer if fewer candidates than `built.ahead` wait; returns True if there was one."""
        built, budget, purchasing = session.built, session.budget, session.purchasing
        self.holding = self.starved = self.is_asking = False
        limit = built.spec.proposer.batch
        if built.spec.budget.proposals is not None:
            limit = min(limit, built.spec.budget.proposals - self.n_proposals)
        if built.spec.budget.verifications is not None and built.decides_at_once:
            with built.ledger.read() as connection:  # each proposal may be verified within the turn
                limit = min(limit, session.verifications_left(connection) or 0)
        if self._exhausted or limit <= 0:
            purchasing.come = 1.0
            return False
        if any(budget.room(resource) <= 0 for resource in PROPOSING):
            self.starved = True  # running jobs may still give back a part of their reservations
            return False
        with built.ledger.read() as connection:
            purchasing.come = self._share_made(built)
            if purchasing.wants(connection) >= built.ahead:
                return False
            self.holding = built.waits and purchasing.is_preparing(connection)
        return not self.holding and self._turn(limit, budget)

    def _share_made(self, built: Built) -> float | None:
        """Returns the share of all proposals that were made so far; None if their total is unknown."""
        totals = (built.spec.budget.proposals, self.source.total)
        known = [total for total in totals if total is not None]
        return min(1.0, max(self.n_proposals, 1) / max(min(known), 1)) if known else None

    def _turn(self, limit: int, budget: BudgetTracker) -> bool:
        """Runs the proposer's next turn; returns True if there was one."""
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
