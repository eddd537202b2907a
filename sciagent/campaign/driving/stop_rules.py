"""Why a campaign ends: its goal is reached, its budget is spent, or nothing is left to do."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built
from sciagent.campaign.pricing.purchasing import Purchasing
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.jobs.states import CampaignState, JobState
from sciagent.store.campaign_state import standings
from sciagent.store.job_queue import jobs

Ending = tuple[CampaignState, str]
ALL = 10**9  # candidates


def reached(built: Built, purse: BudgetTracker, hits: int, purchasing: Purchasing) -> Ending | None:
    """Why nothing more shall be started, or None."""
    goal = built.spec.goal
    if goal.kind == "hits" and goal.count is not None and hits >= goal.count:
        return CampaignState.FINISHED, f"{hits} hits; {goal.count} were asked for"
    if spent := purse.exhausted():
        return CampaignState.BUDGET_SPENT, spent
    if (
        purchasing.ends_with_terminal(purse)
        and not _queued(built, built.terminal)  # places taken before a kill or a crash, and not used yet
    ):
        label, limit = built.rungs[built.terminal].spec.rung, built.limit_by_rung[built.terminal]
        return CampaignState.BUDGET_SPENT, f"all {limit} verifications of {label} are used"
    positions = _paid(built)
    if positions and not any(purse.remaining_jobs(one) != 0 or _queued(built, one) for one in positions):
        # else a search would go on proposing what nobody can verify any more
        with built.ledger.read() as connection:
            waiting = _waiting(connection, built)
        still = f"; {waiting} candidates still wait" if waiting else ""
        return CampaignState.BUDGET_SPENT, f"the budget by rung is used{still}"
    return None


def nothing_left(
    built: Built, purse: BudgetTracker, starved: bool, shortfall: str | None, purchasing: Purchasing
) -> Ending:
    """Nothing runs and nothing can be started: because all is done, or because the budget does not hold it.

    held_up: something could go on, if the budget held it.
    """
    with built.ledger.read() as connection:
        if starved or shortfall or jobs.queued(connection, built.row.id):
            later = purse.goes_on(built, connection)
            return CampaignState.BUDGET_SPENT, later or "what is left of the budget holds no further job" + (
                f": {shortfall}" if shortfall else ""
            )
        waiting = _waiting(connection, built)
    return purchasing.left_over(waiting) if waiting else (CampaignState.FINISHED, "nothing is left to do")


def _paid(built: Built) -> Sequence[Position]:
    return [rung.rules.position for rung in built.paid]


def _waiting(connection: Connection, built: Built) -> int:
    """Candidates that wait for a paid rung."""
    return standings.count_at(connection, built.row.id, _paid(built), ALL)


def _queued(built: Built, position: Position) -> bool:
    with built.ledger.read() as connection:
        return jobs.any_in_state(connection, JobState.QUEUED, rung_id=built.rungs[position].id)
