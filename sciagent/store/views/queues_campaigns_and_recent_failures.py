"""An overview of the ledger: queues, workers, running campaigns, latest attempts. All queries are bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.states_and_needs import AttemptState, CampaignState, JobState
from sciagent.store.campaign_state.campaigns import all_rungs
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue import workers_and_capacity
from sciagent.store.job_queue.jobs import JOBS_WITH_NAMES
from sciagent.store.views.campaign_counts_and_remarks import spent_by_rung

TIER_QUEUES = ("simulation", "high_fidelity")  # queues of the tiers, shown even without jobs and workers
MAX_ATTEMPTS_READ = 20_000  # number of newest attempts that are read
_J = t.job.c
_A = t.attempt.c


@dataclass(frozen=True)
class Queue:
    """A queue and its queued jobs."""

    queue: str
    depth: int
    """Number of queued jobs."""
    oldest: datetime | None
    """Time of the last change of the job that has waited longest."""
    slots: int
    """Number of slots that serve the queue."""


def queues(connection: Connection) -> list[Queue]:
    """Every queue of a tier, of a live worker or of a job."""
    slots = workers_and_capacity.slots_of(workers_and_capacity.alive(connection))
    names = dict.fromkeys([*TIER_QUEUES, *sorted(slots), *_queues_of_jobs(connection)])
    query = sa.select(_J.queue, sa.func.count(), sa.func.min(_J.updated_at))
    query = query.where(_J.queue.in_(list(names)), _J.state == JobState.QUEUED).group_by(_J.queue)
    waiting = {queue: (depth, oldest) for queue, depth, oldest in connection.execute(query)}
    answer = []
    for name in names:
        depth, oldest = waiting.get(name, (0, None))
        answer.append(Queue(name, depth, oldest, slots.get(name, 0)))
    return answer


def _queues_of_jobs(connection: Connection, limit: int = 100) -> list[str]:
    """Names of the queues of all jobs. A query reads the next name from the index, however many jobs there are."""
    names: list[str] = []
    query = sa.select(sa.func.min(_J.queue)).where(_J.queue > "")
    while len(names) < limit:
        name = connection.execute(query).scalar_one()
        if name is None:  # no further queue
            break
        names.append(name)
        query = sa.select(sa.func.min(_J.queue)).where(_J.queue > name)
    return names


class DrivenCampaign(NamedTuple):
    """A campaign that is driven, or was driven lately."""

    id: int
    name: str
    state: str
    spec: dict[str, Any]
    wall_seconds: float
    """Time during which the campaign was driven."""


_DRIVEN_CAMPAIGNS = sa.select(*(t.campaign.c[name] for name in DrivenCampaign._fields))


def driven_campaigns(connection: Connection, limit: int = 50) -> list[DrivenCampaign]:
    """Campaigns that run or are paused, oldest first."""
    c = t.campaign.c
    # both values of `hosted`, since the index begins with it
    query = _DRIVEN_CAMPAIGNS.where(
        c.hosted.in_([True, False]), c.state.in_([CampaignState.RUNNING, CampaignState.PAUSED])
    )
    return [DrivenCampaign._make(row) for row in connection.execute(query.order_by(c.id).limit(limit))]


def recent_campaigns(connection: Connection, days: float = 7.0, limit: int = 100) -> list[DrivenCampaign]:
    """Campaigns that run, are paused, or have changed in the last `days`, newest first."""
    c = t.campaign.c
    live = c.state.in_([CampaignState.RUNNING, CampaignState.PAUSED])
    query = _DRIVEN_CAMPAIGNS.where(sa.or_(c.updated_at > db_now(connection) - timedelta(days=days), live))
    return [DrivenCampaign._make(row) for row in connection.execute(query.order_by(c.id.desc()).limit(limit))]


class CampaignLine(NamedTuple):
    """A campaign in the list of all."""

    id: int
    name: str
    state: str
    subject: str
    created_at: datetime
    updated_at: datetime


def campaigns_page(
    connection: Connection, *, among: Collection[int] | None = None, before: int | None = None, limit: int = 50
) -> list[CampaignLine]:
    """A page of campaigns, newest first. among: ids of campaigns that may be shown; None: all. before: the last id of
    the previous page; None for the first page."""
    c = t.campaign.c
    query = sa.select(c.id, c.name, c.state, c.spec, c.created_at, c.updated_at).order_by(c.id.desc()).limit(limit)
    if among is not None:
        query = query.where(c.id.in_(list(among)))
    if before is not None:
        query = query.where(c.id < before)
    return [
        CampaignLine(row.id, row.name, row.state, str(row.spec.get("subject", "")), row.created_at, row.updated_at)
        for row in connection.execute(query)
    ]


class Failure(NamedTuple):
    """An attempt that failed, was lost, or returned its result too late."""

    job_id: int
    campaign: str
    rung: str
    candidate: str
    state: str
    outcome: str | None
    reason: str | None
    detail: str
    worker: str
    """The owner of its lease."""
    at: datetime


class LatestResults(NamedTuple):
    """The results of the newest attempts."""

    per_minute: dict[int, float]
    """{campaign id: jobs done per minute}."""
    failures: list[Failure]
    """Newest first."""


def latest_results(
    connection: Connection, minutes: float = 5.0, failures: int = 8, window: int = MAX_ATTEMPTS_READ
) -> LatestResults:
    """Results of attempts that ended in the last `minutes`, among the newest `window` attempts.

    If all these attempts began within a shorter time, the jobs are divided by the shorter time.
    """
    now = db_now(connection)
    last_id = connection.execute(sa.select(sa.func.max(_A.id))).scalar_one() or 0
    oldest_start = sa.select(_A.started_at).where(_A.id > last_id - window).order_by(_A.id).limit(1)
    oldest = connection.execute(oldest_start).scalar_one_or_none() or now
    # attempts before the window may have ended in the last `minutes`, too, and are not read
    is_cut_short = last_id > window and oldest > now - timedelta(minutes=minutes)
    counted_minutes = (now - oldest).total_seconds() / 60 if is_cut_short else minutes
    counted_minutes = max(counted_minutes, 1 / 60)  # at least a second
    ended = sa.select(_A.campaign_id).where(
        _A.id > last_id - window,
        _A.ended_at > now - timedelta(minutes=minutes),
        _A.job_id.is_not(None),
        _A.state.in_((AttemptState.DONE, AttemptState.CANCELLED_LATE)),
    )
    # the order and the limit make SQLite read the newest ids, and not all of another index
    ended_in_window = ended.order_by(_A.id).limit(window).subquery()
    by_campaign = ended_in_window.c.campaign_id
    query = sa.select(by_campaign, sa.func.count()).group_by(by_campaign)
    rates = {campaign_id: n / counted_minutes for campaign_id, n in connection.execute(query)}
    return LatestResults(rates, _failures(connection, above=last_id - window, limit=failures))


def _failures(connection: Connection, above: int, limit: int) -> list[Failure]:
    """The newest failures among the attempts with an id above `above`."""
    failure_states = (AttemptState.FAILED, AttemptState.LOST, AttemptState.STALE)
    newest = sa.select(_A.id).where(_A.id > above, _A.job_id.is_not(None), _A.state.in_(failure_states))
    ids = list(connection.execute(newest.order_by(_A.id.desc()).limit(limit)).scalars())
    names = (t.campaign.c.name, t.rung.c.name, t.candidate.c.text)
    query = (
        sa.select(_J.id, *names, _A.state, _A.outcome, _A.reason, _A.detail, _A.owner, _A.ended_at)
        .select_from(JOBS_WITH_NAMES.join(t.attempt, _A.job_id == _J.id))
        .where(among(connection, _A.id, ids))
        .order_by(_A.ended_at.desc())
    )
    return [Failure._make(row) for row in connection.execute(query)]


class Totals(NamedTuple):
    """Counts and costs of a campaign from its beginning."""

    attempts: dict[tuple[str, str], int]
    """{(rung, outcome): number of attempts}; an attempt whose late result was refused counts as lost."""
    stale: dict[str, int]
    """{rung: number of refused late results}."""
    spent: dict[tuple[str, str], float]
    """{(rung, resource): amount}; the rung is empty for costs without a rung."""


def totals(connection: Connection, campaign_id: int) -> Totals:
    """Returns a campaign's totals. They are counted in indexes that hold all needed columns."""
    names = {rung.id: rung.name for rung in all_rungs(connection, campaign_id)}
    by = (_A.rung_id, _A.outcome)
    ended = sa.select(*by, sa.func.count()).where(_A.rung_id.in_(list(names)), _A.outcome.is_not(None)).group_by(*by)
    attempts = Counter({(names[rung_id], str(outcome)): n for rung_id, outcome, n in connection.execute(ended)})
    late = (_A.campaign_id == campaign_id, _A.state == AttemptState.STALE, _A.rung_id.is_not(None))
    stale = Counter[str]()
    for rung_id, outcome, n in connection.execute(sa.select(*by, sa.func.count()).where(*late).group_by(*by)):
        rung = names[rung_id]
        stale[rung] += n
        # the attempts were counted above under the outcome of the late result
        if outcome is not None and outcome != Outcome.LOST:
            attempts[rung, str(outcome)] -= n
            attempts[rung, str(Outcome.LOST)] += n
    spent = spent_by_rung(connection, campaign_id)
    spent_by_name = {}
    for (rung_id, resource), amount in spent.items():
        rung = "" if rung_id is None else names.get(rung_id, "")
        spent_by_name[rung, resource] = amount
    return Totals(attempts, stale, spent_by_name)
