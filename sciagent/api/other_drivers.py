"""Instructs drivers in other processes to pause, stop or resume, and describes the driver of a campaign."""

from __future__ import annotations

from sciagent.domain.answers.status import DriverState
from sciagent.domain.directives import Verb
from sciagent.domain.states import AttemptState, CampaignState
from sciagent.errors import UsageError
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts


def tell(
    store: Ledger, name: str, verb: Verb, who: str, reason: str, now: bool = False
) -> tuple[DriverState | None, int]:
    """Instructs the driver of a campaign to pause or stop. now: kill running jobs.

    Returns the driver and the number of the campaign's running attempts. If no driver runs but a dispatcher would start
    one, or the campaign waits for people and is to pause, the campaign is withdrawn from the dispatcher, and the answer
    is (None, 0). Raises UsageError if the campaign has no driver, or is already paused.
    """
    why = directives.reason(reason) if reason else ""
    with store.begin() as connection:
        row = campaigns.get(connection, name)
        driver = campaigns.driver_of(connection, row.id)
        if verb is Verb.PAUSE and row.state is CampaignState.PAUSED:
            raise UsageError(f'campaign "{name}" is paused already; go on with: sciagent resume {name}')
        if driver is None or not driver.alive:
            if verb is Verb.PAUSE and row.state is CampaignState.WAITING:
                directives.write(connection, row.id, verb, who, why)
                campaigns.host(connection, row.id, False)
                shown = f"paused {directives.author_and_reason(who, why)}"
                campaigns.set_state(connection, row.id, CampaignState.PAUSED, shown)
                campaigns.log_event(connection, row.id, CampaignState.PAUSED, {"who": who, "why": why})
                return None, 0
            if verb is Verb.STOP and campaigns.host(connection, row.id, False):
                return None, 0
            gone = f"; its driver on {driver.host} is gone" if driver is not None else ""
            raise UsageError(f'campaign "{name}" is not running ({row.state}{gone}): there is nothing to {verb}')
        directives.write(connection, row.id, verb, who, why, payload={"now": True} if now else None)
        a = t.attempt.c
        running = (a.campaign_id == row.id, a.state == AttemptState.RUNNING)
        return driver, campaign_counts.count(connection, t.attempt, *running)


def wake(store: Ledger, name: str, who: str) -> str | None:
    """Instructs a paused driver to continue. Returns its host and process, or None if no driver is paused."""
    with store.begin() as connection:
        row = campaigns.get(connection, name)
        driver = campaigns.driver_of(connection, row.id) if row.state is CampaignState.PAUSED else None
        if driver is None or not driver.alive:
            return None
        directives.write(connection, row.id, Verb.RESUME, who, "")
    return f"{driver.host} (process {driver.pid})"


def hand_in(store: Ledger, name: str, who: str) -> None:
    """Hands a campaign to the dispatcher, which drives it when one is at work."""
    with store.begin() as connection:
        row = campaigns.get(connection, name)
        campaigns.host(connection, row.id, True)
        campaigns.log_event(connection, row.id, "submitted", {"who": str(who)})


def driver_line(store: Ledger, name: str) -> str:
    """Returns a sentence on the driver that will act on a person's decision, and when."""
    with store.read() as connection:
        row = campaigns.get(connection, name)
        driver = campaigns.driver_of(connection, row.id)
    if driver is not None and driver.alive:
        return f"the driver at {driver.host} (process {driver.pid}) takes it up at its next step"
    return f'campaign "{name}" is not running ({row.state}); it counts from the next: sciagent resume {name}'
