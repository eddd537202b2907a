"""The state of a driver: the built campaign, the lease, the budget and the scheduler."""

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
from sciagent.store.views import campaign_counts

if TYPE_CHECKING:
    from sciagent.campaign.driving.crew import Crew

INTERRUPTED = (CampaignState.INTERRUPTED, "interrupted")
"""The ending of a campaign that a signal stopped, not a directive."""


class DriverSession:
    """The state of one driver of a campaign. `open` sets the parts that are read from the ledger."""

    built: Built
    lease: DriverLease
    budget: BudgetTracker
    purchasing: Purchasing
    hits: int
    """Number of hits; kept up to date if the goal counts hits."""
    crews: tuple[Crew, ...] = ()
    """The crews that run jobs; the first one takes new jobs."""

    def __init__(self, built: Built) -> None:
        self.built = built
        self.owner = campaigns.new_owner()
        self.stopping, self.aborting = threading.Event(), threading.Event()
        self.stop_reason = INTERRUPTED[1]

    def open(self, connection: Connection) -> None:
        """Reads budget, scheduler state and hits from the ledger."""
        self.budget = BudgetTracker(self.built, connection)
        self.purchasing = purchasing_of(self.built, connection, self.budget)
        self.count_hits(connection)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Opens a transaction of the driver. Raises StaleLeaseError if another process drives the campaign now."""
        with self.built.ledger.begin() as connection:
            campaigns.check_driver(connection, self.lease)
            yield connection

    def amend(self, built: Built, connection: Connection) -> None:
        """Adopts the amended campaign."""
        self.built = built
        self.budget.refresh(built, connection)
        self.purchasing = purchasing_of(built, connection, self.budget)

    def recount(self, connection: Connection) -> None:
        """Reads budget and reservations again after another process has written to the ledger."""
        self.budget.refresh(self.built, connection)
        for crew in self.crews:
            crew.recount(connection)

    def count_hits(self, connection: Connection) -> None:
        self.hits = campaign_counts.hits(connection, self.built.row.id)

    def log(self, connection: Connection, event: str, **payload: object) -> None:
        """Records an event of the campaign."""
        campaigns.log_event(connection, self.built.row.id, event, payload)

    def request_stop(self, reason: str = INTERRUPTED[1]) -> None:
        """Stops starting jobs; running jobs may finish. May be called from any thread."""
        self.stop_reason = reason
        self.stopping.set()

    def abort(self) -> None:
        """Ends running jobs at once; they run again when the campaign is resumed. May be called from any thread."""
        self.stopping.set()
        self.aborting.set()
