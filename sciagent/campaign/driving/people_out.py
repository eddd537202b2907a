"""The end of a campaign that has tasks with people: it waits for them, or takes them off the list."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.core.record import settle_again
from sciagent.campaign.driving.session import DriverSession, Ending
from sciagent.domain.jobs.states import CampaignState
from sciagent.store.job_queue import jobs
from sciagent.store.lab import tasks


def with_people(connection: Connection, session: DriverSession, ending: Ending) -> Ending:
    """Returns `waiting` in place of an end while people have tasks. A reached goal ends the campaign; tasks that nobody
    has claimed are then taken off the list."""
    built, state = session.built, ending[0]
    if not built.asked or state not in (CampaignState.FINISHED, CampaignState.BUDGET_SPENT):
        return ending
    if session.is_goal_reached:
        withdraw(connection, built)
        return ending
    return (CampaignState.WAITING, "for people") if tasks.open_by_rung(connection, built.row.id) else ending


def withdraw(connection: Connection, built: Built) -> None:
    """Cancels all tasks that nobody has claimed."""
    waiting = tasks.unclaimed(connection, built.row.id)
    jobs.cancel_queued(connection, list(waiting))
    for candidate_id in sorted(set(waiting.values())):
        settle_again(connection, built, candidate_id)
