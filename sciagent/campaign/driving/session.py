"""What a driver works with: the campaign's parts, its lease, its budget and its scheduler."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built
from sciagent.campaign.pricing.purchasing import Purchasing, purchasing_of
from sciagent.domain.jobs.states import CampaignState
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.store.views import queries

if TYPE_CHECKING:
    from sciagent.campaign.driving.crew import Crew

INTERRUPTED = (CampaignState.INTERRUPTED, "interrupted")
"""How a campaign ends that a signal stopped, and no directive."""


class DriverSession:
    """One driver's hold on a campaign. `open` sets the parts that are read from the ledger."""

    built: Built
    lease: DriverLease
    budget: BudgetTracker
    purchasing: Purchasing
    hits: int
    """Hits so far; kept up to date where the goal counts them."""
    crews: tuple[Crew, ...] = ()
    """Those who run jobs; the first takes new ones."""

    def __init__(self, built: Built) -> None:
        self.built = built
        self.owner = campaigns.new_owner()
        self.stopping, self.aborting = threading.Event(), threading.Event()
        self.stop_reason = INTERRUPTED[1]

    def open(self, connection: Connection) -> None:
        """Read budget, scheduler and hits."""
        self.budget = BudgetTracker(self.built, connection)
        self.purchasing = purchasing_of(self.built, connection)
        self.count_hits(connection)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction of the campaign's driver. Raises StaleLeaseError if another process drives it now."""
        with self.built.ledger.begin() as connection:
            campaigns.check_driver(connection, self.lease)
            yield connection

    def amend(self, built: Built, connection: Connection) -> None:
        """Go on with the campaign as it was amended."""
        self.built = built
        self.budget.refresh(built, connection)
        self.purchasing = purchasing_of(built, connection)

    def recount(self, connection: Connection) -> None:
        """Read budget and reservations from the ledger again, since others have written there."""
        self.budget.refresh(self.built, connection)
        for crew in self.crews:
            crew.recount(connection)

    def count_hits(self, connection: Connection) -> None:
        self.hits = queries.hits(connection, self.built.row.id)

    def log(self, connection: Connection, event: str, **payload: object) -> None:
        """Record an event of the campaign."""
        campaigns.log_event(connection, self.built.row.id, event, payload)

    def request_stop(self, reason: str = INTERRUPTED[1]) -> None:
        """Start nothing more; running jobs may finish. From any thread."""
        self.stop_reason = reason
        self.stopping.set()

    def abort(self) -> None:
        """Kill running jobs; they are run again when the campaign is resumed. From any thread."""
        self.stopping.set()
        self.aborting.set()
