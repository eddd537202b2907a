"""Jobs as people look at them: page by page, counted by state, with what became of their last attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.states import JobState
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among

ORDER = (JobState.RUNNING, JobState.QUEUED, JobState.QUARANTINED, JobState.FAILED, JobState.CANCELLED, JobState.DONE)
_J = t.job.c


@dataclass(frozen=True)
class JobStanding:
    """A job as it stands, for whoever wants to change it."""

    id: int
    campaign_id: int
    rung_id: int
    candidate_id: int
    state: JobState


def standing(connection: Connection, job_ids: Sequence[int]) -> list[JobStanding]:
    """Those of these jobs that there are, in order of their ids."""
    query = sa.select(_J.id, _J.campaign_id, _J.rung_id, _J.candidate_id, _J.state)
    return _standing(connection, query.where(among(connection, _J.id, job_ids)).order_by(_J.id))


def in_states(connection: Connection, campaign_id: int, states: Sequence[JobState], limit: int) -> list[JobStanding]:
    """Jobs of the campaign in these states, at most so many."""
    query = sa.select(_J.id, _J.campaign_id, _J.rung_id, _J.candidate_id, _J.state)
    query = query.where(_J.campaign_id == campaign_id, _J.state.in_(states)).order_by(_J.id).limit(limit)
    return _standing(connection, query)


def _standing(connection: Connection, query: sa.Select[Any]) -> list[JobStanding]:
    return [
        JobStanding(one.id, one.campaign_id, one.rung_id, one.candidate_id, JobState(one.state))
        for one in connection.execute(query).all()
    ]


@dataclass(frozen=True)
class JobRow:
    """A job as it is shown. since: of its last attempt, or when it last changed; worker: who holds it, or held it last.
    outcome, reason, detail: of its last attempt that has ended."""

    id: int
    campaign: str
    rung: str
    key: str
    candidate: str
    state: str
    queue: str | None
    external: str | None
    priority: float
    attempts: int
    kills: int
    losses: int
    cancel_requested: bool
    worker: str | None
    since: datetime
    outcome: str | None
    reason: str | None
    detail: str


def page(
    connection: Connection,
    campaign_ids: Sequence[int],
    limit: int,
    *,
    states: Sequence[JobState] = ORDER,
    rung_ids: Sequence[int] | None = None,
    after: int | None = None,
) -> list[JobRow]:
    """The next jobs behind job `after`: state by state, as in `ORDER`, in each the most urgent first, then the newest.
    rung_ids: only of these rungs. A job that has changed its state meanwhile is behind or before, as it stands now."""
    begin = None
    if after is not None:
        begin = connection.execute(sa.select(_J.state, _J.priority, _J.id).where(_J.id == after)).one_or_none()
    found = list[int]()
    for state in (one for one in ORDER if one in states):
        if begin is not None and ORDER.index(state) < ORDER.index(JobState(begin.state)):
            continue
        behind = (begin.priority, begin.id) if begin is not None and begin.state == state else None
        found += _ids(connection, campaign_ids, state, limit - len(found), rung_ids, behind)
        if len(found) >= limit:
            break
    return rows(connection, found)


def _ids(
    connection: Connection,
    campaign_ids: Sequence[int],
    state: JobState,
    limit: int,
    rung_ids: Sequence[int] | None,
    behind: tuple[float, int] | None,
) -> list[int]:
    """One campaign after the other, for only so does an index hold the order."""
    found = list[tuple[float, int]]()
    for campaign_id in campaign_ids:
        query = sa.select(_J.priority, _J.id).where(_J.campaign_id == campaign_id, _J.state == state)
        if rung_ids is not None:
            query = query.where(_J.rung_id.in_(rung_ids))
        if behind is not None:
            priority, id_ = behind
            query = query.where(_J.priority <= priority, sa.or_(_J.priority < priority, _J.id < id_))
        query = query.order_by(_J.priority.desc(), _J.id.desc()).limit(limit)
        found += [(float(priority), int(id_)) for priority, id_ in connection.execute(query).all()]
    return [id_ for _, id_ in sorted(found, reverse=True)[:limit]]


def rows(connection: Connection, job_ids: Sequence[int]) -> list[JobRow]:
    """These jobs, in the order given."""
    if not job_ids:
        return []
    a, last = t.attempt.c, t.attempt.alias().c
    newest = sa.select(sa.func.max(last.id)).where(last.job_id == _J.id).correlate(t.job).scalar_subquery()
    query = (
        sa.select(
            _J.id, t.campaign.c.name, t.rung.c.name, t.candidate.c.key, t.candidate.c.text, _J.state, _J.queue,
            _J.external, _J.priority, _J.attempts, _J.kills, _J.losses, _J.cancel_requested, a.owner,
            sa.func.coalesce(a.ended_at, a.started_at, _J.updated_at),
        )
        .select_from(
            t.job.join(t.rung, t.rung.c.id == _J.rung_id).join(t.campaign, t.campaign.c.id == _J.campaign_id)
            .join(t.candidate, t.candidate.c.id == _J.candidate_id).outerjoin(t.attempt, a.id == newest)
        )
        .where(among(connection, _J.id, job_ids))
    )  # fmt: skip
    ended = _last_ended(connection, job_ids)
    nothing = (None, None, "")
    by_id: dict[int, JobRow] = {}
    for row in connection.execute(query).all():
        values: tuple[Any, ...] = (*row, *ended.get(int(row[0]), nothing))
        by_id[int(row[0])] = JobRow(*values)
    return [by_id[one] for one in job_ids if one in by_id]


def _last_ended(connection: Connection, job_ids: Sequence[int]) -> dict[int, tuple[str | None, str | None, str]]:
    """{job id: (outcome, reason, detail)} of the last attempt that has come to an end."""
    a = t.attempt.c
    query = sa.select(a.job_id, a.outcome, a.reason, a.detail)
    query = query.where(among(connection, a.job_id, job_ids), a.outcome.is_not(None)).order_by(a.id)
    return {int(job_id): (o, r, detail or "") for job_id, o, r, detail in connection.execute(query).all()}


def counts(
    connection: Connection, campaign_ids: Sequence[int], rung_ids: Sequence[int] | None = None
) -> dict[str, int]:
    """How many jobs of these campaigns are in each state; states that have none are left out."""
    of = _J.campaign_id.in_(campaign_ids) if rung_ids is None else _J.rung_id.in_(rung_ids)
    query = sa.select(_J.state, sa.func.count()).where(of).group_by(_J.state)
    found = {str(state): int(n) for state, n in connection.execute(query).all()}
    return {str(state): found[state] for state in ORDER if state in found}
