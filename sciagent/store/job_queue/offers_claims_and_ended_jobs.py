"""Jobs that any worker may take: offered under the name of a queue, claimed most urgent first, settled by their driver.

Every write is checked by the fence of the claim, and all times come from the database's clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain import lab_messages_and_codes
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.states_and_needs import CORES, GPU, JobState, Standing, parse_needs
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among, execute_many
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue import jobs, leases, workers_and_capacity
from sciagent.store.job_queue.jobs import Offer
from sciagent.store.job_queue.leases import Claim
from sciagent.store.job_queue.workers_and_capacity import FreeResources, NewWorker

_OFFER_STATEMENT = sa.update(t.job).where(t.job.c.id == sa.bindparam("offered_id"), t.job.c.state == JobState.QUEUED)


def offer_many(connection: Connection, offers: Mapping[int, Offer]) -> None:
    """Offer queued jobs to workers. offers: {job id: offer}."""
    rows = [{"offered_id": job_id, "external": None, **jobs.offer_columns(offer)} for job_id, offer in offers.items()]
    execute_many(connection, _OFFER_STATEMENT, rows)


def restate_needs(connection: Connection, by_rung: Mapping[int, str | None]) -> None:
    """Write changed needs into the queued, offered jobs of these rungs. by_rung: {rung id: needs}."""
    j = t.job.c
    for rung_id, needs in by_rung.items():
        differs = j.needs.is_not(None) if needs is None else sa.func.coalesce(j.needs, "") != needs
        is_offered = sa.and_(j.state == JobState.QUEUED, j.queue.is_not(None))
        connection.execute(sa.update(t.job).where(j.rung_id == rung_id, is_offered, differs).values(needs=needs))


def withdraw(connection: Connection, campaign_id: int) -> list[int]:
    """Withdraw the offers of jobs that no worker has claimed, except work of people; returns the ids of the jobs.

    The jobs stay queued for a driver.
    """
    j = t.job.c
    withdrawn = connection.execute(
        sa.update(t.job)
        .where(j.campaign_id == campaign_id, j.state == JobState.QUEUED, j.queue != lab_messages_and_codes.QUEUE)
        .values(queue=None, external=None, updated_at=db_now(connection))
        .returning(j.id)
    )
    return list(withdrawn.scalars())


JobKinds = tuple[tuple[str | None, float], ...]
"""(needs, largest memory in MB) of the jobs that fit a worker; needs None: one core."""


@dataclass(frozen=True)
class _Queries:
    """The queries of a worker for jobs that it may take now."""

    campaigns: sa.Select[Any]
    """Campaigns that have such jobs, each with the priority of its most urgent job."""
    most_urgent: tuple[sa.Select[Any], ...]
    """For each queue, the most urgent job of a campaign, locked."""
    companions: sa.Select[Any]
    """Further jobs of the same rung that have not failed before, locked, most urgent first."""


@lru_cache(maxsize=64)
def _queries(queues: tuple[str, ...], kinds: JobKinds, skip: tuple[int, ...], seconds: float | None) -> _Queries:
    """Returns a worker's queries. skip, seconds: as in `claim_next`.

    The queries are cached, since building them anew makes a claim take 1.4 times as long.
    """
    j = t.job.c
    fits_a_kind = sa.or_(*(_is_of_kind(needs, max_memory_mb) for needs, max_memory_mb in kinds))
    may_take = [j.state == JobState.QUEUED, j.external.is_(None), sa.not_(j.cancel_requested), fits_a_kind]
    if skip:
        may_take.append(j.rung_id.not_in(skip))
    if seconds is not None:
        may_take.append(j.seconds <= seconds)
    has_failed = sa.or_(j.kills > 0, j.losses > 0)
    by_urgency = (
        sa.select(j.id, j.queue, j.rung_id, j.priority, j.needs, j.seconds, has_failed.label("failed"))
        .add_columns(t.rung.c.request)
        .join(t.rung, t.rung.c.id == j.rung_id)
        .where(*may_take)
        .order_by(j.priority.desc(), j.id)
        .with_for_update(skip_locked=True, of=t.job)
    )
    campaigns = (
        sa.select(j.campaign_id, sa.func.max(j.priority).label("priority"))
        .where(*may_take, j.queue.in_(queues))
        .group_by(j.campaign_id)
    )
    of_campaign = by_urgency.where(j.campaign_id == sa.bindparam("campaign"))
    companions = by_urgency.where(
        j.queue == sa.bindparam("queue"),
        j.rung_id == sa.bindparam("rung"),
        j.id != sa.bindparam("job"),
        sa.not_(has_failed),
    )
    most_urgent = tuple(of_campaign.where(j.queue == queue).limit(1) for queue in queues)
    return _Queries(campaigns, most_urgent, companions)


def _is_of_kind(needs: str | None, max_memory_mb: float) -> sa.ColumnElement[bool]:
    """Whether a job has these needs, and a memory limit of at most `max_memory_mb` (infinity: any)."""
    j = t.job.c
    if max_memory_mb == math.inf:
        return sa.and_(j.needs == needs, sa.true())
    return sa.and_(j.needs == needs, sa.or_(j.memory_mb.is_(None), j.memory_mb <= max_memory_mb))


def _campaigns_in_turn(
    connection: Connection, campaigns: sa.Select[Any], queues: Sequence[str], after: int
) -> list[int]:
    """Ids of campaigns in the order in which workers serve them.

    Campaigns with a job that a person promoted come first, then campaigns with the fewest running jobs. Priorities of
    two campaigns are not compared, since they have different units. Ties are served in turn, beginning after the
    campaign with the id `after`.
    """
    j = t.job.c
    waiting = connection.execute(campaigns).all()
    if len(waiting) < 2:
        return [row.campaign_id for row in waiting]
    query = sa.select(j.campaign_id, sa.func.count()).where(
        j.state == JobState.RUNNING, j.lease_until.is_not(None), j.queue.in_(queues)
    )
    n_running = {id_: int(n) for id_, n in connection.execute(query.group_by(j.campaign_id))}
    order = []
    for campaign_id, priority in waiting:
        has_no_promoted_job = priority < jobs.PREFERRED
        is_later_in_turn = campaign_id <= after
        order.append((has_no_promoted_job, n_running.get(campaign_id, 0), is_later_in_turn, campaign_id))
    return [campaign_id for *_, campaign_id in sorted(order)]


def claim_next(
    connection: Connection,
    queues: Sequence[str],
    owner: str,
    *,
    worker: NewWorker | None = None,
    memory_mb: float = math.inf,
    skip: Sequence[int] = (),
    seconds: float | None = None,
    after: int = 0,
) -> list[Claim]:
    """Claim the most urgent job that fits, from the campaign whose turn it is; returns [] if there is none.

    If the verifier runs several jobs together, further jobs of the same rung are claimed with this job. A job whose
    process or worker died before is claimed alone, since it may be the cause.
    worker: the worker, with whose name `owner` begins; None if a cluster gave this slot one core and `memory_mb`.
    skip: ids of rungs that the worker cannot run. seconds: longest expected duration of what is claimed. after: id of
    the campaign whose job this slot ran last.
    On PostgreSQL a row that another worker has locked is skipped.
    """
    free = None
    kinds: JobKinds = ((None, memory_mb),)
    if worker is not None:
        free, kinds = _fitting(connection, queues, worker)
    if not kinds:
        return []
    queries = _queries(tuple(queues), kinds, tuple(skip), seconds)
    campaign_ids = _campaigns_in_turn(connection, queries.campaigns, queues, after)
    first = _most_urgent_job(connection, queries, campaign_ids)
    if first is None:
        return []
    max_seconds = math.inf if seconds is None else seconds
    job_ids = [first.id, *_companions(connection, queries, first, max_seconds)]
    claims = leases.claim_many(connection, job_ids, owner, together=True)
    # the first job of a group holds the resources for all jobs, since they run one after the other; a job without needs
    # takes one core, and nothing is marked where resources are not counted
    if free is not None and first.needs is not None and first.id in claims:
        claims[first.id] = _hold_resources(connection, claims[first.id], free.holds(parse_needs(first.needs)))
    return [claims[job_id] for job_id in job_ids if job_id in claims]


def _fitting(connection: Connection, queues: Sequence[str], worker: NewWorker) -> tuple[FreeResources | None, JobKinds]:
    """The free resources of the worker, and the kinds of jobs that fit.

    Free resources are not counted (None) if all jobs of the queues need one core and each slot has one.
    """
    needed = workers_and_capacity.distinct_needs(connection, queues, jobs.UNFINISHED)
    free = None
    fitting = [None, *needed]
    if needed or worker.amounts[CORES] < worker.slots:
        free = workers_and_capacity.free_resources(connection, worker)
        fitting = [kind for kind in fitting if free.fits(parse_needs(kind))]
    return free, tuple((kind, worker.memory_for(parse_needs(kind))) for kind in fitting)


def _most_urgent_job(connection: Connection, queries: _Queries, campaign_ids: Sequence[int]) -> Any:
    """The row of the most urgent job of the first campaign that has one, locked; None if no campaign has one."""
    for campaign_id in campaign_ids:
        first_of_queues = list[Any]()
        for query in queries.most_urgent:
            first_of_queues += connection.execute(query, {"campaign": campaign_id}).all()
        if first_of_queues:
            return max(first_of_queues, key=lambda row: row.priority)
    return None


def _companions(connection: Connection, queries: _Queries, first: Any, seconds: float) -> list[int]:
    """Ids of the jobs that run in the same call as the job `first`. seconds: longest expected duration of the call."""
    request = first.request or {}
    together = request.get("together", 1)
    if together == 1 or first.failed:
        return []
    parameters = {"queue": first.queue, "rung": first.rung_id, "job": first.id}
    job_ids = []
    remaining_seconds = seconds - (first.seconds or 0.0)
    for job in connection.execute(queries.companions.limit(together - 1), parameters).all():
        job_seconds = job.seconds or 0.0
        if job.needs == first.needs and job_seconds <= remaining_seconds:
            remaining_seconds -= job_seconds
            job_ids.append(job.id)
    return job_ids


def _hold_resources(connection: Connection, claim: Claim, holds: Mapping[str, Any]) -> Claim:
    """Mark the resources as in use until the attempt ends. Returns the claim with its GPUs."""
    connection.execute(sa.update(t.attempt).where(t.attempt.c.id == claim.attempt_id).values(holds=holds))
    return replace(claim, gpus=tuple(holds.get(GPU, ())))


def campaigns_by_rung(connection: Connection, job_ids: Sequence[int]) -> dict[int, int]:
    """{rung id: campaign id} of these jobs."""
    j = t.job.c
    query = sa.select(j.rung_id, j.campaign_id).where(among(connection, j.id, job_ids)).distinct()
    return {rung_id: campaign_id for rung_id, campaign_id in connection.execute(query)}


class OutstandingJob(NamedTuple):
    """A job that a driver has offered and not settled yet."""

    job_id: int
    candidate_id: int
    rung_id: int
    last_counted: int = 0
    """Id of the job's last attempt whose cost the driver has counted."""


