"""The whole ledger at a glance: queues, workers, campaigns that run, what ended lately. Every question is bounded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.jobs.states import AttemptState, CampaignState, JobState
from sciagent.domain.outcomes import Outcome
from sciagent.store.campaign_state.campaigns import rungs
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import workers
from sciagent.store.job_queue.workers import WorkerRow

QUEUES = ("simulation", "high_fidelity")  # those of the tiers, shown even where nothing has to do with them
LATELY = timedelta(days=1)
WINDOW = 20_000  # of the newest attempts are looked at
_J = t.job.c
_A = t.attempt.c


@dataclass(frozen=True)
class Queue:
    """depth: jobs that wait; oldest: since when the one that waits longest is in its state; slots: that serve it."""

    queue: str
    depth: int
    oldest: datetime | None
    slots: int


def queues(connection: Connection) -> list[Queue]:
    """Every queue that has a job waiting, or a worker, or the name of a tier."""
    slots = workers.slots_of(workers.alive(connection))
    names = dict.fromkeys([*QUEUES, *sorted(slots), *_names(connection)])
    depths = workers.depths(connection, list(names))
    found = []
    for name in names:
        oldest = None
        if depths.get(name):
            query = sa.select(sa.func.min(_J.updated_at)).where(_J.queue == name, _J.state == JobState.QUEUED)
            oldest = connection.execute(query).scalar_one()
        found.append(Queue(name, depths.get(name, 0), oldest, slots.get(name, 0)))
    return found


def _names(connection: Connection, limit: int = 100) -> list[str]:
    """Names that any job has: one step in the index for each, however many jobs there are."""
    found: list[str] = []
    query = sa.select(sa.func.min(_J.queue)).where(_J.queue > "")
    while (name := connection.execute(query).scalar_one()) is not None and len(found) < limit:
        found.append(str(name))
        query = sa.select(sa.func.min(_J.queue)).where(_J.queue > name)
    return found


def workers_of_late(connection: Connection, limit: int = 200) -> list[WorkerRow]:
    """Those that were heard of in the last day, alive or not, oldest first."""
    w = t.worker.c
    columns = [w[name] for name in WorkerRow.__dataclass_fields__]
    query = sa.select(*columns, w.id).where(w.until > db_now(connection) - LATELY).order_by(w.until.desc()).limit(limit)
    return workers.in_order(connection.execute(query).mappings())


@dataclass(frozen=True)
class Going:
    """A campaign that is driven, or was lately. wall_seconds: driven so far."""

    id: int
    name: str
    state: str
    spec: dict[str, Any]
    wall_seconds: float


def going(connection: Connection, limit: int = 50) -> list[Going]:
    """Campaigns that run or are paused, oldest first."""
    c = t.campaign.c
    query = sa.select(c.id, c.name, c.state, c.spec, c.wall_seconds).where(
        c.hosted.in_([True, False]), c.state.in_([CampaignState.RUNNING, CampaignState.PAUSED])
    )  # both values of `hosted`, for the index begins with it
    return [Going(*row) for row in connection.execute(query.order_by(c.id).limit(limit)).all()]


@dataclass(frozen=True)
class Failure:
    """An attempt that ended badly. worker: who ran it."""

    job_id: int
    campaign: str
    rung: str
    candidate: str
    state: str
    outcome: str | None
    reason: str | None
    detail: str
    worker: str
    at: datetime


@dataclass(frozen=True)
class Lately:
    """What came of the newest attempts. per_minute: jobs done, by campaign id; failures: the newest first."""

    per_minute: dict[int, float]
    failures: list[Failure]


def lately(connection: Connection, minutes: float = 5.0, failures: int = 8, window: int = WINDOW) -> Lately:
    """Attempts that ended in the last minutes, among the last `window` of them. If there were more, the rate is that of
    the time which the window holds."""
    now = db_now(connection)
    last = connection.execute(sa.select(sa.func.max(_A.id))).scalar_one() or 0
    first = sa.select(_A.started_at).where(_A.id > last - window).order_by(_A.id).limit(1)
    oldest = connection.execute(first).scalar_one_or_none() or now
    full = last > window and oldest > now - timedelta(minutes=minutes)
    passed = (now - oldest).total_seconds() / 60 if full else minutes
    done = (AttemptState.DONE, AttemptState.CANCELLED_LATE)
    ended = sa.select(_A.campaign_id).where(
        _A.id > last - window,
        _A.ended_at > now - timedelta(minutes=minutes),
        _A.job_id.is_not(None),
        _A.state.in_(done),
    )
    some = ended.order_by(_A.id).limit(window).subquery()  # in order, else SQLite reads the whole of another index
    query = sa.select(some.c.campaign_id, sa.func.count()).group_by(some.c.campaign_id)
    rates = {int(id_): int(n) / max(passed, 1 / 60) for id_, n in connection.execute(query).all()}
    return Lately(rates, _failures(connection, last - window, failures))


def _failures(connection: Connection, above: int, limit: int) -> list[Failure]:
    bad = (AttemptState.FAILED, AttemptState.LOST, AttemptState.STALE)
    newest = sa.select(_A.id).where(_A.id > above, _A.job_id.is_not(None), _A.state.in_(bad))
    ids = [int(one) for one in connection.execute(newest.order_by(_A.id.desc()).limit(limit)).scalars()]
    query = (
        sa.select(
            _J.id, t.campaign.c.name, t.rung.c.name, t.candidate.c.text, _A.state, _A.outcome, _A.reason, _A.detail,
            _A.owner, _A.ended_at,
        )
        .select_from(
            t.attempt.join(t.job, _J.id == _A.job_id).join(t.campaign, t.campaign.c.id == _J.campaign_id)
            .join(t.rung, t.rung.c.id == _J.rung_id).join(t.candidate, t.candidate.c.id == _J.candidate_id)
        )
        .where(among(connection, _A.id, ids)).order_by(_A.ended_at.desc())
    )  # fmt: skip
    found: list[tuple[Any, ...]] = [tuple(row) for row in connection.execute(query).all()] if ids else []
    return [Failure(*row) for row in found]


@dataclass(frozen=True)
class Totals:
    """What a campaign has come to. attempts: ended, by rung and outcome; an attempt whose result came too late counts
    as lost for ever, for so it was counted before. stale: how many of those there are, by rung. spent: by rung (empty
    for none) and resource."""

    attempts: dict[tuple[str, str], int]
    stale: dict[str, int]
    spent: dict[tuple[str, str], float]


def recent(connection: Connection, days: float = 7.0, limit: int = 100) -> list[Going]:
    """Campaigns that something was written about lately, and those that run, the newest first."""
    c = t.campaign.c
    since = db_now(connection) - timedelta(days=days)
    live = c.state.in_([CampaignState.RUNNING, CampaignState.PAUSED])
    query = sa.select(c.id, c.name, c.state, c.spec, c.wall_seconds).where(sa.or_(c.updated_at > since, live))
    return [Going(*row) for row in connection.execute(query.order_by(c.id.desc()).limit(limit)).all()]


def totals(connection: Connection, campaign_id: int) -> Totals:
    """Counted in indexes that hold all that is asked, from the beginning of the campaign."""
    names = {one.id: one.name for one in rungs(connection, campaign_id)}
    query = sa.select(_A.rung_id, _A.outcome, sa.func.count()).where(
        _A.rung_id.in_(list(names)), _A.outcome.is_not(None)
    )
    attempts = {
        (names[rung_id], str(outcome)): int(n)
        for rung_id, outcome, n in connection.execute(query.group_by(_A.rung_id, _A.outcome)).all()
    }
    late = sa.select(_A.rung_id, _A.outcome, sa.func.count()).where(
        _A.campaign_id == campaign_id, _A.state == AttemptState.STALE, _A.rung_id.is_not(None)
    )
    stale = dict[str, int]()
    for rung_id, outcome, n in connection.execute(late.group_by(_A.rung_id, _A.outcome)).all():
        rung = names[rung_id]
        stale[rung] = stale.get(rung, 0) + int(n)
        if outcome is not None and outcome != Outcome.LOST:
            attempts[rung, str(outcome)] = attempts.get((rung, str(outcome)), 0) - int(n)
            attempts[rung, str(Outcome.LOST)] = attempts.get((rung, str(Outcome.LOST)), 0) + int(n)
    s = t.spend.c
    booked = sa.select(s.rung_id, s.resource, sa.func.sum(s.amount)).where(s.campaign_id == campaign_id)
    spent = {
        (names.get(rung_id, ""), str(resource)): float(amount)
        for rung_id, resource, amount in connection.execute(booked.group_by(s.rung_id, s.resource)).all()
    }
    return Totals(attempts, stale, spent)
