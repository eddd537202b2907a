"""The rules by which a campaign ends: its goal is reached, its budget is spent, or no job is left."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from sciagent.campaign.driving.session import DriverSession
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.jobs.states import CampaignState, JobState
from sciagent.store.campaign_state import standings
from sciagent.store.job_queue import jobs

Ending = tuple[CampaignState, str]
ALL = 10**9  # no limit on the number of candidates to count


def reached(session: DriverSession) -> Ending | None:
    """Returns the ending if no more jobs may start, otherwise None."""
    built, budget, goal = session.built, session.budget, session.built.spec.goal
    if goal.kind == "hits" and goal.count is not None and session.hits >= goal.count:
        return CampaignState.FINISHED, f"{session.hits} hits; {goal.count} were asked for"
    if spent := budget.exhausted():
        return CampaignState.BUDGET_SPENT, spent
    # queued jobs were counted but not run because of a kill or crash
    if session.purchasing.ends_with_terminal() and not _queued(session, built.terminal):
        label, limit = built.rungs[built.terminal].spec.rung, built.limit_by_rung[built.terminal]
        return CampaignState.BUDGET_SPENT, f"all {limit} verifications of {label} are used"
    if built.paid and not any(budget.remaining_jobs(p) != 0 or _queued(session, p) for p in _paid(session)):
        # without this rule a search would go on proposing candidates that can no longer be verified
        with built.ledger.read() as connection:
            waiting = _waiting(connection, session)
        still = f"; {waiting} candidates still wait" if waiting else ""
        return CampaignState.BUDGET_SPENT, f"the budget by rung is used{still}"
    return None


def nothing_left(session: DriverSession, starved: bool, shortfall: str | None) -> Ending:
    """Returns the ending of a campaign in which no job runs or can start.

    starved: whether the proposer stopped for lack of budget. shortfall: message about a job that exceeds the budget.
    """
    with session.built.ledger.read() as connection:
        if starved or shortfall or jobs.queued(connection, session.built.row.id):
            later = session.budget.goes_on(session.built, connection)
            return CampaignState.BUDGET_SPENT, later or "what is left of the budget holds no further job" + (
                f": {shortfall}" if shortfall else ""
            )
        waiting = _waiting(connection, session)
    return session.purchasing.left_over(waiting) if waiting else (CampaignState.FINISHED, "nothing is left to do")


def _paid(session: DriverSession) -> list[Position]:
    return [rung.rules.position for rung in session.built.paid]


def _waiting(connection: Connection, session: DriverSession) -> int:
    """Returns the number of candidates that wait for a paid rung."""
    return standings.count_at(connection, session.built.row.id, _paid(session), ALL)


def _queued(session: DriverSession, position: Position) -> bool:
    with session.built.ledger.read() as connection:
        return jobs.any_in_state(connection, JobState.QUEUED, rung_id=session.built.rungs[position].id)