def outstanding(connection: Connection, campaign_id: int) -> list[OutstandingJob]:
    """The offered jobs of the campaign that its driver has not settled.

    They are the jobs, in any state, for which candidates are pending, and the control's jobs that are not over.
    """
    cc = t.campaign_candidate.c
    j = t.job.c
    r = t.rung.c
    a = t.attempt.c
    last_ended = sa.select(sa.func.max(a.id)).where(a.job_id == j.id, a.ended_at.is_not(None))
    columns = (j.id, j.candidate_id, j.rung_id, sa.func.coalesce(last_ended.scalar_subquery(), 0))
    of_pending = (
        sa.select(*columns)
        .select_from(t.campaign_candidate)
        .join(t.rung, sa.and_(r.campaign_id == cc.campaign_id, r.position == cc.position))
        .join(t.job, sa.and_(j.campaign_id == cc.campaign_id, j.rung_id == r.id, j.candidate_id == cc.candidate_id))
        .where(cc.campaign_id == campaign_id, cc.standing == Standing.PENDING, j.queue.is_not(None))
    )
    is_unfinished = j.state.in_(jobs.UNFINISHED)
    of_control = (
        sa.select(*columns)
        .select_from(t.rung.join(t.job, j.rung_id == r.id))
        .where(r.campaign_id == campaign_id, r.control == sa.true(), is_unfinished, j.queue.is_not(None))
    )
    rows = [*connection.execute(of_pending).all(), *connection.execute(of_control).all()]
    return [OutstandingJob(*row) for row in rows]


