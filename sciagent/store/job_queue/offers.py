"""Jobs that any worker may take: offered under the name of a queue, claimed most urgent first, settled by their driver.

Every write is checked by the fence of the claim, and all times come from the database's clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain import lab
from sciagent.domain.cost import Cost
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.states import CORES, GPU, JobState, Standing, read
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among, execute_many
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue import jobs, leases, workers
from sciagent.store.job_queue.jobs import Offer
from sciagent.store.job_queue.leases import Claim
from sciagent.store.job_queue.workers import Free, NewWorker

_OFFER = sa.update(t.job).where(t.job.c.id == sa.bindparam("of"), t.job.c.state == JobState.QUEUED)


def offer_many(connection: Connection, offers: Mapping[int, Offer]) -> None:
    """Offer queued jobs to workers. offers: {job id: offer}."""
    rows = [{"of": job_id, "external": None, **jobs.offer_columns(offer)} for job_id, offer in offers.items()]
    execute_many(connection, _OFFER, rows)


def restate_needs(connection: Connection, by_rung: Mapping[int, str | None]) -> None:
    """Write changed needs into the offered jobs of these rungs. by_rung: needs by rung id."""
    j = t.job.c
    for rung_id, needs in by_rung.items():
        changed = j.needs.is_not(None) if needs is None else sa.func.coalesce(j.needs, "") != needs
        waiting = (j.rung_id == rung_id, j.state == JobState.QUEUED, j.queue.is_not(None), changed)
        connection.execute(sa.update(t.job).where(*waiting).values(needs=needs))


def withdraw(connection: Connection, campaign_id: int) -> list[int]:
    """Withdraw the offers of jobs that no worker has claimed, except work of people; returns their ids. They stay
    queued for a driver."""
    j = t.job.c
    changed = connection.execute(
        sa.update(t.job)
        .where(j.campaign_id == campaign_id, j.state == JobState.QUEUED, j.queue != lab.QUEUE)
        .values(queue=None, external=None, updated_at=db_now(connection))
        .returning(j.id)
    )
    return list(changed.scalars())


# (needs, largest memory in MB) of the jobs that fit a worker; needs None: one core
Kinds = tuple[tuple[str | None, float], ...]


@dataclass(frozen=True)
class _Queries:
    """The queries of a worker for jobs that it may take now."""

    campaigns: sa.Select[Any]
    """Campaigns that have such jobs, each with the priority of its most urgent one."""
    first: tuple[sa.Select[Any], ...]
    """For each queue, the most urgent such job of a campaign, locked."""
    alike: sa.Select[Any]
    """Further jobs of the same rung that have not failed before, locked, most urgent first."""


@lru_cache(maxsize=64)
def _queries(queues: tuple[str, ...], kinds: Kinds, skip: tuple[int, ...], seconds: float | None) -> _Queries:
    """Returns a worker's queries. They are kept, since building them anew makes a claim take 1.4 times as long."""
    j = t.job.c
    of_kind = [
        sa.and_(j.needs == needs, sa.true() if most == math.inf else sa.or_(j.memory_mb.is_(None), j.memory_mb <= most))
        for needs, most in kinds
    ]
    may_take = [j.state == JobState.QUEUED, j.external.is_(None), sa.not_(j.cancel_requested), sa.or_(*of_kind)]
    may_take += [j.rung_id.not_in(skip)] if skip else []
    may_take += [] if seconds is None else [j.seconds <= seconds]
    failed = sa.or_(j.kills > 0, j.losses > 0)
    urgent = sa.select(
        j.id, j.queue, j.rung_id, j.priority, j.needs, j.seconds, failed.label("failed"), t.rung.c.request
    )
    urgent = urgent.join(t.rung, t.rung.c.id == j.rung_id).where(*may_take).order_by(j.priority.desc(), j.id)
    urgent = urgent.with_for_update(skip_locked=True, of=t.job)
    campaign = j.campaign_id == sa.bindparam("campaign")
    return _Queries(
        sa.select(j.campaign_id, sa.func.max(j.priority).label("priority"))
        .where(*may_take, j.queue.in_(queues))
        .group_by(j.campaign_id),
        tuple(urgent.where(j.queue == queue, campaign).limit(1) for queue in queues),
        urgent.where(
            j.queue == sa.bindparam("queue"),
            j.rung_id == sa.bindparam("rung"),
            j.id != sa.bindparam("job"),
            sa.not_(failed),
        ),
    )


