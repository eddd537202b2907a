"""Tasks that are with people: their order, which is made again at most once a day, and the end of their campaign.

Tasks that nobody has begun get a new priority, and those that others have overtaken are withdrawn.

Only the scheduler `priced` learns what changes their order. A task stays as it is once a person has acted on it: it was
promoted or approved, has a vial, or another measurement of its candidate is claimed or answered. So does one that the
audit has drawn, since a draw is not taken back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from datetime import timedelta

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.core.record import settle_again
from sciagent.campaign.driving.session import DriverSession, Ending
from sciagent.domain.ladder import Position
from sciagent.domain.ports import Choice
from sciagent.domain.states import CampaignState
from sciagent.scheduling.in_flight import RECENT, enough
from sciagent.store.campaign_state import campaigns, standings
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import jobs
from sciagent.store.lab import tasks
from sciagent.store.lab.tasks import Untouched
from sciagent.store.views import campaign_counts

EVERY = timedelta(days=1)
REPRICED = "repriced"
OVERTAKEN = "others promise more by what was answered since"
SPARE = "the others that are out are likely to bring the hits that are still asked for"


def reprice(connection: Connection, session: DriverSession) -> None:
    """Orders the campaign's list again if the last time is a day ago. Call it with the driver's lease, when the
    scheduler is open."""
    built = session.built
    if not built.asked or not _is_due(connection, built.row.id):
        return
    position = {rung.id: rung.rules.position for rung in built.asked}
    untouched = [task for task in tasks.untouched(connection, built.row.id) if task.rung_id in position]
    listed = {task.candidate_id: position[task.rung_id] for task in untouched}
    if not listed:
        return
    kept = session.purchasing.reorder(connection, listed)
    if kept is None:
        return
    spare = _spare(connection, session, listed, kept)
    kept = {id_: choice for id_, choice in kept.items() if id_ not in spare}
    for task in untouched:
        if task.candidate_id in kept:
            jobs.prefer(connection, task.id, kept[task.candidate_id].index)
    _decide(connection, session, untouched, kept, spare)
    withdrawn = _withdraw(connection, session, untouched, kept)
    session.log(connection, REPRICED, tasks=len(listed), withdrawn=withdrawn)


def _withdraw(
    connection: Connection, session: DriverSession, untouched: Sequence[Untouched], kept: Mapping[int, Choice]
) -> int:
    """Takes the tasks that are not kept off the list; returns the number of their candidates."""
    gone = [task for task in untouched if task.candidate_id not in kept]
    jobs.cancel_queued(connection, [task.id for task in gone])
    withdrawn = sorted({task.candidate_id for task in gone})
    for candidate_id in withdrawn:
        settle_again(connection, session.built, candidate_id)
    session.purchasing.withdrew(connection, withdrawn)
    session.budget.refresh(session.built, connection)
    return len(withdrawn)


def needed(connection: Connection, session: DriverSession, out: int) -> float:
    """Returns how many more tasks of the terminal rung are likely to bring the hits that the goal lacks.

    out: number of candidates with such a task. Each counts with the share of hits among the latest answers.
    """
    built, goal = session.built, session.built.spec.goal
    if goal.kind != "hits" or not goal.count:
        return math.inf
    latest = campaign_counts.latest_hits(connection, built.row.id, built.terminal, RECENT)
    return max(0, enough(goal.count, session.hits, latest) - out)


def _spare(
    connection: Connection, session: DriverSession, listed: Mapping[int, Position], kept: Mapping[int, Choice]
) -> set[int]:
    """Returns the candidates of the least urgent tasks of the terminal rung that the goal is not likely to need."""
    terminal = session.built.terminal
    here = sorted((id_ for id_ in kept if listed[id_] == terminal), key=lambda id_: -kept[id_].index)
    if not here:
        return set()
    all_here = tasks.open_candidates(connection, session.built.rungs[terminal].id)
    out = sum(listed.get(id_) != terminal for id_ in all_here)
    most = needed(connection, session, out)
    return set(here[int(min(most, len(here))) :])


def _is_due(connection: Connection, campaign_id: int) -> bool:
    last = campaigns.last_event(connection, campaign_id, REPRICED)
    return last is None or db_now(connection) - last >= EVERY


def _decide(
    connection: Connection,
    session: DriverSession,
    untouched: list[Untouched],
    kept: Mapping[int, Choice],
    spare: Set[int],
) -> None:
    """Records a decision for each candidate, so that its page and the list say why it is there, or is not any more."""
    kind = session.built.spec.scheduler.kind
    rung_of = {task.candidate_id: task.rung_id for task in untouched}
    decisions = []
    for candidate_id, rung_id in rung_of.items():
        choice = kept.get(candidate_id)
        decisions.append(
            {
                "candidate_id": candidate_id,
                "rung_id": rung_id,
                "action": "withdraw" if choice is None else "reprice",
                "chooser": kind,
                "why": f"{kind}: {SPARE if candidate_id in spare else OVERTAKEN}" if choice is None else choice.why,
                "propensity": 1.0,
                "index": None if choice is None else choice.index,
                "law_version": None if choice is None else choice.law,
                "price": None if choice is None else choice.price,
            }
        )
    standings.decide(connection, session.built.row.id, decisions)


def wake_again(connection: Connection, session: DriverSession, state: CampaignState) -> None:
    """Lets a dispatcher look at a campaign that waits for people after a day, if its list may then change."""
    built = session.built
    if state is CampaignState.WAITING and session.purchasing.reorders and tasks.untouched(connection, built.row.id):
        campaigns.wake(connection, built.row.id, db_now(connection) + EVERY)


def with_people(connection: Connection, session: DriverSession, ending: Ending) -> Ending:
    """Returns `waiting` in place of an end while people have tasks. A reached goal ends the campaign; tasks that nobody
    has claimed are then taken off the list. A model that failed is asked again after the next answer of people."""
    built, (state, why) = session.built, ending
    if not built.asked or state not in (CampaignState.FINISHED, CampaignState.BUDGET_SPENT, CampaignState.FAILED):
        return ending
    if session.is_goal_reached:
        withdraw(connection, built)
        return ending
    if not tasks.open_by_rung(connection, built.row.id):
        return ending
    return CampaignState.WAITING, f"for people; {why}" if state is CampaignState.FAILED else "for people"


def withdraw(connection: Connection, built: Built) -> None:
    """Cancels all tasks that nobody has claimed."""
    waiting = tasks.unclaimed(connection, built.row.id)
    jobs.cancel_queued(connection, list(waiting))
    for candidate_id in sorted(set(waiting.values())):
        settle_again(connection, built, candidate_id)