def last_attempts(connection: Connection, job_ids: Sequence[int]) -> dict[int, int]:
    """{job id: id of the last attempt that has ended} of the jobs that have one."""
    a = t.attempt.c
    query = sa.select(a.job_id, sa.func.max(a.id)).where(among(connection, a.job_id, job_ids), a.ended_at.is_not(None))
    return {job_id: id_ for job_id, id_ in connection.execute(query.group_by(a.job_id))}


@dataclass(frozen=True)
class EndedJob:
    """An offered job that has ended."""

    job_id: int
    state: JobState
    cost: Cost
    """Cost of the attempts that the driver has not counted yet."""
    wall_seconds: float | None
    """Wall time of the last attempt that the driver has not counted yet; None if there is no such attempt.

    `reason` and `detail` are of the same attempt.
    """
    outcome: Outcome | None
    reason: Reason | None
    detail: str
    kills: int
    losses: int


def ended_jobs(connection: Connection, outstanding: Mapping[int, OutstandingJob]) -> list[EndedJob]:
    """Returns the offered jobs that are neither queued nor running. outstanding: {job id: offered job}."""
    j = t.job.c
    a = t.attempt.c
    query = (
        sa.select(j.id, j.state, j.outcome, j.kills, j.losses)
        .add_columns(a.id.label("attempt_id"), a.cost, a.wall_seconds, a.reason, a.detail)
        .outerjoin(t.attempt, a.job_id == j.id)
        .where(among(connection, j.id, list(outstanding)), j.state.not_in(jobs.UNFINISHED))
        .order_by(j.id, a.id)
    )
    rows_by_job: dict[int, list[Any]] = {}
    for row in connection.execute(query).all():
        rows_by_job.setdefault(row.id, []).append(row)
    return [_ended_job(rows, outstanding[job_id].last_counted) for job_id, rows in rows_by_job.items()]


def _ended_job(rows: Sequence[Any], last_counted: int) -> EndedJob:
    """Returns an ended job. rows: one for each of its attempts. last_counted: id of the last attempt that its driver
    has counted."""
    job = rows[0]
    attempts = [row for row in rows if row.attempt_id is not None and row.attempt_id > last_counted]
    wall_seconds = None
    reason = None
    detail = ""
    if attempts:
        last = attempts[-1]
        wall_seconds = last.wall_seconds
        reason = Reason(last.reason) if last.reason else None
        detail = last.detail or ""
    return EndedJob(
        job_id=job.id,
        state=JobState(job.state),
        cost=sum((Cost(attempt.cost) for attempt in attempts), Cost()),
        wall_seconds=wall_seconds,
        outcome=Outcome(job.outcome) if job.outcome else None,
        reason=reason,
        detail=detail,
        kills=job.kills,
        losses=job.losses,
    )