def _turns(connection: Connection, campaigns: sa.Select[Any], queues: Sequence[str], after: int) -> list[int]:
    """Ids of campaigns in the order in which they are served.

    Campaigns with a job that a person preferred come first, then campaigns with the fewest running jobs, since
    priorities of two campaigns have different units. Ties are served in turn, starting after the campaign `after`.
    """
    j = t.job.c
    waiting = connection.execute(campaigns).all()
    if len(waiting) < 2:
        return [row.campaign_id for row in waiting]
    query = sa.select(j.campaign_id, sa.func.count()).where(
        j.state == JobState.RUNNING, j.lease_until.is_not(None), j.queue.in_(queues)
    )
    running = {id_: int(n) for id_, n in connection.execute(query.group_by(j.campaign_id))}
    order = [
        (row.priority < jobs.PREFERRED, running.get(row.campaign_id, 0), row.campaign_id <= after, row.campaign_id)
        for row in waiting
    ]
    return [id_ for *_, id_ in sorted(order)]


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

    If the verifier runs several jobs together, further jobs of the same rung are claimed with it. A job whose process
    or worker died before is claimed alone, since it may be the cause.
    worker: the worker, with whose name `owner` begins; None if a cluster gave this slot one core and `memory_mb`.
    skip: ids of rungs that the worker cannot run. seconds: longest expected duration of what is claimed. after: id of
    the campaign whose job this slot ran last.
    On PostgreSQL a row that another worker has locked is skipped.
    """
    free, kinds = (None, ((None, memory_mb),)) if worker is None else _fitting(connection, queues, worker)
    if not kinds:
        return []
    queries = _queries(tuple(queues), kinds, tuple(skip), seconds)
    first = _first(connection, queries, _turns(connection, queries.campaigns, queues, after))
    if first is None:
        return []
    job_ids = [first.id, *_companions(connection, queries, first, math.inf if seconds is None else seconds)]
    claims = leases.claim_many(connection, job_ids, owner, together=True)
    if free is not None and first.needs is not None and first.id in claims:
        # the first job of a group holds the resources for all, since they run one after the other
        claims[first.id] = _hold(connection, claims[first.id], free.holds(read(first.needs)))
    return [claims[job_id] for job_id in job_ids if job_id in claims]


def _fitting(connection: Connection, queues: Sequence[str], worker: NewWorker) -> tuple[Free | None, Kinds]:
    """The free resources of the worker, and the kinds of jobs that fit.

    Free resources are not counted (None) if all jobs of the queues need one core and each slot has one.
    """
    needed = workers.kinds(connection, queues, jobs.UNFINISHED)
    free = None
    fitting = [None, *needed]
    if needed or worker.amounts[CORES] < worker.slots:
        free = workers.free_at(connection, worker)
        fitting = [kind for kind in fitting if free.fits(read(kind))]
    return free, tuple((kind, worker.memory_for(read(kind))) for kind in fitting)


def _first(connection: Connection, queries: _Queries, turns: Sequence[int]) -> Any:
    """The most urgent job of the first campaign that has one, locked."""
    for campaign_id in turns:
        heads = list[Any]()
        for query in queries.first:
            heads += connection.execute(query, {"campaign": campaign_id}).all()
        if heads:
            return max(heads, key=lambda row: row.priority)
    return None


def _companions(connection: Connection, queries: _Queries, first: Any, seconds: float) -> list[int]:
    """Ids of the jobs that run in the same call as the first one. seconds: longest expected duration of the call."""
    together = (first.request or {}).get("together", 1)
    if together == 1 or first.failed:
        return []
    of = {"queue": first.queue, "rung": first.rung_id, "job": first.id}
    job_ids = []
    left = seconds - (first.seconds or 0.0)
    for job in connection.execute(queries.alike.limit(together - 1), of).all():
        if job.needs == first.needs and (job.seconds or 0.0) <= left:
            left -= job.seconds or 0.0
            job_ids.append(job.id)
    return job_ids


def _hold(connection: Connection, claim: Claim, holds: Mapping[str, Any]) -> Claim:
    """Mark the resources as in use until the attempt ends. Returns the claim with its GPUs."""
    connection.execute(sa.update(t.attempt).where(t.attempt.c.id == claim.attempt_id).values(holds=holds))
    return replace(claim, gpus=tuple(holds.get(GPU, ())))


def rungs_of(connection: Connection, job_ids: Sequence[int]) -> dict[int, int]:
    """{rung id: campaign id} of these jobs."""
    j = t.job.c
    query = sa.select(j.rung_id, j.campaign_id).where(among(connection, j.id, job_ids)).distinct()
    return {rung_id: campaign_id for rung_id, campaign_id in connection.execute(query)}


class Out(NamedTuple):
    """A job that a driver has offered and not settled yet."""

    job_id: int
    candidate_id: int
    rung_id: int
    seen: int = 0
    """Id of the job's last attempt whose cost the driver has counted."""


