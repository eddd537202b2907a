"""Jobs as the CLI and the reports list them: page by page, counted by state, with the result of their last attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.states_and_needs import JobState, ReportedProgress
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue.attempts import progress_of
from sciagent.store.job_queue.jobs import JOBS_WITH_NAMES

# the order of the states in a list of jobs
STATE_ORDER = (
    JobState.RUNNING,
    JobState.QUEUED,
    JobState.QUARANTINED,
    JobState.FAILED,
    JobState.CANCELLED,
    JobState.DONE,
)
_J = t.job.c


class JobStanding(NamedTuple):
    """The state of a job, for code that is about to change it."""

    id: int
    campaign_id: int
    rung_id: int
    candidate_id: int
    state: JobState


def job_standings(connection: Connection, job_ids: Sequence[int]) -> list[JobStanding]:
    """The jobs with these ids, in order of id; unknown ids are left out."""
    return _job_standings(connection, among(connection, _J.id, job_ids))


def in_states(connection: Connection, campaign_id: int, states: Sequence[JobState], limit: int) -> list[JobStanding]:
    """At most `limit` jobs of the campaign in these states."""
    return _job_standings(connection, _J.campaign_id == campaign_id, _J.state.in_(states), limit=limit)


def _job_standings(connection: Connection, *conditions: Any, limit: int | None = None) -> list[JobStanding]:
    """The jobs that meet the conditions, in order of id."""
    columns = [_J[name] for name in JobStanding._fields]
    query = sa.select(*columns).where(*conditions).order_by(_J.id).limit(limit)
    rows = connection.execute(query).all()
    return [JobStanding(row.id, row.campaign_id, row.rung_id, row.candidate_id, JobState(row.state)) for row in rows]


@dataclass(frozen=True)
class JobRow:
    """A job as it is shown in a list."""

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
    """The owner of its last attempt."""
    since: datetime
    """When its last attempt ended or started; without an attempt, when the job last changed."""
    outcome: str | None
    """Outcome of the last attempt that has ended; `reason` and `detail` belong to the same attempt."""
    reason: str | None
    detail: str
    progress: ReportedProgress | None = None
    """The last report of progress of the last attempt; None if it has reported none."""


def page(
    connection: Connection,
    campaign_ids: Sequence[int],
    limit: int,
    *,
    states: Sequence[JobState] = STATE_ORDER,
    rung_ids: Sequence[int] | None = None,
    after: int | None = None,
) -> list[JobRow]:
    """The next `limit` jobs after job `after`, by state as in `STATE_ORDER`, then by priority, then newest first.

    rung_ids: only jobs of these rungs. A job is sorted by its present state, also if the state has just changed.
    """
    last_listed = None  # the job that ended the page before
    if after is not None:
        job_query = sa.select(_J.state, _J.priority, _J.id).where(_J.id == after)
        last_listed = connection.execute(job_query).one_or_none()
    remaining_states: Sequence[JobState] = STATE_ORDER
    if last_listed is not None:
        remaining_states = STATE_ORDER[STATE_ORDER.index(JobState(last_listed.state)) :]
    job_ids = list[int]()
    for state in remaining_states:
        if state not in states:
            continue
        behind = None
        if last_listed is not None and last_listed.state == state:
            behind = (last_listed.priority, last_listed.id)
        n_missing = limit - len(job_ids)
        job_ids += _ids(connection, campaign_ids, state, n_missing, rung_ids, behind)
        if len(job_ids) >= limit:
            break
    return job_rows(connection, job_ids)


def _ids(
    connection: Connection,
    campaign_ids: Sequence[int],
    state: JobState,
    limit: int,
    rung_ids: Sequence[int] | None,
    behind: tuple[float, int] | None,
) -> list[int]:
    """Ids of the next jobs in one state. Each campaign has its own query, since only then an index gives the order.

    behind: (priority, id) of the last job that was listed; None: the list of this state begins.
    """
    ranked = list[tuple[float, int]]()
    for campaign_id in campaign_ids:
        query = sa.select(_J.priority, _J.id).where(_J.campaign_id == campaign_id, _J.state == state)
        if rung_ids is not None:
            query = query.where(_J.rung_id.in_(rung_ids))
        if behind is not None:
            priority, id_ = behind
            query = query.where(_J.priority <= priority, sa.or_(_J.priority < priority, _J.id < id_))
        query = query.order_by(_J.priority.desc(), _J.id.desc()).limit(limit)
        ranked += [(priority, id_) for priority, id_ in connection.execute(query).all()]
    return [id_ for _, id_ in sorted(ranked, reverse=True)[:limit]]


def job_rows(connection: Connection, job_ids: Sequence[int]) -> list[JobRow]:
    """The jobs with these ids, in the order given; unknown ids are left out."""
    a = t.attempt.c
    last = t.attempt.alias().c
    newest = sa.select(sa.func.max(last.id)).where(last.job_id == _J.id).correlate(t.job).scalar_subquery()
    names = (t.campaign.c.name, t.rung.c.name, t.candidate.c.key, t.candidate.c.text)
    of_job = (_J.state, _J.queue, _J.external, _J.priority, _J.attempts, _J.kills, _J.losses, _J.cancel_requested)
    query = (
        sa.select(_J.id, *names, *of_job, a.owner, sa.func.coalesce(a.ended_at, a.started_at, _J.updated_at))
        .add_columns(a.progress, a.progress_at)
        .select_from(JOBS_WITH_NAMES.outerjoin(t.attempt, a.id == newest))
        .where(among(connection, _J.id, job_ids))
    )
    ended = sa.select(a.job_id, a.outcome, a.reason, sa.func.coalesce(a.detail, ""))
    ended = ended.where(among(connection, a.job_id, job_ids), a.outcome.is_not(None)).order_by(a.id)
    # attempts are in order of id, so that the last one of a job replaces the others
    results = {job_id: result for job_id, *result in connection.execute(ended).all()}
    no_result = [None, None, ""]  # outcome, reason and detail of a job without an ended attempt
    by_id = dict[int, JobRow]()
    now = db_now(connection)
    for *row, progress, reported_at in connection.execute(query).all():
        job_id = row[0]
        result = results.get(job_id, no_result)
        by_id[job_id] = JobRow(*[*row, *result, progress_of(progress, reported_at, now)])
    return [by_id[job_id] for job_id in job_ids if job_id in by_id]


def counts(
    connection: Connection, campaign_ids: Sequence[int], rung_ids: Sequence[int] | None = None
) -> dict[str, int]:
    """{state: number of jobs} of these campaigns; states without jobs are left out.

    rung_ids: count the jobs of these rungs instead; None: all jobs of the campaigns.
    """
    condition = _J.campaign_id.in_(campaign_ids) if rung_ids is None else _J.rung_id.in_(rung_ids)
    query = sa.select(_J.state, sa.func.count()).where(condition).group_by(_J.state)
    by_state = {state: n for state, n in connection.execute(query).all()}
    return {str(state): by_state[state] for state in STATE_ORDER if state in by_state}
