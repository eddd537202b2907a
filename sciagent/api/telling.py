"""What a campaign that runs in another process is told."""

from __future__ import annotations

from sciagent.domain.campaigns.directives import Verb
from sciagent.domain.jobs.states import CampaignState
from sciagent.errors import UsageError
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.database.ledger import Ledger


def wake(store: Ledger, name: str, who: str) -> str | None:
    """Tell a driver that was paused to go on; where it is, or None if no driver is paused."""
    with store.begin() as connection:
        row = campaigns.get(connection, name)
        driver = campaigns.driver_of(connection, row.id) if row.state is CampaignState.PAUSED else None
        if driver is None or not driver.alive:
            return None
        directives.write(connection, row.id, Verb.RESUME, who, "")
    return f"{driver.host} (process {driver.pid})"


def stop(store: Ledger, name: str, who: str, reason: str, now: bool) -> None:
    """Tell the driver to stop. now: to kill what runs. Raises UsageError where nobody drives it."""
    with store.begin() as connection:
        row = campaigns.get(connection, name)
        driver = campaigns.driver_of(connection, row.id)
        if driver is None or not driver.alive:
            raise UsageError(f'campaign "{name}" is not running ({row.state}): there is nothing to stop')
        directives.write(connection, row.id, Verb.STOP, who, reason, payload={"now": now})