def outstanding(connection: Connection, campaign_id: int) -> list[Out]:
    """The offered jobs, in any state, for which candidates of the campaign are pending, and the control's that are
    not over."""
    cc = t.campaign_candidate.c
    j = t.job.c
    r = t.rung.c
    ended = sa.select(sa.func.max(t.attempt.c.id)).where(t.attempt.c.job_id == j.id, t.attempt.c.ended_at.is_not(None))
    query = (
        sa.select(j.id, j.candidate_id, j.rung_id, sa.func.coalesce(ended.scalar_subquery(), 0))
        .select_from(t.campaign_candidate)
        .join(t.rung, sa.and_(r.campaign_id == cc.campaign_id, r.position == cc.position))
        .join(t.job, sa.and_(j.campaign_id == cc.campaign_id, j.rung_id == r.id, j.candidate_id == cc.candidate_id))
        .where(cc.campaign_id == campaign_id, cc.standing == Standing.PENDING, j.queue.is_not(None))
    )
    live = j.state.in_((JobState.QUEUED, JobState.RUNNING))
    checks = (
        sa.select(j.id, j.candidate_id, j.rung_id, sa.func.coalesce(ended.scalar_subquery(), 0))
        .select_from(t.rung.join(t.job, j.rung_id == r.id))
        .where(r.campaign_id == campaign_id, r.control == sa.true(), live, j.queue.is_not(None))
    )
    rows = [*connection.execute(query).all(), *connection.execute(checks).all()]
    return [Out(*row) for row in rows]


def last_attempts(connection: Connection, job_ids: Sequence[int]) -> dict[int, int]:
    """{job id: id of the last attempt that has ended} of the jobs that have one."""
    a = t.attempt.c
    query = sa.select(a.job_id, sa.func.max(a.id)).where(among(connection, a.job_id, job_ids), a.ended_at.is_not(None))
    return {job_id: id_ for job_id, id_ in connection.execute(query.group_by(a.job_id))}


@dataclass(frozen=True)
class Ended:
    """An offered job that has ended."""

    job_id: int
    state: JobState
    cost: Cost
    """Cost of the attempts that the driver has not counted yet."""
    wall_seconds: float | None
    """Wall time of the last of these attempts; `reason` and `detail` are from the same attempt."""
    outcome: Outcome | None
    reason: Reason | None
    detail: str
    kills: int
    losses: int


def ended(connection: Connection, out: Mapping[int, Out]) -> list[Ended]:
    """Returns those of the offered jobs that are neither queued nor running. out: {job id: offered job}."""
    j = t.job.c
    a = t.attempt.c
    query = (
        sa.select(j.id, j.state, j.outcome, j.kills, j.losses, a.id, a.cost, a.wall_seconds, a.reason, a.detail)
        .outerjoin(t.attempt, a.job_id == j.id)
        .where(among(connection, j.id, list(out)), j.state.not_in(jobs.UNFINISHED))
        .order_by(j.id, a.id)
    )
    over = []
    for (job_id, state, outcome, kills, losses), rows in groupby(connection.execute(query).all(), lambda row: row[:5]):
        attempts = [row for row in rows if (row[5] or 0) > out[job_id].seen]
        last = attempts[-1] if attempts else None
        reason, detail = (Reason(last.reason) if last.reason else None, last.detail or "") if last else (None, "")
        over.append(
            Ended(
                job_id,
                JobState(state),
                sum((Cost(attempt.cost) for attempt in attempts), Cost()),
                last.wall_seconds if last else None,
                Outcome(outcome) if outcome else None,
                reason,
                detail,
                kills,
                losses,
            )
        )
    return over
